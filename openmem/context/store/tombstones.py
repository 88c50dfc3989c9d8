"""What must not be stored again: keyed digests without content.

Idea: a row that was forgotten by itself is known again in any session by its content key, or by the
digest of its stored text where it has none (thinking, reminders). A session that was forgotten is
known again by its rows where they stood: by their fingerprint in any session, by their content in
a session of the same id. Another session that reads the same file is not that conversation. A word
that was forgotten by itself is known again wherever it stands: by the length and digest of its
longest run of letters and digits first, then by the digest of the whole.
Invariant: all digests are made with the installation's key, so the file gives nothing away.
Trap: a file that is there but cannot be read raises StoreUnavailable, never an error of SQLite's,
which would be taken for one of the session's own file: forgetting fails closed, and a request that
cannot be checked is not stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from openmem.base.errors import StoreUnavailable
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.base.redact import mask_of
from openmem.context.store.readonly import plain_uri

FORGOTTEN_RULE = "forgotten"
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS tombstone (key BLOB PRIMARY KEY, at INTEGER NOT NULL)
    WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS word (key BLOB PRIMARY KEY, size INTEGER NOT NULL,
    run_at INTEGER NOT NULL, run_size INTEGER NOT NULL, run_key BLOB NOT NULL,
    at INTEGER NOT NULL) WITHOUT ROWID""",
)
_BUSY_SECONDS = 10.0
_RUN = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class _Word:
    """A forgotten word: its digest and length, and where in it the run stands that finds it."""

    key: bytes
    size: int
    run_at: int


def tombstone_file(paths: Paths) -> str:
    """Return where tombstones are kept; nothing is created."""
    return f"{paths.context_dir}/tombstones.db"


def add_tombstones(paths: Paths, keys: Iterable[str]) -> int:
    """Keep keys of rows (hex); return how many are new. StoreUnavailable: none of them is kept."""
    now = int(time.time())
    rows = [(bytes.fromhex(key), now) for key in keys if key]
    return _add(paths, "INSERT OR IGNORE INTO tombstone VALUES (?, ?)", rows)


