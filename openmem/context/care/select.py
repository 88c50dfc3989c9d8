"""Which rows, and which copies, are to be forgotten: by a pattern, or a text as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from openmem.base.errors import Refused, StoreUnavailable
from openmem.base.io import read_bytes_or_none
from openmem.base.paths import Paths
from openmem.base.redact import mask_of
from openmem.context.care.files import copies, files_holding, hidden_entries
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.reader import StoredRow, open_entry
from openmem.context.store.tombstones import FORGOTTEN_RULE

_NO_TEXT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ufffd]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Rows of one session that are to go. `texts`: what they become where only a part goes."""

    entry: Entry
    seqs: tuple[int, ...]
    texts: tuple[tuple[int, str], ...] = ()


def select_rows(paths: Paths, wanted: Callable[[StoredRow], bool]) -> list[Selected]:
    """Return the rows of all sessions that a condition holds for, by session."""
    return [
        Selected(entry=entry, seqs=tuple(row.seq for row in rows))
        for entry, rows in _rows_of_all(paths, wanted)
    ]


def select_pattern(paths: Paths, pattern: str) -> list[Selected]:
    """Return the rows that hold a line which the pattern matches. Refused: it does not compile."""
    compiled = _compiled(pattern)
    return select_rows(
        paths, lambda row: any(compiled.search(line) for line in row.text.split("\n"))
    )


def copies_matching(paths: Paths, pattern: str) -> list[str]:
    """Return the copies of sessions (set aside, exported) in which a pattern matches.

    A file that was set aside is damaged: it is read as bytes, in the pieces of text that it holds.
    """
    compiled = _compiled(pattern)
    found: list[str] = []
    for path in copies(paths):
        data = read_bytes_or_none(path) or b""
        pieces = _NO_TEXT.split(data.decode("utf-8", "replace"))
        if any(compiled.search(piece) for piece in pieces):
            found.append(path)
    return found


def copies_holding(paths: Paths, literal: str) -> list[str]:
    """Return the copies of sessions that hold a text as it stands."""
    known = set(copies(paths))
    return [path for path in files_holding(paths, literal) if path in known]


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        place = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise Refused(f"the pattern does not compile: {error.msg}{place}.") from None


def select_literal(paths: Paths, literal: str, key: bytes) -> list[Selected]:
    """Return the rows that hold a text as it stands, with what they become when it is masked."""
    mask = mask_of(FORGOTTEN_RULE, literal, key)
    return [
        Selected(
            entry=entry,
            seqs=tuple(row.seq for row in rows),
            texts=tuple((row.seq, row.text.replace(literal, mask)) for row in rows),
        )
        for entry, rows in _rows_of_all(paths, lambda row: literal in row.text)
    ]


def _rows_of_all(
    paths: Paths, wanted: Callable[[StoredRow], bool]
) -> Iterable[tuple[Entry, list[StoredRow]]]:
    """Yield (session, rows) where there is any; rows that repeat another's text are left out."""
    for entry in [*entries(paths), *hidden_entries(paths)]:
        try:
            with open_entry(entry) as reader:
                rows = [row for row in reader.rows() if not row.source and wanted(row)]
        except StoreUnavailable:
            continue  # damaged or newer: named by `status` and `doctor`, and not ours to change
        if rows:
            yield entry, rows
