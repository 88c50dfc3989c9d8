"""The search: words or a pattern, over the sessions in scope.

Invariant: a row out of scope is never read; all numbers on a page are under the same filters.
Trap: more files than a process may hold open: a reader is fetched from the pool for each step, and
may be another one than in the step before.
"""

from __future__ import annotations

import resource
from dataclasses import replace

from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.paths import Paths
from openmem.base.vectors.settings import VectorSettings
from openmem.context.sandbox.pattern import Filters, Source, find_lines
from openmem.context.search.excerpt import excerpt_of, fit, head_of_text
from openmem.context.search.lookup import Line
from openmem.context.search.pool import ReaderPool
from openmem.context.search.query import Hit, Neighbour, Page, Query, Scope
from openmem.context.search.scope import ScopeFilter
from openmem.context.search.words import WordSearch
from openmem.context.store.catalog import Entry, entries, entry_of
from openmem.context.store.reader import StoredRow
from openmem.context.store.word_filter import WordFilter

_NEIGHBOUR_CHARACTERS = 600


def search(paths: Paths, query: Query, scope: Scope, vectors: VectorSettings | None = None) -> Page:
    """Return what a query finds in scope. For one search; a daemon keeps a `Searcher`.

    `vectors`: what a hybrid query needs. Usage when the query is not one (see `Query.checked`, and
    patterns that do not compile); NotFound when it names a session that has no store.
    """
    searcher = Searcher(paths, vectors=vectors)
    try:
        return searcher.search(query, scope)
    finally:
        searcher.close()


class Searcher:
    """Searches with readers kept open between searches. Not thread-safe."""

    def __init__(
        self, paths: Paths, *, open_sessions: int = 0, vectors: VectorSettings | None = None
    ) -> None:
        """`open_sessions`: files kept open; 0 for a quarter of what the process may open."""
        self._paths = paths
        self._pool = ReaderPool(open_sessions or _files_to_keep_open())
        self._scopes = ScopeFilter()
        self._words = WordFilter(paths)
        self._vectors = vectors

    def search(self, query: Query, scope: Scope) -> Page:
        """See `search`."""
        query = query.checked()
        found = self._entries(query, scope)
        try:
            if query.pattern:
                return self._search_pattern(query, found)
            if query.is_hybrid and self._vectors is not None and self._vectors.is_on:
                return self._search_both(query, found, self._vectors)
            return self._search_words(query, found)
        finally:
            self._pool.close_files_in_use()

    def close(self) -> None:
        """Close all files."""
        self._pool.close()
        self._words.close()

    def _entries(self, query: Query, scope: Scope) -> list[Entry]:
        if not query.session_id:
            return [e for e in entries(self._paths) if self._scopes.holds(e, scope)]
        entry = entry_of(self._paths, query.session_id)
        if entry is None:
            raise NotFound(
                f"there is no stored session {query.session_id}.",
                hint="`openmem context status` lists the sessions.",
            )
        return [entry]

    def _search_words(self, query: Query, found: list[Entry]) -> Page:
        words = WordSearch(self._pool, query, found, self._words)
        words.look_up()
        hits: list[Hit] = []
        for best in words.best():
            hit = self._hit(best.entry, best.seq, query, best.excerpt, best.matched)
            if hit:
                hits.append(hit)
        return Page(
            hits=tuple(hits),
            total_matches=words.total_rows(),
            line_matches=words.total_lines(),
            mode="literal" if words.is_literal else "lexical",
            skipped=tuple(words.skipped),
            timed_out=words.timed_out,
            sessions_searched=len(found),
        )

    def _search_both(self, query: Query, found: list[Entry], vectors: VectorSettings) -> Page:
        """Rank by words and by meaning together; counts stay those of the words."""
        from openmem.context.search.hybrid import DEPTH, fused, near_rows

        deep = replace(query, limit=max(query.limit, DEPTH))
        by_words = self._search_words(replace(deep, context=0), found)
        near, state = near_rows(self._paths, self._pool, query, found, vectors, self._paths.environ)
        if not near:
            page = by_words if query.context == 0 else self._search_words(query, found)
            return replace(page, hits=page.hits[: query.limit], vectors=state)
        known = {(hit.session_id, hit.seq): hit for hit in by_words.hits}
        rows = {row.place: row for row in near}
        hits: list[Hit] = []
        for place in fused([list(known), list(rows)]):
            row, hit = rows.get(place), known.get(place)
            entry = row.entry if row else next(e for e in found if e.session_id == place[0])
            excerpt = hit.excerpt if hit else self._head(entry, place[1])
            matched = hit.matched_terms if hit else ()
            made = self._hit(entry, place[1], query, excerpt, matched)
            if made:
                hits.append(replace(made, similarity=round(row.similarity, 4) if row else None))
            if len(hits) == query.limit:
                break
        return replace(by_words, hits=tuple(hits), mode="hybrid", vectors=state)

    def _head(self, entry: Entry, seq: int) -> str:
        try:
            row = self._pool.reader(entry).row(seq)
        except StoreUnavailable:
            return ""  # `_hit` finds the same
        return head_of_text(row.text, _NEIGHBOUR_CHARACTERS) if row else ""

    def _search_pattern(self, query: Query, found: list[Entry]) -> Page:
        sources = [Source(path=e.path, session_id=e.session_id) for e in found]
        filters = Filters(
            roles=query.roles, in_context=query.in_context, include_echo=query.include_echo
        )
        answer = find_lines(sources, query.pattern, filters, limit=query.limit, group=query.group)
        by_id = {entry.session_id: entry for entry in found}
        hits: list[Hit] = []
        for row in answer.rows:
            lines = [Line(number=number, text=text) for number, text in row.lines]
            hit = self._hit(by_id[row.session_id], row.seq, query, excerpt_of(fit(lines), []), ())
            if hit:
                hits.append(hit)
        return Page(
            hits=tuple(hits),
            total_matches=answer.row_matches,
            line_matches=answer.line_matches,
            skipped=answer.skipped,
            timed_out=answer.timed_out,
            groups=answer.groups,
            group_count=answer.group_count,
            sessions_searched=len(found),
        )

    def _hit(
        self, entry: Entry, seq: int, query: Query, excerpt: str, matched: tuple[str, ...]
    ) -> Hit | None:
        """Return a row as a hit, None when it cannot be read any more."""
        try:
            reader = self._pool.reader(entry)
            row = reader.row_facts(seq)
            if row is None:
                return None
            before, after = reader.neighbours(seq, query.context)
        except StoreUnavailable:
            return None  # was readable a moment ago: deleted, or found damaged by the next search
        return Hit(
            session_id=entry.session_id,
            seq=seq,
            role=row.role,
            kind=row.kind,
            name=row.name,
            in_context=row.in_context,
            excerpt=excerpt,
            before=tuple(_neighbour(each) for each in before),
            after=tuple(_neighbour(each) for each in after),
            blob_ids=row.blob_ids,
            matched_terms=matched,
            created_at=row.created_at,
            agent=entry.agent,
            cwd=entry.cwd,
        )


def _files_to_keep_open() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS gives a process 256; a server has sockets and pipes beside them.
    return 256 if soft == resource.RLIM_INFINITY else max(16, min(256, soft // 4))


def _neighbour(row: StoredRow) -> Neighbour:
    return Neighbour(
        seq=row.seq,
        role=row.role,
        kind=row.kind,
        name=row.name,
        excerpt=head_of_text(row.text, _NEIGHBOUR_CHARACTERS),
    )