def add_session(paths: Paths, key: bytes, sid: str, rows: Iterable[tuple[str, str]]) -> int:
    """Keep the rows of one conversation, by (fingerprint, content), hex; return how many are new.

    `content`: the content key, or the digest where there is none. Errors as above.
    """
    keys: list[str] = []
    for fingerprint, content in rows:
        keys += (fingerprint, _content_in(key, sid, content))
    return -(-add_tombstones(paths, keys) // 2)


def _content_in(key: bytes, sid: str, content: str) -> str:
    """Return the key of a content in the session of one id, 32 hex."""
    return hmac.digest(key, f"session\0{sid}\0{content}".encode(), hashlib.sha256).hex()[:32]


def add_word(paths: Paths, word: str, key: bytes) -> int:
    """Keep a word out of what is stored from now on; return 1 when it is new. Errors as above."""
    run = max(_RUN.finditer(word), key=lambda match: len(match[0]), default=None)
    if run is None:
        return 0  # punctuation alone: nothing to find it by
    row = (
        _digest(key, word),
        len(word),
        run.start(),
        len(run[0]),
        _digest(key, run[0]),
        int(time.time()),
    )
    return _add(paths, "INSERT OR IGNORE INTO word VALUES (?, ?, ?, ?, ?, ?)", [row])


def _add(paths: Paths, statement: str, rows: Sequence[tuple[bytes | int, ...]]) -> int:
    path = tombstone_file(paths)
    try:
        ensure_private_dir(paths.context_dir)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            for table in _SCHEMA:
                connection.execute(table)
            before = connection.total_changes
            connection.executemany(statement, rows)
            added = connection.total_changes - before
            connection.execute("COMMIT")
            return added
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(
            f"{path}, which keeps out what was forgotten, cannot be written ({error}); "
            "so it was not forgotten.",
            hint="`openmem doctor` says what is wrong with the store.",
        ) from error


def _digest(key: bytes, text: str) -> bytes:
    return hmac.digest(key, b"word\0" + text.encode("utf-8", "surrogatepass"), hashlib.sha256)[:16]


class Tombstones:
    """The marks, asked for in the file, and the words, read again when it changed.

    Not thread-safe. Every method raises StoreUnavailable when the file cannot be read.
    """

    def __init__(self, paths: Paths, key: bytes) -> None:
        self._path = tombstone_file(paths)
        self._key = key
        self._connection: sqlite3.Connection | None = None
        self._seen = (0, 0, 0)
        self._has_rows = False
        self._words: dict[bytes, list[_Word]] = {}
        self._runs: re.Pattern[str] | None = None

    def holds(self, sid: str, fingerprint: str, content: str) -> bool:
        """Return whether a row of a session was forgotten.

        `content`: the content key, or the digest where there is none; all are hex.
        """
        if not self._has_rows or self._connection is None:
            return False
        here = _content_in(self._key, sid, content)
        keys = [bytes.fromhex(key) for key in (content, fingerprint, here)]
        with self._readable():
            found = self._connection.execute(
                "SELECT 1 FROM tombstone WHERE key IN (?, ?, ?) LIMIT 1", keys
            )
            return found.fetchone() is not None

    def close(self) -> None:
        """Close the file; the next `refresh` opens it again."""
        connection, self._connection = self._connection, None
        self._seen = (0, 0, 0)
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            with contextlib.suppress(sqlite3.Error):  # the fault that led here is the one to report
                self.close()
            raise StoreUnavailable(
                f"{self._path}, which says what was forgotten, cannot be read ({error}).",
                hint="`openmem doctor` says what to do; until then nothing is recorded.",
            ) from error

    def masked(self, text: str) -> tuple[str, int]:
        """Return the text with forgotten words masked, and how many there were.

        A word is found where its longest run of letters and digits is not part of a longer one.
        """
        if self._runs is None:
            return text, 0
        parts: list[str] = []
        done = 0
        for run in self._runs.finditer(text):
            word = self._word_at(text, run)
            start = run.start() - word.run_at if word else -1
            if word and start >= done:
                parts += [text[done:start], self._mask(text[start : start + word.size])]
                done = start + word.size
        return "".join([*parts, text[done:]]), len(parts) // 2

    def _word_at(self, text: str, run: re.Match[str]) -> _Word | None:
        for word in self._words.get(_digest(self._key, run[0]), ()):
            start = run.start() - word.run_at
            found = text[start : start + word.size] if start >= 0 else ""
            if len(found) == word.size and hmac.compare_digest(_digest(self._key, found), word.key):
                return word
        return None

    def _mask(self, word: str) -> str:
        return mask_of(FORGOTTEN_RULE, word, self._key)

    def refresh(self) -> bool:
        """Look whether something was forgotten since the last time, and return whether it was."""
        with self._readable():
            try:
                status = os.stat(self._path)
            except FileNotFoundError:
                was = self._connection is not None
                self.close()
                self._has_rows = False
                self._take(())
                return was
            if self._connection is None or self._seen[:2] != (status.st_dev, status.st_ino):
                self.close()
                self._connection = sqlite3.connect(
                    f"{plain_uri(self._path)}?mode=rw",  # undoes what a killed process half did
                    uri=True,
                    timeout=_BUSY_SECONDS,
                    isolation_level=None,
                    check_same_thread=False,
                )
            version = int(self._connection.execute("PRAGMA data_version").fetchone()[0])
            seen = (status.st_dev, status.st_ino, version)
            if seen == self._seen:
                return False
            self._read(self._connection)
            self._seen = seen
            return True

    def _read(self, connection: sqlite3.Connection) -> None:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        # Not there yet: somebody is just making the file.
        self._has_rows = "tombstone" in tables and (
            connection.execute("SELECT 1 FROM tombstone LIMIT 1").fetchone() is not None
        )
        words = "SELECT key, size, run_at, run_size, run_key FROM word"
        self._take(connection.execute(words).fetchall() if "word" in tables else ())

    def _take(self, words: Iterable[tuple[bytes, int, int, int, bytes]]) -> None:
        self._words = {}
        sizes: set[int] = set()
        for key, size, run_at, run_size, run_key in words:
            word = _Word(bytes(key), size, run_at)
            self._words.setdefault(bytes(run_key), []).append(word)
            sizes.add(run_size)
        any_size = "|".join(f"[^\\W_]{{{size}}}" for size in sorted(sizes, reverse=True))
        self._runs = re.compile(rf"(?<![^\W_])(?:{any_size})(?![^\W_])") if sizes else None
