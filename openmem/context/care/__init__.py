"""Care of the session stores: retention, forgetting, masking what is stored, export.

Idea: what a person asks to be gone is gone from every place that held it, and a tombstone without
content keeps the next request from bringing it back.
Invariant: nothing says "done" while a byte of it may still be read; then it says "pending".
Trap: SQLite keeps deleted bytes in free pages, in the index's segments and in the WAL; only
optimize, VACUUM and a truncating checkpoint together clear them.
Source: design, section 6; users' report 34.
"""
