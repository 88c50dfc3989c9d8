"""Words looked up in many sessions: exact counts, and the best rows.

Idea: each session is asked for its counts first, then only the sessions with the best rows are
asked for text. A row ranks by whether it holds all the words as one phrase, then by how many of
them it holds, then by how rare they are and how short the row is, then by time.
Trap: a word that is in nearly every row tells nothing, and would make every row a match: it does
not count as long as another word is rarer.
"""

from __future__ import annotations

import heapq
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from openmem.base.errors import StoreUnavailable
from openmem.context.search.excerpt import best_lines, excerpt_of, fit
from openmem.context.search.lookup import Found, Lookup, Lookups
from openmem.context.search.pool import ReaderPool
from openmem.context.search.query import Query
from openmem.context.search.terms import Term, Tier, terms_of, whole_phrase
from openmem.context.store.catalog import Entry
from openmem.context.store.reader import damaged
from openmem.context.store.word_filter import WordFilter

_LINES_RANKED = 20_000
_LEAST_RANKED = 200
_LITERAL_SECONDS = 1.5
_SHORTEST_PART = 3
_COMMON_ROWS = 50
_COMMON_SHARE = 0.5
_CANDIDATES = 50
_TYPICAL_LINES = 20.0
_LINES_LOOKED_AT = 100
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """One of the best rows. `matched`: the terms it holds, as they were typed."""

    entry: Entry
    seq: int
    excerpt: str
    matched: tuple[str, ...]


