"""A session as JSON lines or as Markdown: in order, whole, masked once more on the way out.

What was stored before a rule was known, or by an earlier system, leaves the store masked, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from openmem.base.redact import redact
from openmem.context.store.reader import SessionReader, StoredRow

FORMATS = ("jsonl", "markdown")


def export_lines(
    reader: SessionReader, form: str, key: bytes, *, trimmed_only: bool = False
) -> Iterator[str]:
    """Yield the text of an export, line ends included.

    `form`: one of `FORMATS`. `key`: the installation's, with which masks are made.
    """
    rows = (_masked(row, key) for row in reader.rows() if not (trimmed_only and row.in_context))
    if form == "jsonl":
        yield from (_json_line(reader.session_id, row) for row in rows)
    else:
        yield from _markdown(reader, rows)


def _masked(row: StoredRow, key: bytes) -> StoredRow:
    found = redact(row.text, key)
    return replace(row, text=found.text, masked=row.masked + found.count) if found.count else row


def _json_line(sid: str, row: StoredRow) -> str:
    document = {
        "session_id": sid,
        "seq": row.seq,
        "thread": row.thread,
        "role": row.role,
        "kind": row.kind,
        "name": row.name or None,
        "text": row.text,
        "blob_ids": list(row.blob_ids),
        "in_context": row.in_context,
        "echo": row.echo,
        "masked": row.masked,
        "repeats": row.source or None,
        "created_at": row.created_at,
    }
    return json.dumps(document, ensure_ascii=False) + "\n"


def _markdown(reader: SessionReader, rows: Iterator[StoredRow]) -> Iterator[str]:
    entry = reader.entry
    yield f"# Session {entry.session_id}\n\n"
    for name, value in (("Agent", entry.agent), ("Folder", entry.cwd), ("Bank", entry.bank)):
        if value:
            yield f"- {name}: {value}\n"
    for row in rows:
        if row.source:
            continue  # says again what stands above
        title = f"{row.role}, {row.kind}" + (f" {row.name}" if row.name else "")
        state = "" if row.in_context else ", trimmed"
        yield f"\n## {row.seq}. {title}{state} ({row.created_at})\n\n"
        if row.is_forgotten:
            yield "(forgotten)\n"
        elif row.kind in ("tool_use", "tool_result"):
            fence = _fence(row.text)
            yield f"{fence}\n{row.text}\n{fence}\n"
        else:
            yield row.text + "\n"


def _fence(text: str) -> str:
    """Return a fence longer than any run of backquotes in the text."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return "`" * max(3, longest + 1)
