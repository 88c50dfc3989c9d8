"""One module per memory provider behind one protocol."""