@dataclass(slots=True)
class _Session:
    """A session during one search. `found`: for each term, None where it is not.

    `known`: what it answered before, by question and ways of looking.
    """

    entry: Entry
    found: list[Found | None] = field(default_factory=list)
    known: dict[object, object] = field(default_factory=dict)

    @property
    def has_all(self) -> bool:
        return bool(self.found) and all(self.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A row that may be shown. `numbers`: the terms it holds."""

    session: _Session
    key: int
    has_phrase: bool
    numbers: tuple[int, ...]
    score: float

    @property
    def order(self) -> tuple[bool, int, float, float, int]:
        written_at = self.session.entry.modified_at
        return self.has_phrase, len(self.numbers), self.score, written_at, self.key


class WordSearch:
    """One search by words: `look_up` first, then the rest in any order."""

    def __init__(
        self, pool: ReaderPool, query: Query, found: Sequence[Entry], words: WordFilter
    ) -> None:
        self.skipped: dict[str, None] = {}
        self.timed_out = False
        self.is_literal = False
        self._pool = pool
        self._query = query
        self._lookups = Lookups(query)
        self._sessions = [_Session(entry) for entry in found]
        self._terms = terms_of(query.text)
        self._tiers = [term.first_tier() for term in self._terms]
        self._rows = [0] * len(self._terms)
        self._counted: list[int] = []
        self._most_lines = max(_LEAST_RANKED, _LINES_RANKED // max(1, len(found)))
        phrases = [term.phrase for term in self._terms]
        # One file is opened in any case; asking the filter would cost more.
        self._without = words.rule_out(phrases, found if len(found) > 1 else ())

    def look_up(self) -> None:
        """Look all terms up in all sessions."""
        for session in self._sessions:
            self._look_into(session)
        for number in range(len(self._terms)):
            self._look_otherwise(number)
        if self._terms and not any(self._rows):
            self._look_inside_words()
        self._counted = self._terms_that_tell()

    def total_rows(self) -> int:
        """Return how many rows hold any of the words that tell."""
        terms = self._chosen(self._counted)
        total = 0
        for session in self._sessions:
            found = [each for n in self._counted if (each := session.found[n])]
            if len(found) == 1:
                total += found[0].rows
            elif any(each.is_partial for each in found):
                total += self._ask(session, lambda lookup: lookup.rows_with_any(terms), 0)
            else:
                total += len({key for each in found for key in each.lines_by_row})
        return total

    def total_lines(self) -> int:
        """Return how many lines hold every word."""
        if not self._terms or not all(self._rows):
            return 0
        return sum(self._lines_of(session) for session in self._sessions if session.has_all)

    def best(self) -> list[Best]:
        """Return the best rows with their excerpts, the best one first."""
        found: list[Best] = []
        for candidate in self._candidates():
            show = partial(self._shown, candidate)
            best = self._ask(candidate.session, show, None)
            if best:
                found.append(best)
        return found

    # looking up

    def _chosen(self, numbers: Sequence[int]) -> list[tuple[Term, Tier]]:
        return [(self._terms[number], self._tiers[number]) for number in numbers]

    def _look_into(self, session: _Session) -> None:
        """Ask a session for all that is usually needed of it while its file is open."""
        session.found = [None] * len(self._terms)
        for number, tier in enumerate(self._tiers):
            if tier is not Tier.LITERAL:
                self._rows[number] += self._find_in(session, number, tier)
        if len(self._terms) > 1 and any(session.found):
            self._row_count(session)
            if session.has_all:
                self._lines_of(session)
                self._phrase_rows(session)

    def _look_otherwise(self, number: int) -> None:
        """Look for a term that is nowhere in the other ways, until it is found anywhere."""
        term, first = self._terms[number], self._tiers[number]
        # A term of marks alone was not looked for yet: every line has to be read for it.
        tier = first if first is Tier.LITERAL else term.next_tier(first)
        while tier is not None and not self._rows[number]:
            self._tiers[number] = tier
            self._rows[number] = self._find(number, tier)
            self.is_literal |= tier is Tier.LITERAL and self._rows[number] > 0
            tier = term.next_tier(tier)

    def _look_inside_words(self) -> None:
        """No term is anywhere as a word: look for them inside of words, as in `readTimeoutMs`."""
        for number, term in enumerate(self._terms):
            if len(term.text) >= _SHORTEST_PART and not term.literal:
                self._tiers[number] = Tier.LITERAL
                self._rows[number] = self._find(number, Tier.LITERAL)
                self.is_literal |= self._rows[number] > 0

    def _find(self, number: int, tier: Tier) -> int:
        deadline = time.monotonic() + _LITERAL_SECONDS
        rows = 0
        for session in self._sessions:
            if tier is Tier.LITERAL and time.monotonic() > deadline:
                self.timed_out = True
                break
            rows += self._find_in(session, number, tier)
        return rows

    def _find_in(self, session: _Session, number: int, tier: Tier) -> int:
        if tier is not Tier.LITERAL and session.entry.session_id in self._without[number]:
            return 0  # its file is not even opened
        term = self._terms[number]
        found = self._ask(session, lambda lookup: lookup.find(term, tier, self._most_lines), None)
        session.found[number] = found if found and found.rows else None
        return found.rows if found else 0

    def _lines_of(self, session: _Session) -> int:
        """Return how many lines of a session that has all terms hold every one."""
        only = session.found[0] if len(self._terms) == 1 else None
        if only:
            return only.lines
        terms = self._chosen(range(len(self._terms)))
        return self._remembered(session, "lines", lambda lookup: lookup.lines_with_all(terms), 0)

    def _phrase_rows(self, session: _Session) -> set[int]:
        """Return the rows in which a line holds all the words as one phrase."""
        phrase = whole_phrase(self._terms)
        if not phrase:
            return set()
        nothing: set[int] = set()
        return self._remembered(
            session, "phrase", lambda lookup: lookup.rows_with_phrase(phrase), nothing
        )

    def _row_count(self, session: _Session) -> int:
        return self._remembered(session, "rows", lambda lookup: lookup.row_count(), 0)

    def _remembered(
        self, session: _Session, what: str, question: Callable[[Lookup], _T], otherwise: _T
    ) -> _T:
        key = (what, tuple(self._tiers))
        if key not in session.known:
            session.known[key] = self._ask(session, question, otherwise)
        return session.known[key]  # type: ignore[return-value]

    def _ask(self, session: _Session, question: Callable[[Lookup], _T], otherwise: _T) -> _T:
        """Return a session's answer; `otherwise`, and a line in `skipped`, if it cannot be read."""
        try:
            return question(self._lookups.lookup(self._pool.reader(session.entry)))
        except StoreUnavailable as error:
            self.skipped[error.message] = None
        except sqlite3.Error as error:
            self.skipped[damaged(session.entry, error).message] = None
            self._pool.drop(session.entry)
        session.found = [None] * len(self._terms)
        return otherwise

    def _terms_that_tell(self) -> list[int]:
        live = [number for number, rows in enumerate(self._rows) if rows]
        if len(live) < 2:
            return live
        total = 0
        for session in self._sessions:
            if any(session.found):
                total += self._row_count(session)
        if total < _COMMON_ROWS:
            return live
        return [n for n in live if self._rows[n] <= total * _COMMON_SHARE] or live

    # ranking

    def _candidates(self) -> list[_Candidate]:
        rows = sum(self._rows[number] for number in self._counted) + 1
        weights = {n: math.log(1 + rows / self._rows[n]) for n in self._counted}
        most = max(_CANDIDATES, self._query.limit)
        found: list[_Candidate] = []
        for session in self._sessions:
            if any(session.found):
                found += self._candidates_of(session, weights, most)
        best = heapq.nlargest(most, found, key=lambda candidate: candidate.order)
        weighed = [self._weighed(candidate, weights) for candidate in best]
        return heapq.nlargest(self._query.limit, weighed, key=lambda candidate: candidate.order)

    def _candidates_of(
        self, session: _Session, weights: dict[int, float], most: int
    ) -> list[_Candidate]:
        numbers_by_row: dict[int, list[int]] = {}
        scores: dict[int, float] = {}
        for number, weight in weights.items():
            found = session.found[number]
            for key, lines in found.lines_by_row.items() if found else ():
                numbers_by_row.setdefault(key, []).append(number)
                scores[key] = scores.get(key, 0.0) + weight * lines / (lines + 1.2)
        with_phrase = self._phrase_rows(session) if session.has_all else set[int]()
        best = heapq.nlargest(
            most,
            numbers_by_row,
            key=lambda key: (key in with_phrase, len(numbers_by_row[key]), scores[key], key),
        )
        return [
            _Candidate(
                session=session,
                key=key,
                has_phrase=key in with_phrase,
                numbers=tuple(numbers_by_row[key]),
                score=scores[key],
            )
            for key in best
        ]

    def _weighed(self, candidate: _Candidate, weights: dict[int, float]) -> _Candidate:
        """Return the candidate with a score that counts the row's length, as BM25 does."""
        key = candidate.key
        length = self._ask(candidate.session, lambda lookup: lookup.line_count(key), 1)
        share = 0.25 + 0.75 * length / _TYPICAL_LINES
        score = 0.0
        for number in candidate.numbers:
            found = candidate.session.found[number]
            lines = found.lines_by_row.get(key, 1) if found else 1
            score += weights[number] * lines / (lines + 1.2 * share)
        return replace(candidate, score=score)

    def _shown(self, candidate: _Candidate, lookup: Lookup) -> Best:
        chosen = self._chosen(candidate.numbers)
        texts = tuple(term.text for term, _ in chosen)
        numbers = best_lines(
            [lookup.lines_of(candidate.key, *each, limit=_LINES_LOOKED_AT) for each in chosen]
        )
        return Best(
            entry=candidate.session.entry,
            seq=lookup.seq_of(candidate.key),
            excerpt=excerpt_of(fit(lookup.texts(candidate.key, numbers)), texts),
            matched=texts,
        )
