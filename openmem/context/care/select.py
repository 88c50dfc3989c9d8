"""Which rows, copies and payloads are to be forgotten: by a pattern, or a text as it stands.

Invariant: what could not be looked into is named, so that nothing is taken for gone that is not.
Trap: one hard pattern can take longer than a person lives, and half an answer is no ground to
forget on: a row that takes too long ends the whole selection, with nothing changed.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from openmem.base.errors import Failed, StoreUnavailable
from openmem.base.paths import Paths
from openmem.base.redact import mask_of
from openmem.context.care.erase import Rewrite
from openmem.context.care.files import hidden_entries
from openmem.context.care.places import payloads_holding, payloads_matching, spellings
from openmem.context.sandbox.line_rule import LineRule
from openmem.context.sandbox.pattern import does_not_compile
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.reader import SessionReader, StoredRow, open_entry
from openmem.context.store.tombstones import FORGOTTEN_RULE

ROW_SECONDS = 5.0
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A row that is to go. `line`: what of it may be shown to a person, "" for nothing."""

    seq: int
    role: str
    name: str
    created_at: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Rows of one session that are to go. `rewrite`: what they become where only a part goes."""

    entry: Entry
    rows: tuple[Chosen, ...]
    rewrite: Rewrite | None = None

    @property
    def seqs(self) -> tuple[int, ...]:
        return tuple(row.seq for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """All that is to go. `unread`: sessions that could not be looked into, with the reason."""

    selected: tuple[Selected, ...] = ()
    unread: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.selected)


def rule_of(pattern: str) -> LineRule:
    """Return a compiled pattern. Usage when it does not compile, with the place."""
    try:
        return LineRule(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise does_not_compile(
            getattr(error, "msg", str(error)), getattr(error, "pos", None)
        ) from None


def select_pattern(paths: Paths, pattern: str) -> Selection:
    """Return the rows with a line that the pattern matches, in any role. Usage as `rule_of`."""
    rule = rule_of(pattern)
    payloads = payloads_matching(paths, rule)

    def shown(row: StoredRow) -> str | None:
        if payloads.intersection(row.blob_ids):
            return row.text
        with _bounded(f"row {row.seq}"):
            return rule.matching_line(row.text)

    return _select(paths, shown)


def select_literal(paths: Paths, literal: str, key: bytes) -> Selection:
    """Return the rows that hold a text as it stands; they are masked there.

    A row whose payload holds it goes as a whole: nothing can be masked in an image.
    """
    mask = mask_of(FORGOTTEN_RULE, literal, key)
    # The longest first: the plain spelling may be a part of the escaped one.
    wanted = sorted(spellings(literal), key=len, reverse=True)
    payloads = payloads_holding(paths, literal)

    def rewrite(text: str) -> tuple[str, int]:
        count = 0
        for spelling in wanted:
            count += text.count(spelling)
            text = text.replace(spelling, mask)
        return text, count

    def in_text(row: StoredRow) -> str | None:
        text, count = rewrite(row.text)
        if not count:
            return None
        begin = text.rfind("\n", 0, text.index(mask)) + 1
        return text[begin:].partition("\n")[0]

    found = _select(paths, in_text, rewrite=rewrite)
    if not payloads:
        return found
    with_payload = _select(
        paths, lambda row: row.text if payloads.intersection(row.blob_ids) else None
    )
    return Selection(selected=(*with_payload.selected, *found.selected), unread=found.unread)


def masked_before(paths: Paths, literal: str, key: bytes) -> int:
    """Return how many rows hold a secret masked, by whatever rule: its mask ends as any of it."""
    ending = mask_of(FORGOTTEN_RULE, literal, key).rpartition(":")[2]
    found = _select(paths, lambda row: "" if f":{ending}" in row.text else None)
    return sum(len(choice.rows) for choice in found.selected)


def select_rows(paths: Paths, entry: Entry, seqs: Iterable[int]) -> Selection:
    """Return rows of a session by their number, and the same rows of other sessions.

    A fork of a conversation holds them, too. Rows that were forgotten before are passed over.
    Failed when there is no such row: then nothing is selected.
    """
    wanted = sorted(set(seqs))
    with open_entry(entry) as reader:
        rows = [reader.row(seq) for seq in wanted]
        missing = [seq for seq, row in zip(wanted, rows, strict=True) if row is None]
        gone = [row.seq for row in rows if row is not None and row.is_forgotten]
        if missing:
            named = ", ".join(map(str, missing))
            raise Failed(
                f"session {entry.session_id} has no row {named}; nothing was changed.",
                hint=f"`openmem context show {entry.session_id[:8]}` lists them.",
                code="not-found",
            )
        keys = _content_keys(reader, wanted)
    chosen = Selected(
        entry=entry,
        rows=tuple(
            _chosen(row, row.text) for row in rows if row is not None and row.seq not in gone
        ),
    )
    if not chosen.rows:
        return Selection()
    texts = {(row.role, row.kind, row.text) for row in rows if row is not None and row.text}
    others, unread = _same_rows(paths, chosen, keys, texts)
    return Selection(selected=(chosen, *others), unread=unread)


def _same_rows(
    paths: Paths, chosen: Selected, keys: set[str], texts: set[tuple[str, str, str]]
) -> tuple[list[Selected], tuple[str, ...]]:
    """Return the other rows that say the same: by content key, in older files by their text."""
    found: list[Selected] = []
    unread: list[str] = []
    for entry in _all_entries(paths):
        known = chosen.seqs if entry.path == chosen.entry.path else ()
        try:
            with open_entry(entry) as reader:
                if entry.is_legacy:
                    rows = [r for r in reader.rows() if (r.role, r.kind, r.text) in texts]
                else:
                    same = _rows_with_content(reader, keys)
                    rows = [r for seq in same if (r := reader.row(seq)) is not None]
        except StoreUnavailable as error:
            unread.append(error.message)
            continue
        more = tuple(_chosen(row, row.text) for row in rows if row.seq not in known)
        if more:
            found.append(Selected(entry=entry, rows=more))
    return found, tuple(unread)


def _content_keys(reader: SessionReader, seqs: Iterable[int]) -> set[str]:
    if reader.entry.is_legacy:
        return set()
    found = (
        reader.connection.execute(
            "SELECT lower(hex(content_key)) FROM row WHERE seq = ?", (seq,)
        ).fetchone()
        for seq in seqs
    )
    return {str(row[0]) for row in found if row and row[0]}


def _rows_with_content(reader: SessionReader, keys: set[str]) -> list[int]:
    seqs = reader.connection.execute(
        "SELECT seq, lower(hex(content_key)) FROM row WHERE masked >= 0 AND source IS NULL"
    )
    return [int(seq) for seq, content_key in seqs if content_key in keys]


def _select(
    paths: Paths, shown: Callable[[StoredRow], str | None], *, rewrite: Rewrite | None = None
) -> Selection:
    """Return the rows for which `shown` gives a line; rows that repeat another's text are left
    out, and so are those that were forgotten before."""
    selected: list[Selected] = []
    unread: list[str] = []
    for entry in _all_entries(paths):
        try:
            with open_entry(entry) as reader:
                rows = tuple(
                    _chosen(row, line)
                    for row in reader.rows()
                    if not row.source and not row.is_forgotten
                    if (line := shown(row)) is not None
                )
        except StoreUnavailable as error:
            unread.append(error.message)
            continue
        if rows:
            selected.append(Selected(entry=entry, rows=rows, rewrite=rewrite))
    return Selection(selected=tuple(selected), unread=tuple(unread))


def _all_entries(paths: Paths) -> list[Entry]:
    return [*entries(paths), *hidden_entries(paths)]


def _chosen(row: StoredRow, line: str) -> Chosen:
    return Chosen(
        seq=row.seq,
        role=row.role,
        name=row.name,
        created_at=row.created_at,
        line=line.strip()[:_SHOWN_CHARACTERS],
    )


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """End what takes too long. Failed; only the main thread can be ended so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise Failed(
            f"the pattern takes more than {ROW_SECONDS:g} s on {what}; nothing was changed.",
            hint="Nested repeats such as (a+)+ are what makes it slow.",
            code="pattern-failed",
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, ROW_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
