"""Rows that are near in meaning, and one ranking out of two.

Idea: the query is turned into numbers by the same endpoint as the rows; the nearest rows of all
sessions in scope, under the query's own filters, are one ranking, the words' the other; a row
scores 1 / (60 + its place) in each.
Trap: a vector says only that its row was near once. One whose row was forgotten or masked since
does not fit its digest any more and is passed over.
Source: context-store contract, Search.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed, InvalidConfig, StoreUnavailable
from openmem.base.paths import Paths
from openmem.base.vectors.endpoint import EmbeddingFailed, embed
from openmem.base.vectors.nearest import Near, nearest
from openmem.base.vectors.settings import VectorSettings
from openmem.context.rows import ROLES
from openmem.context.search.pool import ReaderPool
from openmem.context.search.query import Query, VectorState
from openmem.context.store.catalog import Entry
from openmem.context.vectors.fill import progress
from openmem.context.vectors.sidecar import read_shape, short_digest, stem_of

DEPTH = 50
_RANK_CONSTANT = 60
_QUERY_SECONDS = 5.0
_LOOKED_AT = 4 * DEPTH
Place = tuple[str, int]
"""(session id, seq)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRow:
    """A row in scope and under the filters that is near to the query."""

    entry: Entry
    seq: int
    similarity: float

    @property
    def place(self) -> Place:
        return self.entry.session_id, self.seq


def near_rows(
    paths: Paths,
    pool: ReaderPool,
    query: Query,
    found: Sequence[Entry],
    settings: VectorSettings,
    environ: Mapping[str, str],
) -> tuple[list[NearRow], VectorState]:
    """Return the nearest rows, the nearest first, and how the vectors stand. Never raises for the
    endpoint: what was wrong is in the state, and the ranking is empty."""
    with_vectors: list[Entry] = []
    filled = pending = skipped = 0
    for entry in found:
        try:
            standing = progress(paths, pool.reader(entry), settings.model)
        except StoreUnavailable:
            continue  # named by the search by words
        filled, pending = filled + standing.filled, pending + standing.pending
        skipped += standing.skipped
        if standing.filled:
            with_vectors.append(entry)
    problem = ""
    rows: list[NearRow] = []
    if with_vectors:
        try:
            (numbers,) = embed(
                settings,
                [query.text],
                environ,
                timeout_seconds=min(_QUERY_SECONDS, settings.timeout_seconds),
            )
            rows = _nearest(paths, pool, query, with_vectors, numbers)
        except EmbeddingFailed as error:
            problem = f"the embedding endpoint did not answer ({error.kind})"
        except (InvalidConfig, Failed) as error:
            problem = error.message
    return rows, VectorState(filled=filled, pending=pending, skipped=skipped, problem=problem)


def _nearest(
    paths: Paths, pool: ReaderPool, query: Query, found: Sequence[Entry], numbers: list[float]
) -> list[NearRow]:
    rows: list[NearRow] = []
    for entry in found:
        shape = read_shape(paths, entry.session_id)
        if shape is None:
            continue
        near, _ = nearest(stem_of(paths, entry.session_id), shape, numbers, _LOOKED_AT)
        try:
            rows += _fitting(pool, query, entry, near)
        except (StoreUnavailable, sqlite3.Error):
            continue  # named by the search by words
    return heapq.nsmallest(DEPTH, rows, key=lambda row: (-row.similarity, row.place))


def _fitting(pool: ReaderPool, query: Query, entry: Entry, near: Sequence[Near]) -> list[NearRow]:
    """Return the rows that the query's filters let through and that still say the same."""
    execute = pool.reader(entry).connection.execute
    roles = {ROLES.index(role) for role in query.wanted_roles}
    rows: list[NearRow] = []
    for one in near:
        if len(rows) == DEPTH:
            break
        stored = execute(
            "SELECT digest, role, echo, in_context FROM row WHERE seq = ? AND source IS NULL",
            (one.key[0],),
        ).fetchone()
        if stored is None or short_digest(stored[0]) != one.key[1] or stored[1] not in roles:
            continue
        if (stored[2] and not query.include_echo) or (
            query.in_context is not None and bool(stored[3]) != query.in_context
        ):
            continue
        rows.append(NearRow(entry=entry, seq=one.key[0], similarity=one.similarity))
    return rows


def fused(rankings: Sequence[Sequence[Place]]) -> list[Place]:
    """Return the places of all rankings in one, by reciprocal rank; the first ranking wins ties."""
    scores: dict[Place, float] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking, 1):
            scores[place] = scores.get(place, 0.0) + 1.0 / (_RANK_CONSTANT + rank)
    order = {place: number for number, place in enumerate(scores)}
    return sorted(scores, key=lambda place: (-scores[place], order[place]))
