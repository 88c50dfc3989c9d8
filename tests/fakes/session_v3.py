"""Writes a session database of the earlier system, versions 1 to 3, as its contract states it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_VERSION_1 = """
CREATE TABLE messages (seq INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE,
  thread TEXT NOT NULL, role TEXT NOT NULL, kind TEXT NOT NULL, name TEXT, text TEXT NOT NULL,
  blob_id TEXT, in_context INTEGER NOT NULL DEFAULT 1, trimmed_at_seq INTEGER, trimmed_at TEXT,
  created_at TEXT NOT NULL);
CREATE INDEX messages_thread ON messages (thread, seq);
CREATE TABLE lines (id INTEGER PRIMARY KEY, message_seq INTEGER NOT NULL REFERENCES messages (seq),
  line_no INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (message_seq, line_no));
CREATE VIRTUAL TABLE messages_fts USING fts5 (text, content='messages', content_rowid='seq');
CREATE VIRTUAL TABLE lines_fts USING fts5 (text, content='lines', content_rowid='id');
CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, text) VALUES (new.seq, new.text); END;
CREATE TRIGGER lines_fts_insert AFTER INSERT ON lines BEGIN
  INSERT INTO lines_fts (rowid, text) VALUES (new.id, new.text); END;
CREATE TABLE vectors (message_seq INTEGER NOT NULL REFERENCES messages (seq), model TEXT NOT NULL,
  dim INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (message_seq, model));
"""
_VERSION_2 = """
CREATE TABLE events (id INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL,
  version TEXT NOT NULL, location TEXT, error TEXT, tokens_before INTEGER, tokens_after INTEGER,
  dropped INTEGER);
"""
_VERSION_3_COLUMNS = (
    "model TEXT",
    "thread_root TEXT",
    "trimmed INTEGER",
    "input_tokens INTEGER",
    "cache_read_tokens INTEGER",
    "cache_creation_tokens INTEGER",
    "output_tokens INTEGER",
    "breakpoints INTEGER",
    "breakpoint_at TEXT",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRow:
    """One row as the earlier system stored it."""

    role: str
    text: str
    kind: str = "text"
    name: str | None = None
    in_context: bool = True
    blob_id: str | None = None


def write_old_session(path: Path, rows: Sequence[OldRow], *, version: int = 3) -> Path:
    """Write a database of `version` (1, 2 or 3) in WAL mode, closed, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(_VERSION_1)
    if version >= 2:
        connection.executescript(_VERSION_2)
    if version >= 3:
        for column in _VERSION_3_COLUMNS:
            connection.execute(f"ALTER TABLE events ADD COLUMN {column}")
    connection.execute(f"PRAGMA user_version = {version}")
    with connection:
        for seq, row in enumerate(rows, 1):
            connection.execute(
                "INSERT INTO messages (seq, fingerprint, thread, role, kind, name, text, blob_id,"
                " in_context, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    seq,
                    f"{seq:032x}",
                    f"{1:032x}",
                    row.role,
                    row.kind,
                    row.name,
                    row.text,
                    row.blob_id,
                    int(row.in_context),
                    "2026-10-29T17:00:00Z",
                ),
            )
            connection.executemany(
                "INSERT INTO lines (message_seq, line_no, role, text) VALUES (?, ?, ?, ?)",
                [(seq, n, row.role, line) for n, line in enumerate(row.text.split("\n"), 1)],
            )
    connection.close()
    return path
