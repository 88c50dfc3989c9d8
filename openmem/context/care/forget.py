"""Forgetting: rows, sessions, projects, whatever a pattern or a literal text matches.

A receipt says what went and from where, without content. What a reader still holds is "pending":
its session is written down, and `finish_pending` clears it when the reader has gone.
Trap: text stands in more files than the session's: one that was set aside as damaged, one of an
earlier system under the same name, exports, payloads. What cannot be cleaned is named as left.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.care.erase import Erased, erase_rows, holders, replace_texts
from openmem.context.care.files import copies as copies_of
from openmem.context.care.files import files_holding, named_blobs, remove_files, session_files
from openmem.context.care.pending import clear
from openmem.context.care.select import Selected, copies_holding
from openmem.context.store.catalog import catalog_file, entries
from openmem.context.store.database import open_for_writing
from openmem.context.store.reader import open_entry
from openmem.context.store.tombstones import add_tombstones, add_word
from openmem.context.vectors.sidecar import drop as drop_vectors

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


def forget_rows(
    paths: Paths, key: bytes, selected: Iterable[Selected], copies: Iterable[str] = ()
) -> ForgetReceipt:
    """Empty rows, or mask a part of them where `texts` says so. NotFound when there is none.

    `copies`: files beside the sessions' own that go as a whole, as all copies of these sessions do.
    """
    chosen = list(selected)
    receipt = ForgetReceipt(files=remove_files(copies))
    if not chosen and not receipt.files:
        raise NotFound("nothing stored matches; nothing was changed.")
    blobs: set[str] = set()
    for choice in chosen:
        done, erased = _forget_in(paths, key, choice)
        receipt += done
        blobs.update(erased.blobs)
    return receipt + _remove_blobs(paths, blobs)


def forget_word(paths: Paths, key: bytes, word: str, selected: Iterable[Selected]) -> ForgetReceipt:
    """Mask a word in the rows that hold it and wherever it comes again; look for it everywhere.

    NotFound when no row and no copy holds it; then it is not kept out either.
    """
    chosen, copies = list(selected), copies_holding(paths, word)
    if not chosen and not copies:
        raise NotFound("nothing stored matches; nothing was changed.")
    # The mark first: dying after it loses nothing, dying before would let the word back in.
    receipt = ForgetReceipt(tombstones=add_word(paths, word, key))
    receipt += forget_rows(paths, key, chosen, copies)
    held = tuple(f"{sid}.v4.db" for sid in receipt.pending)
    left = tuple(
        f"{path} holds it still, and is not a file of the session stores"
        for path in files_holding(paths, word)
        if not held or not os.path.basename(path).startswith(held)
    )
    return receipt + ForgetReceipt(left=left)


def _forget_in(paths: Paths, key: bytes, choice: Selected) -> tuple[ForgetReceipt, Erased]:
    sid = choice.entry.session_id
    if choice.entry.is_legacy:
        left = f"session {sid}: written by an earlier system; forget the whole session"
        return ForgetReceipt(left=(left,)), Erased()
    connection = open_for_writing(paths, sid, busy_seconds=_BUSY_SECONDS)
    erased, masked, stones = Erased(), 0, 0
    try:
        connection.execute("BEGIN IMMEDIATE")
        if choice.texts:
            masked = replace_texts(connection, {seq: (text, 1) for seq, text in choice.texts}, key)
        else:
            erased = erase_rows(connection, choice.seqs, key)
            # Tombstones first: dying after them loses nothing, dying before would let it back in.
            stones = add_tombstones(paths, erased.keys)
        connection.execute("COMMIT")
        drop_vectors(paths, sid, holders(connection, choice.seqs))
        is_cleared = clear(paths, sid, connection)
    except (sqlite3.Error, OSError) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
            raise StoreUnavailable(f"session {sid}: nothing was forgotten ({error}).") from error
        is_cleared = False  # it is out of the tables; clearing its bytes is tried again
    finally:
        connection.close()
    receipt = ForgetReceipt(
        sessions=(sid,),
        rows=erased.rows,
        lines=erased.lines,
        tombstones=stones,
        masked=masked,
        pending=() if is_cleared else (sid,),
        files=remove_files(copies_of(paths, sid)),
    )
    return receipt, erased


def forget_session(paths: Paths, sid: str) -> ForgetReceipt:
    """Remove a session with all its files; its content is not stored again. NotFound: unknown."""
    files = [group for group in session_files(paths) if group.session_id == sid]
    if not files:
        raise NotFound(
            f"there is no stored session {sid}.",
            hint="`openmem context status` lists the sessions.",
        )
    stones = 0
    blobs: set[str] = set()
    left: tuple[str, ...] = ()
    for entry in entries(paths):
        if entry.session_id != sid or entry.is_legacy:
            continue
        try:
            with open_entry(entry) as reader:
                rows = reader.connection.execute("SELECT content_key, digest FROM row").fetchall()
                named = reader.connection.execute("SELECT DISTINCT id FROM blob").fetchall()
        except (StoreUnavailable, sqlite3.Error):
            left = (f"session {sid}: not readable, so no mark keeps its content from coming back",)
            continue
        stones = add_tombstones(paths, [(content or digest).hex() for content, digest in rows])
        blobs = {str(row[0]) for row in named}
    removed = remove_files([*files[0].paths, *copies_of(paths, sid)])
    _forget_in_catalog(paths, sid)
    receipt = ForgetReceipt(sessions=(sid,), files=removed, tombstones=stones, left=left)
    return receipt + _remove_blobs(paths, blobs)


def forget_sessions(paths: Paths, sids: Iterable[str]) -> ForgetReceipt:
    """Remove several sessions."""
    receipt = ForgetReceipt()
    for sid in sids:
        receipt += forget_session(paths, sid)
    return receipt


def _remove_blobs(paths: Paths, blobs: set[str]) -> ForgetReceipt:
    """Remove those of the payloads that no session names any more."""
    if not blobs:
        return ForgetReceipt()
    named, unread = named_blobs(paths)
    if unread:
        why = tuple(
            f"payloads: session {sid} cannot be read, so none was removed" for sid in unread
        )
        return ForgetReceipt(left=why)
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):  # no payload was ever kept
        names = os.listdir(paths.blobs_dir)
    gone = [name for name in names if name.partition(".")[0] in blobs - named]
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
