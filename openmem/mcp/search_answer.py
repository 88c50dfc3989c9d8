"""The answer of `smart_compact_search`: rows that match, or only how many lines do.

The running session is searched first and shown first: what an agent asks for is nearly always what
was removed from its own context, and a neighbour's copy of the same file must not stand before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openmem.base.config import load_config
from openmem.base.counts import counted
from openmem.base.errors import Usage
from openmem.base.vectors.settings import VectorSettings, vector_settings
from openmem.context.search.engine import search
from openmem.context.search.query import Hit, Neighbour, Page, Query, Scope
from openmem.context.store.catalog import entry_of
from openmem.mcp.reach import Reach, reach_of
from openmem.mcp.texts import place_line, removed
from openmem.mcp.tools import Arguments, Meta

TEXT_CHARACTERS = 30_000
_DEFAULT_LIMIT = 8
_EVERYONE = ("user", "tool", "assistant")


def answer_search(environ: Mapping[str, str], arguments: Arguments, meta: Meta) -> str:
    """Return the rows or counts that the arguments ask for."""
    query = _query(arguments)
    reach = reach_of(environ, meta)
    reach.require_recall()
    vectors = vector_settings(load_config(reach.paths.config_file, reach.paths.environ))
    query = replace(query, is_hybrid=vectors.ranks and vectors.is_on and bool(query.text))
    page = _page(reach, query, str(arguments.get("session_id", "")), vectors)
    if arguments.get("count"):
        return _counts(query, page)
    return _rows(reach, query, page)


def _query(arguments: Arguments) -> Query:
    text = str(arguments.get("query", "")).strip()
    pattern = str(arguments.get("pattern", ""))
    if bool(text) == bool(pattern):
        raise Usage("give query or pattern" + (", not both." if text else "."))
    in_context = arguments.get("in_context")
    return Query(
        text=text,
        pattern=pattern,
        roles=_roles(arguments.get("role")),
        in_context=in_context if isinstance(in_context, bool) else None,
        context=int(str(arguments.get("context", 0))),
        limit=int(str(arguments.get("limit", _DEFAULT_LIMIT))),
        include_echo=bool(arguments.get("include_echo")),
        group=bool(arguments.get("count")) and bool(pattern),
    ).checked()


def _roles(given: object) -> tuple[str, ...]:
    names = [str(name) for name in given] if isinstance(given, list) else [str(given or "")]
    if "all" in names:
        return _EVERYONE
    chosen = tuple(dict.fromkeys(name for name in names if name))
    return chosen or ("user", "tool")


def _page(reach: Reach, query: Query, session_id: str, vectors: VectorSettings) -> Page:
    """Return what was found in the session asked for, or in this workspace, own session first."""
    paths = reach.paths
    if session_id:
        entry = reach.require_session(session_id)
        one = replace(query, session_id=entry.session_id)
        return search(paths, one, Scope(all_workspaces=True), vectors)
    everywhere = search(paths, query, reach.scope, vectors)
    own = entry_of(paths, reach.own_session) if reach.own_session else None
    if own is None:
        return everywhere
    is_within = reach.is_own(own)
    if is_within and query.pattern:
        return everywhere  # newest first already, at up to a second for each pass
    first = search(
        paths, replace(query, session_id=own.session_id), Scope(all_workspaces=True), vectors
    )
    others = [hit for hit in everywhere.hits if hit.session_id != own.session_id]
    hits = (*first.hits, *others)[: query.limit]
    if is_within:
        return replace(everywhere, hits=hits)
    return replace(
        everywhere,
        hits=hits,
        total_matches=everywhere.total_matches + first.total_matches,
        line_matches=everywhere.line_matches + first.line_matches,
        skipped=(*first.skipped, *everywhere.skipped),
        timed_out=first.timed_out or everywhere.timed_out,
        groups=_merged(first.groups, everywhere.groups),
        group_count=max(first.group_count, everywhere.group_count),
        sessions_searched=everywhere.sessions_searched + 1,
    )


_Groups = tuple[tuple[tuple[str, ...], int], ...]


def _merged(one: _Groups, other: _Groups) -> _Groups:
    counts: dict[tuple[str, ...], int] = {}
    for values, count in (*one, *other):
        counts[values] = counts.get(values, 0) + count
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _head(query: Query, page: Page) -> str:
    """Return the line with the counts; with several words, rows and lines count differently."""
    any_word, every_word = ("", "")
    if " " in query.text:
        any_word, every_word = " (any word)", " (every word)"
    return " · ".join(
        (
            f"{counted(page.total_matches, 'row')} match{any_word}",
            f"{counted(page.line_matches, 'line')} match{every_word}",
            f"{counted(page.sessions_searched, 'session')} searched",
        )
    )


def _counts(query: Query, page: Page) -> str:
    """Return the number of matching lines, and the table of captures."""
    lines = [_head(query, page)]
    if page.groups:
        lines.append("lines\tcaptured")
        lines += ["\t".join((str(count), *values)) for values, count in page.groups]
        left = page.group_count - len(page.groups)
        if left > 0:
            lines.append(f"[{left} more captures]")
    return "\n".join([*lines, *_notes(query, page)])


def _rows(reach: Reach, query: Query, page: Page) -> str:
    """Return the rows with their matching lines, as many as the answer may hold."""
    head = _head(query, page)
    blocks: list[str] = []
    room = TEXT_CHARACTERS - len(head) - 500
    for hit in page.hits:
        block = _block(reach, hit)
        if len(block) > room and blocks:
            break
        blocks.append(block[:room])
        room -= len(block) + 2
    if len(blocks) < page.total_matches:
        head += f" · {len(blocks)} shown"
    parts = [head, *blocks]
    notes = _notes(query, page)
    if notes:
        parts.append("\n".join(notes))
    return "\n\n".join(parts)


def _block(reach: Reach, hit: Hit) -> str:
    lines = [_neighbour(hit, row, "before") for row in hit.before]
    lines.append(_place(reach, hit))
    lines.append(hit.excerpt)
    lines += [_neighbour(hit, row, "after") for row in hit.after]
    return "\n".join(lines)


def _place(reach: Reach, hit: Hit) -> str:
    return place_line(
        hit.session_id,
        hit.seq,
        hit.role,
        hit.name,
        hit.kind,
        removed(hit.in_context),
        hit.created_at,
        " ".join(("blob", *hit.blob_ids)) if hit.blob_ids else "",
        "this session" if hit.session_id == reach.own_session else "",
        f"near {hit.similarity:.2f}" if hit.similarity is not None else "",
    )


def _neighbour(hit: Hit, row: Neighbour, where: str) -> str:
    place = place_line(hit.session_id, row.seq, row.role, row.name, row.kind, where)
    return f"{place}\n{row.excerpt}"


def _notes(query: Query, page: Page) -> list[str]:
    """Return what a reader must know to take the result for what it is."""
    notes: list[str] = []
    if page.timed_out:
        notes.append("[time was up: counts are of what was reached; narrow the pattern]")
    if page.vectors and page.vectors.problem:
        notes.append(f"[ranked by words alone: {page.vectors.problem}]")
    if page.mode == "literal":
        notes.append("[a word was only found inside of others]")
    if not page.total_matches and not page.timed_out:
        left_out = [] if "assistant" in query.roles else ["assistant answers (role=all)"]
        if not query.include_echo:
            left_out.append("results of these tools (include_echo=true)")
        if left_out:
            notes.append(f"[left out: {', '.join(left_out)}]")
    notes += [f"[skipped: {line}]" for line in page.skipped[:5]]
    if len(page.skipped) > 5:
        notes.append(f"[{len(page.skipped) - 5} more skipped]")
    return notes
