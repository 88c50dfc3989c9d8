"""Session databases: one SQLite file per session, schema version 4.

Idea: text is kept once, by line; everything else refers to it.
Invariant: a resent history adds nothing; one transaction per request.
Trap: files of versions 1 to 3 belong to an earlier system and are only read.
"""
