r"""Which lines of which sessions match a regular expression, by way of the sandbox.

Python's syntax. `^` and `$` mean the ends of a line, as with `grep`; a pattern that can cross a
line end (`\n`, `(?s)`, `[\s\S]`) is tried on whole rows instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed, Usage
from openmem.context.sandbox.process import run_child, source_uri

DEADLINE_SECONDS = 1.2
KILL_SECONDS = 1.5
PATTERN_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One session's database file."""

    path: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which rows are searched. `roles`: empty for all; `in_context`: None for both."""

    roles: tuple[str, ...] = ("user", "tool")
    in_context: bool | None = None
    include_echo: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLines:
    """A row with its first matching lines, at most 50, as (number from 1, text).

    A text of more than 2,000 characters is cut round the match, with "…" where it is cut.
    """

    session_id: str
    seq: int
    lines: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """What matched. Counts are of everything, or of what was reached when `timed_out`.

    `rows`: the first rows, in the order of the sources, newest first. `groups`: the pattern's
    captures with the number of lines, most frequent first, at most 200 of `group_count`.
    `long_lines`: lines of which only the first 20,000 characters were looked at.
    `skipped`: one sentence for each source that could not be read.
    """

    rows: tuple[RowLines, ...]
    row_matches: int
    line_matches: int
    groups: tuple[tuple[tuple[str, ...], int], ...] = ()
    group_count: int = 0
    long_lines: int = 0
    skipped: tuple[str, ...] = ()
    timed_out: bool = False


def find_lines(
    sources: Sequence[Source],
    pattern: str,
    filters: Filters,
    *,
    limit: int,
    group: bool = False,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Lines:
    """Return the lines of the sources that match, within `deadline_seconds` and a little.

    `limit`: how many rows come with their lines. `group`: also count by what the pattern
    captured. Usage when the pattern is empty, longer than 200 characters or does not compile;
    the message says where.
    """
    if not pattern:
        raise Usage("pattern is empty.")
    if len(pattern) > PATTERN_LIMIT:
        raise Usage(f"pattern is {len(pattern)} characters long, the limit is {PATTERN_LIMIT}.")
    job: dict[str, object] = {
        "kind": "lines",
        "pattern": pattern,
        "sources": [[source_uri(source.path), source.session_id] for source in sources],
        "roles": list(filters.roles),
        "in_context": filters.in_context,
        "include_echo": filters.include_echo,
        "limit": limit,
        "group": group,
        "deadline": deadline_seconds,
    }
    answer = run_child(job, deadline_seconds + KILL_SECONDS - DEADLINE_SECONDS)
    if not answer.messages:
        if answer.was_killed:
            return Lines(rows=(), row_matches=0, line_matches=0, timed_out=True)
        raise Failed("the search for a pattern ended without an answer.", code="pattern-failed")
    message = answer.messages[-1]
    if message.get("error") == "fault":
        raise Failed(
            f"the search for a pattern broke off ({message.get('message')}).", code="pattern-failed"
        )
    if message.get("error"):
        raise does_not_compile(message.get("message"), message.get("place"))
    return _lines(message, timed_out=answer.was_killed or not message.get("final"))


def does_not_compile(message: object, place: object) -> Usage:
    """Return the error for a pattern. `place`: where in it, from 0; None when that is not known."""
    where = f" at character {place + 1}" if isinstance(place, int) else ""
    return Usage(
        f"pattern does not compile{where}: {message}.",
        hint="Put a backslash before ( ) [ ] { } . * + ? | that stand for themselves.",
    )


def _lines(message: dict[str, object], *, timed_out: bool) -> Lines:
    hits, groups, skipped = message["hits"], message["groups"], message["skipped"]
    assert isinstance(hits, list) and isinstance(groups, list) and isinstance(skipped, list)
    return Lines(
        rows=tuple(
            RowLines(
                session_id=str(hit["session_id"]),
                seq=int(hit["seq"]),
                lines=tuple((int(number), str(text)) for number, text in hit["lines"]),
            )
            for hit in hits
        ),
        row_matches=int(str(message["rows"])),
        line_matches=int(str(message["lines"])),
        groups=tuple((tuple(values), int(count)) for values, count in groups),
        group_count=int(str(message["group_count"])),
        long_lines=int(str(message["long_lines"])),
        skipped=tuple(str(line) for line in skipped),
        timed_out=timed_out or bool(message["timed_out"]),
    )
