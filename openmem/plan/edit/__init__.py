"""Text in, text out: edits that keep a person's formatting, one module per file format."""
