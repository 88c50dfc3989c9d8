"""Wire formats: how each model API writes a conversation, and the rows it gives."""
