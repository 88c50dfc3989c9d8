"""Sessions that agents kept on disk, into the session stores.

Idea: sources are found, read and stored one after another; a cursor says how far each was read.
Invariant: what is read twice is stored once, and nothing of a denied folder is written anywhere.
Trap: the cursor is no promise, the keys of the rows are: it may be lost, or be behind.
"""
