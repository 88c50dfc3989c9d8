"""One question to one bank: which words are looked up, what is ranked, what stands above the floor.

Idea: the rarest words bring the texts that are ranked. Invariant: in a quick question the work is
bounded, whatever the bank's size; past its time a question is interrupted.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence

from openmem.memory.model import Kind
from openmem.memory.providers.base import Ask, Hit, TimedOut
from openmem.memory.providers.local import floor
from openmem.memory.providers.local.bank_file import SESSION_SHIFT, unavailable
from openmem.memory.providers.local.rank import Found, rank, weight_of
from openmem.memory.providers.local.words import Unit

_QUICK_POSTINGS = 3_000  # about 5 ms; the hook's whole allowance is about 15
_POSTINGS = 20_000
_EVERYWHERE = 0.5  # of all texts
_TOGETHER = 500
_FEW = 50  # in a bank this small a word that is everywhere costs nothing
_LENGTHS = 400
_POOL = 64
_LITERAL_SCAN = 200_000
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
_AT_ONCE = 500


class Bounded:
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


class Question:
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
