"""The ledger's tables, version 1.

`entry` is append-only; triggers refuse to change or remove a row. `memory` is the current state,
kept in step inside the same transaction and rebuilt from the entries by `verify`. `words` holds the
texts, with the salt of their digest: erasing a row there erases both, and the chain still verifies.
"""

from __future__ import annotations

VERSION = 1

STATEMENTS = (
    """CREATE TABLE entry (number INTEGER PRIMARY KEY, at TEXT NOT NULL, verb TEXT NOT NULL,
    memory_id TEXT NOT NULL, bank TEXT NOT NULL, actor TEXT NOT NULL, provider TEXT NOT NULL,
    detail TEXT NOT NULL, text_digest TEXT NOT NULL, previous TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE)""",
    """CREATE TRIGGER entry_stays BEFORE UPDATE ON entry
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER entry_remains BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    "CREATE INDEX entry_memory ON entry (memory_id, number)",
    "CREATE TABLE words (memory_id TEXT PRIMARY KEY, salt BLOB NOT NULL, text TEXT NOT NULL)"
    " WITHOUT ROWID",
    """CREATE TABLE memory (memory_id TEXT PRIMARY KEY, bank TEXT NOT NULL, kind TEXT NOT NULL,
    trust TEXT NOT NULL, state TEXT NOT NULL, actor TEXT NOT NULL, session_id TEXT NOT NULL,
    row INTEGER NOT NULL, recorded_at TEXT NOT NULL, valid_from TEXT NOT NULL,
    valid_to TEXT NOT NULL, supersedes TEXT NOT NULL, superseded_by TEXT NOT NULL,
    normal BLOB NOT NULL, ended_at TEXT NOT NULL DEFAULT '') WITHOUT ROWID""",
    "CREATE INDEX memory_bank ON memory (bank, state, kind, trust, recorded_at)",
    "CREATE INDEX memory_normal ON memory (bank, normal)",
    "CREATE INDEX memory_ends ON memory (bank, valid_to) WHERE valid_to <> ''",
    # A forgotten statement's normalised digest, keyed; no content.
    """CREATE TABLE tombstone (bank TEXT NOT NULL, normal BLOB NOT NULL, at TEXT NOT NULL,
    PRIMARY KEY (bank, normal)) WITHOUT ROWID""",
    # What a provider has not been told yet, so that a provider that was down misses nothing.
    """CREATE TABLE outbox (number INTEGER PRIMARY KEY, provider TEXT NOT NULL,
    verb TEXT NOT NULL, memory_id TEXT NOT NULL, bank TEXT NOT NULL, at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT '')""",
)
