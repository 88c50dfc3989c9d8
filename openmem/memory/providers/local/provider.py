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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from openmem.base.errors import StoreUnavailable
from openmem.base.light import replace
from openmem.base.paths import Paths
from openmem.base.tokens import index_text
from openmem.memory.model import Kind, storable
from openmem.memory.providers.base import (
    Ask,
    Capability,
    Hit,
    Item,
    ProviderStatus,
    TimedOut,
    VectorsStand,
)
from openmem.memory.providers.local import floor
from openmem.memory.providers.local.bank_file import (
    IN_MEMORY,
    SESSION_SHIFT,
    BankFile,
    path_of,
    unavailable,
)
from openmem.memory.providers.local.rank import Found, rank, weight_of
from openmem.memory.providers.local.words import (
    Stemmer,
    Unit,
    content_count,
    names_in,
    shortened,
    units_of,
)

_QUICK_POSTINGS = 3_000  # about 5 ms; the hook's whole allowance is about 15
_POSTINGS = 20_000
_EVERYWHERE = 0.5  # of all texts
_TOGETHER = 500
_FEW = 50  # in a bank this small a word that is everywhere costs nothing
_LENGTHS = 400
_POOL = 64
_LITERAL_SCAN = 200_000
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_QUICK_BUSY_SECONDS = 0.1
_AT_ONCE = 500


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
            with _Bounded(connection, ask.seconds, file.path):
                return _Question(connection, ask, units, lambda: self._words(text)).hits()

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


class _Bounded:
    """Ends what runs on a connection when its time is up. TimedOut, StoreUnavailable."""

    def __init__(self, connection: sqlite3.Connection, seconds: float, path: str) -> None:
        self._connection, self._path = connection, path
        self._deadline = time.monotonic() + seconds if seconds else 0.0

    def __enter__(self) -> None:
        if self._deadline:
            self._connection.set_progress_handler(self._is_over, _STEPS)

    def _is_over(self) -> int:
        return int(time.monotonic() > self._deadline)

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if self._deadline:
            self._connection.set_progress_handler(None, 0)
        if isinstance(fault, sqlite3.Error):
            if "interrupted" in str(fault):
                raise TimedOut("the local provider ran out of time.") from fault
            raise unavailable(self._path, fault) from fault


