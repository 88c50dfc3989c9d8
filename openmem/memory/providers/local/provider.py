"""Provider `local`: takes texts in, finds them by words, forgets them to the last byte.

Idea: the rarest words of a question bring the texts that are ranked; words that nearly every text
holds bring nothing that the others do not.
Invariant: in a quick question the work is bounded, whatever the bank's size.
Trap: SQLite is asked from several threads in the warm worker; one lock guards each provider.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from openmem.base.errors import StoreUnavailable
from openmem.base.light import replace
from openmem.base.paths import Paths
from openmem.base.tokens import index_text
from openmem.memory.model import storable
from openmem.memory.providers.base import (
    Ask,
    Capability,
    Hit,
    Item,
    ProviderStatus,
    VectorsStand,
)
from openmem.memory.providers.local.bank_file import (
    IN_MEMORY,
    SESSION_SHIFT,
    BankFile,
    path_of,
    unavailable,
)
from openmem.memory.providers.local.question import Bounded, Question
from openmem.memory.providers.local.words import (
    Stemmer,
    content_count,
    names_in,
    shortened,
    units_of,
)

_QUICK_BUSY_SECONDS = 0.1


class LocalProvider:
    """Banks as files in `memory/` of the state folder. `paths` None: one bank, in memory."""

    name = "local"
    capabilities: frozenset[Capability] = frozenset(("listing", "erase", "drop-bank", "vectors"))

    def __init__(self, paths: Paths | None) -> None:
        self._paths = paths
        self._files: dict[str, BankFile] = {}
        self._stemmer: Stemmer | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close every file; the next call opens what it needs."""
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()
            if self._stemmer:
                self._stemmer.close()
                self._stemmer = None

    # taking in

    def remember(self, bank: str, items: Sequence[Item]) -> None:
        """Take items in, in one transaction."""
        if not items:
            return
        items = [replace(item, text=storable(item.text)) for item in items]
        with self._lock, self._file(bank).writing() as connection:
            texts = [index_text(item.text) for item in items]
            stems = [self._stems(text) for text in texts]
            for item, text, found in zip(items, texts, stems, strict=True):
                _remove(connection, item.id)
                number = _number_for(connection, item)
                connection.execute(
                    "INSERT INTO doc VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        number,
                        item.id,
                        item.kind,
                        item.recorded_at,
                        len(found),
                        content_count(found),
                        item.text,
                    ),
                )
                connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, text))
                connection.execute(
                    "UPDATE total SET docs = docs + 1, tokens = tokens + ?", (len(found),)
                )

    def forget(self, bank: str, memory_ids: Sequence[str]) -> None:
        """Remove memories; their bytes stay until `erase`."""
        with self._lock:
            if not memory_ids or not self._file(bank).exists:
                return
            with self._file(bank).writing() as connection:
                for memory_id in memory_ids:
                    _remove(connection, memory_id)
            if self._has_vectors(bank):
                from openmem.memory.providers.local import meaning

                with self._bounded(bank):
                    meaning.forget(self._stem(bank), memory_ids)

    def erase(self, bank: str) -> bool:
        """Overwrite what was forgotten; False while a reader holds old pages."""
        with self._lock:
            if self._has_vectors(bank):
                from openmem.memory.providers.local import meaning

                with self._bounded(bank):
                    meaning.tidy(self._stem(bank), self._file(bank).reading)
            return self._file(bank).erase()

    def drop_bank(self, bank: str) -> None:
        """Remove a bank's file."""
        with self._lock:
            file = self._files.pop(bank, None)
            if file:
                file.close()
            path, stem = self._path(bank), self._stem(bank)
            beside = [f"{stem}.f32", f"{stem}.json", f"{stem}.lock"]
            for one in (*(path + suffix for suffix in ("-wal", "-shm", "-journal", "")), *beside):
                try:
                    os.unlink(one)
                except FileNotFoundError:
                    pass  # most of them exist only while the bank is in use

    # finding

    def recall(self, bank: str, ask: Ask) -> list[Hit]:
        """Return what fits, best first. StoreUnavailable, TimedOut."""
        ask = replace(ask, text=storable(ask.text))
        if ask.is_quick or ask.has_floor or ask.seconds or not self._has_vectors(bank):
            return self._by_words(bank, ask)
        from openmem.memory.providers.local import meaning  # never on a hook's way

        settings = meaning.settings_of(self._paths) if self._paths else None
        if settings is None or self._paths is None:
            return self._by_words(bank, ask)
        # Asked before the lock is taken: an endpoint may take its time.
        numbers = meaning.numbers_of(shortened(ask.text), settings, self._paths.environ)
        hits = self._by_words(bank, replace(ask, limit=max(ask.limit, meaning.LOOKED_AT)))
        with self._lock, self._bounded(bank):
            reading = self._file(bank).reading
            return meaning.fused(hits, self._stem(bank), numbers, settings.model, ask, reading)

    def fill_vectors(self, bank: str, may_go_on: Callable[[], bool]) -> VectorsStand | None:
        """Make the vectors that a bank lacks; None where the person wants none.

        StoreUnavailable, InvalidConfig, Failed.
        """
        from openmem.memory.providers.local import meaning

        settings = meaning.settings_of(self._paths) if self._paths else None
        if settings is None or self._paths is None or not self._file(bank).exists:
            return None
        # A connection of its own: filling takes long, and searches must not wait for it.
        file = BankFile(self._path(bank), bank)
        try:
            with self._bounded(bank):
                found = meaning.fill_bank(
                    self._stem(bank), file.reading, settings, self._paths.environ, may_go_on
                )
        finally:
            file.close()
        return VectorsStand(filled=found.filled, pending=found.pending, is_down=found.is_down)

    def _by_words(self, bank: str, ask: Ask) -> list[Hit]:
        with self._lock:
            text = shortened(ask.text)
            names = names_in(text) if ask.has_floor else ""
            units = units_of(self._stems(text), self._stems(names) if names else ())
            file = self._file(bank)
            busy = min(ask.seconds, _QUICK_BUSY_SECONDS) if ask.seconds else 0.0
            connection = file.reading(busy) if units or not ask.is_quick else None
            if connection is None:
                return []
            with Bounded(connection, ask.seconds, file.path):
                return Question(connection, ask, units, lambda: self._words(text)).hits()

    def listing(self, bank: str) -> Iterator[str]:
        """Yield the ids that a bank holds."""
        with self._lock:
            connection = self._file(bank).reading()
            rows = connection.execute("SELECT id FROM doc").fetchall() if connection else []
        for row in rows:
            yield str(row[0])

    def status(self, bank: str) -> ProviderStatus:
        """Return how the bank fares; a bank that holds nothing is ready."""
        with self._lock:
            path = self._path(bank)
            try:
                connection = self._file(bank).reading()
                docs = (
                    connection.execute("SELECT docs FROM total").fetchone()[0] if connection else 0
                )
            except StoreUnavailable as error:
                return ProviderStatus(name=self.name, is_ready=False, detail=error.message)
            size = os.path.getsize(path) if os.path.exists(path) else 0
            return ProviderStatus(
                name=self.name,
                is_ready=True,
                memories=int(docs),
                size_bytes=size,
                vectors=self._vectors(bank),
            )

    def _vectors(self, bank: str) -> VectorsStand | None:
        if not self._paths:
            return None
        from openmem.memory.providers.local import meaning

        settings = meaning.settings_of(self._paths)
        if settings is None:
            return None
        with self._bounded(bank):
            found = meaning.standing_of(self._stem(bank), self._file(bank).reading, settings.model)
        return VectorsStand(filled=found.filled, pending=found.pending)

    def _stem(self, bank: str) -> str:
        """Return what the files of a bank's vectors begin with."""
        return f"{self._path(bank).removesuffix('.db')}.vectors"

    def _has_vectors(self, bank: str) -> bool:
        return self._paths is not None and os.path.exists(f"{self._stem(bank)}.f32")

    @contextmanager
    def _bounded(self, bank: str) -> Iterator[None]:
        """Turn what files and SQLite raise into the one error of a bank."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise unavailable(self._path(bank), error) from error

    def connection(self, bank: str) -> sqlite3.Connection | None:
        """Return the connection to a bank, None when there is none; for benches. One thread."""
        return self._file(bank).reading()

    def _path(self, bank: str) -> str:
        return path_of(self._paths, bank) if self._paths else IN_MEMORY

    def _file(self, bank: str) -> BankFile:
        file = self._files.get(bank)
        path = self._path(bank)
        if file is not None and path != IN_MEMORY and not os.path.exists(path):
            file.close()  # dropped by another process: what we hold open has no name any more
            file = None
        if file is None:
            file = self._files[bank] = BankFile(path, bank)
        return file

    def _words(self, text: str) -> list[str]:
        assert self._stemmer is not None  # the question's stems were asked for before
        return self._stemmer.words(text)

    def _stems(self, text: str) -> list[str]:
        if self._stemmer is None:
            self._stemmer = Stemmer()
        return self._stemmer.stems(text)


def _remove(connection: sqlite3.Connection, memory_id: str) -> None:
    row = connection.execute(
        "SELECT number, text, tokens FROM doc WHERE id = ?", (memory_id,)
    ).fetchone()
    if row is None:
        return
    number, text, tokens = row
    connection.execute(
        "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
        (number, index_text(text)),
    )
    connection.execute("DELETE FROM doc WHERE number = ?", (number,))
    connection.execute("UPDATE total SET docs = docs - 1, tokens = tokens - ?", (tokens,))


def _number_for(connection: sqlite3.Connection, item: Item) -> int:
    """Return the number of a new text: after what its session holds, or after all statements."""
    session = 0
    if item.kind == "passage" and item.session_id:
        connection.execute("INSERT OR IGNORE INTO session (id) VALUES (?)", (item.session_id,))
        session = int(
            connection.execute(
                "SELECT number FROM session WHERE id = ?", (item.session_id,)
            ).fetchone()[0]
        )
    base = session << SESSION_SHIFT
    if item.row > 0 and session:
        number = base + item.row
        taken = connection.execute("SELECT 1 FROM doc WHERE number = ?", (number,)).fetchone()
        if not taken:
            return number
    last = connection.execute(
        "SELECT max(number) FROM doc WHERE number >= ? AND number < ?",
        (base, base + (1 << SESSION_SHIFT)),
    ).fetchone()[0]
    return (last if last is not None else base) + 1
