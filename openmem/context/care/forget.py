"""Forgetting: rows, sessions, projects, whatever a pattern or a literal text matches.

A receipt says what went and from where, without content. What a reader still holds is "pending":
its session is written down, and `finish_pending` clears it when the reader has gone.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from openmem.base.errors import NotFound, Refused, StoreUnavailable
from openmem.base.io import ensure_private_dir, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths
from openmem.base.redact import mask_of
from openmem.context.care.erase import clear_freed_bytes, erase_rows, replace_texts
from openmem.context.care.files import (
    exports_dir,
    named_blobs,
    remove_files,
    session_files,
)
from openmem.context.store.catalog import Entry, catalog_file, entries
from openmem.context.store.database import open_for_writing, session_file
from openmem.context.store.reader import StoredRow, open_entry
from openmem.context.store.tombstones import add_tombstones

_BUSY_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What was forgotten. `pending`: sessions whose freed bytes a reader still holds.

    `left`: places that hold it still, each with the reason.
    """

    sessions: tuple[str, ...] = ()
    rows: int = 0
    lines: int = 0
    blobs: int = 0
    files: int = 0
    tombstones: int = 0
    masked: int = 0
    pending: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __add__(self, other: ForgetReceipt) -> ForgetReceipt:
        return ForgetReceipt(
            sessions=tuple(dict.fromkeys(self.sessions + other.sessions)),
            rows=self.rows + other.rows,
            lines=self.lines + other.lines,
            blobs=self.blobs + other.blobs,
            files=self.files + other.files,
            tombstones=self.tombstones + other.tombstones,
            masked=self.masked + other.masked,
            pending=tuple(dict.fromkeys(self.pending + other.pending)),
            left=tuple(dict.fromkeys(self.left + other.left)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """Rows of one session that are to go. `texts`: what they become where only a part goes."""

    entry: Entry
    seqs: tuple[int, ...]
    texts: tuple[tuple[int, str], ...] = ()


def select_rows(paths: Paths, wanted: Callable[[StoredRow], bool]) -> list[Selected]:
    """Return the rows of all sessions that a condition holds for, by session."""
    found: list[Selected] = []
    for entry in entries(paths):
        try:
            with open_entry(entry) as reader:
                seqs = tuple(row.seq for row in reader.rows() if not row.source and wanted(row))
        except StoreUnavailable:
            continue  # damaged or newer: named by `status` and `doctor`, and not ours to change
        if seqs:
            found.append(Selected(entry=entry, seqs=seqs))
    return found


def select_pattern(paths: Paths, pattern: str) -> list[Selected]:
    """Return the rows that hold a line which the pattern matches. Refused: it does not compile."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        place = f" at character {error.pos + 1}" if error.pos is not None else ""
        raise Refused(f"the pattern does not compile: {error.msg}{place}.") from None
    return select_rows(
        paths, lambda row: any(compiled.search(line) for line in row.text.split("\n"))
    )


def select_literal(paths: Paths, literal: str, key: bytes) -> list[Selected]:
    """Return the rows that hold a text as it stands, with what they become when it is masked."""
    mask = mask_of("forgotten", literal, key)
    found: list[Selected] = []
    for entry in entries(paths):
        try:
            with open_entry(entry) as reader:
                texts = tuple(
                    (row.seq, row.text.replace(literal, mask))
                    for row in reader.rows()
                    if not row.source and literal in row.text
                )
        except StoreUnavailable:
            continue  # see select_rows
        if texts:
            found.append(Selected(entry=entry, seqs=tuple(s for s, _ in texts), texts=texts))
    return found


def forget_rows(paths: Paths, key: bytes, selected: Iterable[Selected]) -> ForgetReceipt:
    """Empty rows, or mask a part of them where `texts` says so. NotFound when there is none."""
    receipt = ForgetReceipt()
    any_row = False
    for choice in selected:
        any_row = True
        receipt += _forget_in(paths, key, choice)
    if not any_row:
        raise NotFound("nothing stored matches; nothing was changed.")
    return receipt + _sweep_blobs(paths)


def _forget_in(paths: Paths, key: bytes, choice: Selected) -> ForgetReceipt:
    sid = choice.entry.session_id
    if choice.entry.is_legacy:
        return ForgetReceipt(
            left=(f"session {sid}: written by an earlier system; forget the whole session",)
        )
    connection = open_for_writing(paths, sid, busy_seconds=_BUSY_SECONDS)
    try:
        connection.execute("BEGIN IMMEDIATE")
        if choice.texts:
            masked = replace_texts(connection, {seq: (text, 1) for seq, text in choice.texts}, key)
            receipt = ForgetReceipt(sessions=(sid,), masked=masked)
        else:
            erased = erase_rows(connection, choice.seqs, key)
            # Tombstones first: dying after them loses nothing, dying before would let it back in.
            stones = add_tombstones(paths, erased.keys)
            receipt = ForgetReceipt(
                sessions=(sid,), rows=erased.rows, lines=erased.lines, tombstones=stones
            )
        connection.execute("COMMIT")
        _mark_pending(paths, sid)
        if clear_freed_bytes(connection):
            _unmark_pending(paths, sid)
        else:
            receipt = replace(receipt, pending=(sid,))
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise StoreUnavailable(f"session {sid}: nothing was forgotten ({error}).") from error
    finally:
        connection.close()
    return receipt + _remove_exports(paths, sid)


def forget_session(paths: Paths, sid: str) -> ForgetReceipt:
    """Remove a session with all its files; its content is not stored again. NotFound: unknown."""
    files = [group for group in session_files(paths) if group.session_id == sid]
    if not files:
        raise NotFound(
            f"there is no stored session {sid}.",
            hint="`openmem context status` lists the sessions.",
        )
    stones = 0
    for entry in entries(paths):
        if entry.session_id != sid or entry.is_legacy:
            continue
        with open_entry(entry) as reader:
            keys = [
                (content_key or digest).hex()
                for content_key, digest in reader.connection.execute(
                    "SELECT content_key, digest FROM row"
                )
            ]
        stones = add_tombstones(paths, keys)
    removed = remove_files(files[0].paths)
    _forget_in_catalog(paths, sid)
    _unmark_pending(paths, sid)
    receipt = ForgetReceipt(sessions=(sid,), files=removed, tombstones=stones)
    return receipt + _remove_exports(paths, sid) + _sweep_blobs(paths)


def forget_sessions(paths: Paths, sids: Iterable[str]) -> ForgetReceipt:
    """Remove several sessions."""
    receipt = ForgetReceipt()
    for sid in sids:
        receipt += forget_session(paths, sid)
    return receipt


def finish_pending(paths: Paths) -> tuple[str, ...]:
    """Clear what earlier calls had to leave; return the sessions that are still held."""
    still: list[str] = []
    for sid in pending_sessions(paths):
        if not os.path.exists(session_file(paths, sid)):
            _unmark_pending(paths, sid)
            continue
        connection = open_for_writing(paths, sid, busy_seconds=1.0)
        try:
            if clear_freed_bytes(connection):
                _unmark_pending(paths, sid)
            else:
                still.append(sid)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"session {sid}: {error}.") from error
        finally:
            connection.close()
    return tuple(still)


def pending_sessions(paths: Paths) -> list[str]:
    """Return the sessions whose freed bytes are not cleared yet."""
    data = read_bytes_or_none(_pending_file(paths))
    if not data:
        return []
    try:
        found = json.loads(data)
    except ValueError:
        return [entry.session_id for entry in entries(paths) if not entry.is_legacy]
    return [str(sid) for sid in found] if isinstance(found, list) else []


def _pending_file(paths: Paths) -> str:
    return f"{paths.context_dir}/forget-pending.json"


def _mark_pending(paths: Paths, sid: str) -> None:
    ensure_private_dir(paths.context_dir)
    sids = sorted({*pending_sessions(paths), sid})
    write_atomic(_pending_file(paths), json.dumps(sids).encode("ascii"))


def _unmark_pending(paths: Paths, sid: str) -> None:
    sids = [other for other in pending_sessions(paths) if other != sid]
    if sids:
        write_atomic(_pending_file(paths), json.dumps(sids).encode("ascii"))
    else:
        remove_files([_pending_file(paths)])


def _remove_exports(paths: Paths, sid: str) -> ForgetReceipt:
    folder = exports_dir(paths)
    try:
        names = [name for name in os.listdir(folder) if name.rpartition(".")[0] == sid]
    except FileNotFoundError:
        return ForgetReceipt()
    return ForgetReceipt(files=remove_files(f"{folder}/{name}" for name in names))


def _sweep_blobs(paths: Paths) -> ForgetReceipt:
    named, unread = named_blobs(paths)
    left = tuple(f"blobs: session {sid} cannot be read, so none was removed" for sid in unread)
    if unread:
        return ForgetReceipt(left=left)
    try:
        names = os.listdir(paths.blobs_dir)
    except FileNotFoundError:
        return ForgetReceipt()
    gone = [name for name in names if name.partition(".")[0] not in named]
    return ForgetReceipt(blobs=remove_files(f"{paths.blobs_dir}/{name}" for name in gone))


def _forget_in_catalog(paths: Paths, sid: str) -> None:
    path = catalog_file(paths)
    if not os.path.exists(path):
        return
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("DELETE FROM session WHERE session_id = ?", (sid,))
        connection.execute("VACUUM")
    except sqlite3.Error:
        remove_files([path])  # only a cache: it fills again
    finally:
        connection.close()
