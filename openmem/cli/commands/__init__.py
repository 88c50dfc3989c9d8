"""One module per group of commands; each body imports what it runs."""
