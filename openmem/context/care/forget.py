"""Forgetting: rows, sessions, projects, whatever a pattern or a literal text matches.

A receipt says what went and from where, without content. What a reader still holds is "pending":
its session is written down, and `finish_pending` clears it when the reader has gone.
Invariant: killed at any moment, it is either not begun, or done but for what is written down.
Trap: text stands in more files than the session's: one that was set aside as damaged, one of an
earlier system under the same name, exports, payloads. What cannot be cleaned is named as left.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator

from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.care.age import keeping_age
from openmem.context.care.erase import Erased, erase_rows, rewrite_rows
from openmem.context.care.files import copies as copies_of
from openmem.context.care.files import named_blobs, remove_files, session_files
from openmem.context.care.pending import clear, mark, unmark
from openmem.context.care.places import (
    copies_holding,
    others_holding,
    spellings,
    stores_holding,
)
from openmem.context.care.receipt import ForgetReceipt
from openmem.context.care.select import Selected, Selection
from openmem.context.store.catalog import drop_sessions, entries
from openmem.context.store.database import is_damage, open_for_writing, session_file
from openmem.context.store.prepare import FORGOTTEN
from openmem.context.store.reader import open_entry
from openmem.context.store.tombstones import Tombstones, add_session, add_tombstones, add_word
from openmem.context.store.word_filter import drop_words

_BUSY_SECONDS = 15.0


def forget_rows(
    paths: Paths, key: bytes, selection: Selection, copies: Iterable[str] = ()
) -> ForgetReceipt:
    """Empty rows, or mask a part of them where `rewrite` says so. NotFound when there is none.

    `copies`: files beside the sessions' own that go as a whole, as all copies of these sessions do.
    """
    copies = list(copies)
    if not selection and not copies:
        raise NotFound("nothing stored matches; nothing was changed.")
    receipt = ForgetReceipt(left=selection.unread)
    blobs: set[str] = set()
    for choice in selection.selected:
        try:
            with keeping_age(paths, choice.entry.session_id):
                done, erased = _forget_in(paths, key, choice)
        except StoreUnavailable as error:
            if not receipt.sessions:
                raise
            # What went before is gone for good: a receipt that is lost with an error hides that.
            failed = (choice.entry.session_id,)
            receipt += ForgetReceipt(failed=failed, left=(error.message,))
            continue
        receipt += done
        blobs.update(erased.blobs)
    return receipt + ForgetReceipt(files=remove_files(copies)) + _remove_blobs(paths, blobs)


def forget_word(paths: Paths, key: bytes, word: str, selection: Selection) -> ForgetReceipt:
    """Mask a word in the rows that hold it and wherever it comes again; look for it everywhere.

    NotFound when no row and no copy holds it; then it is not kept out either.
    """
    copies = copies_holding(paths, word)
    if not selection and not copies:
        raise NotFound("nothing stored matches; nothing was changed.")
    # The mark first: dying after it loses nothing, dying before would let the word back in.
    stones = [add_word(paths, spelling, key) for spelling in spellings(word)]
    receipt = ForgetReceipt(tombstones=stones[0])
    _keep_out_as_it_stands(paths, key, word, selection)
    receipt += forget_rows(paths, key, selection, copies)
    held = tuple(f"{sid}.v4.db" for sid in receipt.pending)
    left = [other.sentence for other in others_holding(paths, word)]
    left += [
        f"{path}, a session's file"
        for path in stores_holding(paths, word)
        if not held or not os.path.basename(path).startswith(held)
    ]
    if not receipt.tombstones and not _is_kept_out(paths, key, word):
        left.append("what is said later: a text without letters and digits cannot be kept out")
    return receipt + ForgetReceipt(left=tuple(left))


def _is_kept_out(paths: Paths, key: bytes, word: str) -> bool:
    words = Tombstones(paths, key)
    try:
        words.refresh()
        return word not in words.masked(word)[0]
    finally:
        words.close()


def _keep_out_as_it_stands(paths: Paths, key: bytes, word: str, selection: Selection) -> None:
    """Keep out also the longer words in which it stands: those are what the same text brings."""
    words = Tombstones(paths, key)
    try:
        words.refresh()
        for longer in _longer_words(selection, word, words):
            add_word(paths, longer, key)
    finally:
        words.close()


def _longer_words(selection: Selection, word: str, words: Tombstones) -> set[str]:
    found: set[str] = set()
    for choice in selection.selected:
        if choice.rewrite is None or choice.entry.is_legacy:
            continue
        with contextlib.suppress(StoreUnavailable), open_entry(choice.entry) as reader:
            for seq in choice.seqs:
                row = reader.row(seq)
                rest = words.masked(row.text)[0] if row else ""
                at = rest.find(word)
                while at >= 0:
                    begin, end = at, at + len(word)
                    while begin and rest[begin - 1].isalnum():
                        begin -= 1
                    while end < len(rest) and rest[end].isalnum():
                        end += 1
                    found.add(rest[begin:end])
                    at = rest.find(word, end)
    return found


def _forget_in(paths: Paths, key: bytes, choice: Selected) -> tuple[ForgetReceipt, Erased]:
    sid = choice.entry.session_id
    if choice.entry.is_legacy:
        left = f"session {sid}: written by an earlier system; forget the whole session"
        return ForgetReceipt(left=(left,)), Erased()
    connection = open_for_writing(paths, sid, busy_seconds=_BUSY_SECONDS)
    erased, masked, stones = Erased(), 0, 0
    is_first = False
    try:
        connection.execute("BEGIN IMMEDIATE")
        is_first = mark(paths, sid)
        if choice.rewrite is not None:
            masked = len(rewrite_rows(connection, choice.seqs, choice.rewrite, key))
        else:
            erased = erase_rows(connection, choice.seqs, key)
            # Tombstones first: dying after them loses nothing, dying before would let it back in.
            stones = add_tombstones(paths, erased.keys)
        connection.execute("COMMIT")
        is_cleared = clear(paths, sid, connection)
    except (sqlite3.Error, OSError, StoreUnavailable) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
            if is_first:
                unmark(paths, sid)
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


def forget_session(paths: Paths, key: bytes, sid: str) -> ForgetReceipt:
    """Remove a session with all its files; this conversation is not stored again, in any session.

    NotFound when it is unknown.
    """
    if not any(group.session_id == sid for group in session_files(paths)):
        raise NotFound(
            f"there is no stored session {sid}.",
            hint="`openmem context status` lists the sessions.",
        )
    with _held(paths, sid):  # nobody adds a row between the marks and the end of the file
        stones, blobs, left = _mark_session(paths, key, sid)
        files = [group.paths for group in session_files(paths) if group.session_id == sid]
        removed = remove_files([path for group in files for path in group])
        removed += remove_files(copies_of(paths, sid))
    drop_sessions(paths, [sid])
    drop_words(paths, sid)
    receipt = ForgetReceipt(sessions=(sid,), files=removed, tombstones=stones, left=left)
    return receipt + _remove_blobs(paths, blobs)


def _mark_session(paths: Paths, key: bytes, sid: str) -> tuple[int, set[str], tuple[str, ...]]:
    """Keep a session's rows out; return how many, its payloads, and what could not be kept out."""
    for entry in entries(paths):
        if entry.session_id != sid or entry.is_legacy:
            continue
        try:
            with open_entry(entry) as reader:
                rows = reader.connection.execute(
                    "SELECT lower(hex(fingerprint)), lower(hex(coalesce(content_key, digest)))"
                    f" FROM row WHERE masked != {FORGOTTEN} OR content_key IS NOT NULL"
                ).fetchall()
                named = reader.connection.execute("SELECT DISTINCT id FROM blob").fetchall()
        except (StoreUnavailable, sqlite3.Error) as error:
            if not _is_past_reading(error):
                raise StoreUnavailable(
                    f"session {sid} cannot be read now ({error}); it was not forgotten.",
                    hint="`openmem doctor` says what is wrong with the store.",
                ) from error
            why = f"session {sid}: not readable, so no mark keeps its content from coming back"
            return 0, set(), (why,)
        return add_session(paths, key, sid, rows), {str(row[0]) for row in named}, ()
    return 0, set(), ()


def _is_past_reading(error: BaseException) -> bool:
    """Return whether a session's file is damaged, half made or newer, not held or out of room."""
    cause = error.__cause__ or error
    return not isinstance(cause, sqlite3.Error) or is_damage(cause)


@contextlib.contextmanager
def _held(paths: Paths, sid: str) -> Iterator[None]:
    """Hold a session's file against its writer, as far as that can be done: it may be damaged."""
    connection = None
    if os.path.exists(session_file(paths, sid)):
        with contextlib.suppress(sqlite3.Error):
            connection = sqlite3.connect(
                session_file(paths, sid), timeout=_BUSY_SECONDS, isolation_level=None
            )
            connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):  # its file is gone, as it should be
                connection.close()


def forget_sessions(paths: Paths, key: bytes, sids: Iterable[str]) -> ForgetReceipt:
    """Remove several sessions; one that somebody else removed meanwhile is passed over."""
    receipt = ForgetReceipt()
    for sid in sids:
        try:
            receipt += forget_session(paths, key, sid)
        except NotFound:
            continue
        except StoreUnavailable as error:
            if not receipt.sessions:
                raise
            receipt += ForgetReceipt(failed=(sid,), left=(error.message,))
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