class _Question:
    """One question to one bank. `words`: gives the question's tokens as typed."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        ask: Ask,
        units: Sequence[Unit],
        words: Callable[[], list[str]],
    ) -> None:
        self._words = words
        self._run: Callable[..., sqlite3.Cursor] = connection.execute
        self._ask = ask
        row = self._run("SELECT docs, tokens FROM total").fetchone()
        self._docs = int(row[0])
        self._average = int(row[1]) / self._docs if self._docs else 0.0
        self._units = list(units)
        self._without = self._session_number(ask.without_session)

    def hits(self) -> list[Hit]:
        if not self._docs:
            return []
        holding = [self._holding(unit) for unit in self._units]
        if self._ask.has_floor and floor.is_foreign(self._units, holding):
            return []
        weights = [weight_of(self._docs, count) for count in holding]
        chosen = self._chosen(holding)
        postings = [
            self._posting(unit) if is_looked_up else {}
            for unit, is_looked_up in zip(self._units, chosen, strict=True)
        ]
        if not any(chosen):
            self._look_for_all(holding, postings)
        lengths = self._lengths(postings)
        ranked = rank(self._units, weights, postings, lengths, self._average)
        hits = self._kept(ranked, weights, floor.names_known(self._units, holding))
        if not hits and not self._ask.is_quick:
            return self._literal()
        return hits

    def _holding(self, unit: Unit) -> int:
        """Return how many texts hold a unit."""
        if len(unit.tokens) == 1:
            row = self._run("SELECT doc FROM frequency WHERE term = ?", unit.tokens).fetchone()
            return int(row[0]) if row else 0
        return int(
            self._run("SELECT count(*) FROM words WHERE words MATCH ?", (unit.phrase,)).fetchone()[
                0
            ]
        )

    def _chosen(self, holding: Sequence[int]) -> list[bool]:
        """Say for each unit whether its texts are looked at: the rarest first, within bounds."""
        bound = _QUICK_POSTINGS if self._ask.is_quick else _POSTINGS
        chosen = [False] * len(holding)
        used = 0
        for index in sorted(range(len(holding)), key=lambda i: holding[i]):
            count = holding[index]
            is_everywhere = count > max(_FEW, _EVERYWHERE * self._docs)
            if not count or used + count > bound or (is_everywhere and used and self._ask.is_quick):
                continue
            chosen[index] = True
            used += count
        return chosen

    def _look_for_all(self, holding: Sequence[int], postings: list[dict[int, list[int]]]) -> None:
        """Fill in texts that hold the three rarest words at once, when each is in too many."""
        rarest = sorted((i for i, n in enumerate(holding) if n), key=lambda i: holding[i])[:3]
        if len(rarest) < 2:
            return
        asked = " AND ".join(self._units[index].phrase for index in rarest)
        rows = self._run(
            "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?", (asked, _TOGETHER)
        ).fetchall()
        for index in rarest:
            postings[index] = {int(row[0]): [-1] for row in rows}

    def _posting(self, unit: Unit) -> dict[int, list[int]]:
        """Return the places of a unit by text."""
        found: dict[int, list[int]] = {}
        if len(unit.tokens) > 1:
            for (number,) in self._run(
                "SELECT rowid FROM words WHERE words MATCH ?", (unit.phrase,)
            ):
                found[number] = [-1]
            return found
        for number, place in self._run(
            "SELECT doc, offset FROM instance WHERE term = ?", unit.tokens
        ):
            if number in found:
                found[number].append(place)
            else:
                found[number] = [place]
        return found

    def _lengths(self, postings: Sequence[dict[int, list[int]]]) -> dict[int, int]:
        """Return the lengths of the texts that hold most of the words; others count as average."""
        held: dict[int, int] = {}
        for posting in postings:
            for number in posting:
                held[number] = held.get(number, 0) + 1
        numbers = list(held)
        if self._ask.is_quick and len(numbers) > _LENGTHS:
            numbers = sorted(numbers, key=lambda number: -held[number])[:_LENGTHS]
        lengths: dict[int, int] = {}
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            lengths.update(
                self._run(f"SELECT number, tokens FROM doc WHERE number IN ({marks})", part)
            )
        return lengths

    def _kept(self, ranked: list[Found], weights: Sequence[float], names_known: bool) -> list[Hit]:
        """Return the best texts that exist, are wanted and stand above the floor."""
        hits: list[Hit] = []
        wanted = self._ask.limit
        mass = floor.mass_of(self._units, weights)
        for start in range(0, len(ranked), _POOL):
            part = [
                one
                for one in ranked[start : start + _POOL]
                if not self._without or one.number >> SESSION_SHIFT != self._without
            ]
            facts = self._facts([one.number for one in part])
            for one in part:
                if one.number not in facts:
                    continue  # a neighbour that is not there
                memory_id, kind, content = facts[one.number]
                if self._ask.kinds and kind not in self._ask.kinds:
                    continue
                own, worth = [self._units[i] for i in one.own], [weights[i] for i in one.own]
                is_passage = kind == "passage"
                if self._ask.has_floor and not floor.is_relevant(
                    own,
                    worth,
                    mass,
                    content=content,
                    is_passage=is_passage,
                    names_known=names_known,
                ):
                    continue
                hits.append(Hit(id=memory_id, score=one.score))
                if len(hits) >= wanted:
                    return hits
            if self._ask.has_floor and start:
                break  # what ranks lower is not more relevant
        return hits

    def _facts(self, numbers: Sequence[int]) -> dict[int, tuple[str, Kind, int]]:
        marks = ",".join("?" * len(numbers))
        return {
            number: (memory_id, kind, content)
            for number, memory_id, kind, content in self._run(
                f"SELECT number, id, kind, content FROM doc WHERE number IN ({marks})", numbers
            )
        }

    def _literal(self) -> list[Hit]:
        """Return texts that hold the question as it stands, newest first; for parts of words."""
        wanted = self._ask.text.strip()
        if len(wanted) < 2:
            return []
        kinds = self._ask.kinds or ("statement", "passage")
        marks = ",".join("?" * len(kinds))
        rows = self._run(
            "SELECT id FROM (SELECT * FROM doc ORDER BY recorded_at DESC LIMIT ?)"
            f" WHERE instr(lower(text), lower(?)) AND kind IN ({marks}) LIMIT ?",
            (_LITERAL_SCAN, wanted, *kinds, self._ask.limit),
        )
        return [Hit(id=str(row[0]), score=0.0) for row in rows]

    def _session_number(self, session_id: str) -> int:
        if not session_id:
            return 0
        row = self._run("SELECT number FROM session WHERE id = ?", (session_id,)).fetchone()
        return int(row[0]) if row else 0


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
