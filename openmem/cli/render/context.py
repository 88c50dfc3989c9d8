"""Sessions, hits and rows as a person reads them. Source: screens.md, context status and search.

Stored text is shown through `visible`, so that nothing an agent wrote can drive the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmem.base.counts import counted
from openmem.cli.console import visible, wrapped
from openmem.cli.render.table import cells, clipped, columns

_THREADS_SHOWN = 3


def short_id(session_id: str) -> str:
    """Return a session's id as lists show it: head, ellipsis, tail."""
    return session_id if len(session_id) <= 8 else f"{session_id[:4]}…{session_id[-2:]}"


def count_text(number: int) -> str:
    """Return `812`, `88k`, `4.4M`."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def age_text(seconds: float) -> str:
    """Return how long ago: `now`, `2 min`, `3 h`, `5 d`."""
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds // 3600:.0f} h"
    return f"{seconds // 86400:.0f} d"


def share_text(part: int, whole: int) -> str:
    """Return `97 %`, a dash when there is nothing to share."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def status_lines(
    sessions: Sequence[Mapping[str, Any]],
    *,
    head: str,
    now_seconds: float,
    width: int,
    hidden: int = 0,
    today: Mapping[str, Any] | None = None,
    passed: int = 0,
) -> list[str]:
    """Return one line per session, newest first as given; a second cause of busts is a second line.

    `head`: what stands above them. `hidden`: how many older ones are not among them. `today`: sums
    as in the envelope; `passed`: requests that policy let through unrecorded.
    """
    lines = wrapped(head, width)
    if not sessions:
        return [*lines, "", "No session is kept yet. Start a wired agent in a git repository."]
    rows = [["SESSION", "AGENT", "PROJECT", "PROMPT", "TRIMS", "GONE", "CACHE", "BUSTS", "LAST"]]
    for session in sessions:
        rows += _status_rows(session, now_seconds)
        rows += _thread_rows(session["threads"], now_seconds)
    lines += ["", *_fitted(rows, width)]
    if hidden:
        lines.append(f"and {hidden} older ones:  openmem context status --limit 0")
    lines.append("")
    if today is None:
        lines.append(f"fail-opens: {sum(session['fail_opens'] for session in sessions)}")
    else:
        lines += wrapped(_today_line(today, passed), width)
        lines += wrapped(_saving_line(today), width)
    sid = sessions[0]["session_id"][:8]
    return [
        *lines,
        "",
        f"One session:  openmem context show {sid}",
        "Picture:      openmem context report --html FILE",
    ]


_PROJECT, _LEAST_PROJECT = 2, 7


def _fitted(rows: list[list[str]], width: int) -> list[str]:
    """Return the table at most `width` wide: the project's name gives way, then the gaps."""
    for gap in (2, 1):
        others = sum(
            max(cells(row[n]) for row in rows) + gap for n in range(len(rows[0])) if n != _PROJECT
        )
        room = max(_LEAST_PROJECT, min(18, width - others))
        shown = [
            [clipped(cell, room) if n == _PROJECT else cell for n, cell in enumerate(row)]
            for row in rows
        ]
        lines = columns(shown, right=(4, 5, 6), gap=gap)
        if max(map(cells, lines)) <= width:
            break
    return lines


def _today_line(today: Mapping[str, Any], passed: int) -> str:
    told = f"fail-opens today: {today['fail_opens']}"
    return f"{told} · passed through and not kept, by policy: {passed}" if passed else told


def _saving_line(today: Mapping[str, Any]) -> str:
    """Return what trims spared today; money only where every model's price is known."""
    if not today["requests"]:
        return ""
    sent, whole = today["input_tokens"], today["untrimmed_tokens"]
    if sent == whole:
        return f"Today: {count_text(sent)} input tokens, nothing trimmed"
    told = (
        f"Against no trimming, today: {count_text(sent)} of {count_text(whole)} input tokens, "
        f"about {today['units'] / max(1.0, today['untrimmed_units']):.2f} of the cost"
    )
    if today["dollars"] is not None:
        told += f", ${today['dollars']:.2f} of ${today['untrimmed_dollars']:.2f}"
    return told


def _status_rows(session: Mapping[str, Any], now_seconds: float) -> list[list[str]]:
    project = project_of(session["cwd"]) or session["bank"] or "–"
    who = [
        short_id(session["session_id"]),
        clipped(visible(session["agent"] or "–"), 12),
        clipped(visible(project), 18),
    ]
    return _with_causes(who, session, now_seconds)


def _thread_rows(threads: Sequence[Mapping[str, Any]], now_seconds: float) -> list[list[str]]:
    """Return the sub-agents of a session, the last used ones; titles and warm-ups are left out."""
    agents = [thread for thread in threads if thread["kind"] == "sub-agent"]
    rows = []
    for thread in agents[:_THREADS_SHOWN]:
        who = [f" └ {visible(thread['agent_id'])[:6]}", "sub-agent", ""]
        rows += _with_causes(who, thread, now_seconds)
    if len(agents) > _THREADS_SHOWN:
        rows.append([f" └ {len(agents) - _THREADS_SHOWN} more", *[""] * 8])
    return rows


def _with_causes(who: list[str], counts: Mapping[str, Any], now_seconds: float) -> list[list[str]]:
    """Return a row, and one more for each further cause of busts."""
    causes = [f"{count} {_CAUSES.get(cause, cause)}" for cause, count in counts["bust_reasons"]]
    if not causes:
        causes = [str(counts["busts"]) if counts["busts"] else "–"]
    if len(causes) > _CAUSES_SHOWN:
        causes = [*causes[: _CAUSES_SHOWN - 1], f"{len(causes) - _CAUSES_SHOWN + 1} more"]
    prompt = counts["input_tokens"] + counts["cache_read_tokens"] + counts["cache_creation_tokens"]
    gone = counts["removed_tokens"] + counts["cleared_tokens"]
    row = [
        *who,
        _prompt(counts),
        str(counts["trims"]),
        count_text(gone) if gone else "–",
        share_text(counts["cache_read_tokens"], prompt),
        causes[0],
        age_since(counts["last_at"], now_seconds),
    ]
    return [row, *([*[""] * 7, cause, ""] for cause in causes[1:])]


_CAUSES = {"messages": "history"}
_CAUSES_SHOWN = 3
_NEAR_LIMIT = 0.9


def _prompt(counts: Mapping[str, Any]) -> str:
    """Return the last prompt against the model's window, with a mark when it is nearly full."""
    tokens, limit = counts["prompt_tokens"], counts.get("limit_tokens", 0)
    if not tokens:
        return "–"
    if not limit:
        return count_text(tokens)
    near = " !" if tokens >= _NEAR_LIMIT * limit else ""
    return f"{count_text(tokens)} of {count_text(limit)}{near}"


def project_of(cwd: str) -> str:
    """Return the name of a session's folder; "" when it is not known."""
    return cwd.rstrip("/").rpartition("/")[2]


def age_since(at: str, now_seconds: float) -> str:
    """Return how long ago a time of ours was, a dash when it is none."""
    from openmem.base.clock import seconds_of

    try:
        return age_text(max(0.0, now_seconds - seconds_of(at)))
    except ValueError:
        return "–"  # a session of another writer may hold no time of ours


def hit_lines(data: Mapping[str, Any], *, now_seconds: float, width: int) -> list[str]:
    """Return what a search found: a count, then each hit with its neighbours.

    `data`: as in the envelope.
    """
    hits = data["hits"]
    if not hits:
        return ["Nothing found."]
    rows = counted(data["total_matches"], "row")
    if len(hits) < data["total_matches"]:  # in how many sessions the others are is not known
        found = f"{rows} ({data['mode']}), {len(hits)} shown"
    else:
        sessions = len({hit["session_id"] for hit in hits})
        found = f"{rows} in {counted(sessions, 'session')} ({data['mode']})"
    matched = "line matches" if data["line_matches"] == 1 else "lines match"
    lines = [f"{found} · {data['line_matches']} {matched}"]
    for hit in hits:
        lines += ["", _hit_head(hit, now_seconds, width)]
        lines += [_neighbour(row, width) for row in hit["before"]]
        lines += [f"    {visible(line)}" for line in hit["excerpt"].split("\n")]
        lines += [_neighbour(row, width) for row in hit["after"]]
    first = hits[0]
    return [
        *lines,
        "",
        f"All of a row:  openmem context show {first['session_id'][:8]} --row {first['seq']}",
    ]


def count_lines(data: Mapping[str, Any]) -> list[str]:
    """Return how many lines match, and how many for each capture, the most frequent first."""
    lines = [
        f"{counted(data['line_matches'], 'line')} in {counted(data['total_matches'], 'row')} "
        f"of {counted(data['sessions_searched'], 'session')}"
    ]
    if data["groups"]:
        rows = [["LINES", "CAPTURED"]]
        rows += [
            [str(group["lines"]), visible("  ".join(group["captured"]))] for group in data["groups"]
        ]
        lines += ["", *columns(rows)]
    left = data["group_count"] - len(data["groups"])
    return [*lines, f"{left} more captures"] if left > 0 else lines


def _hit_head(hit: Mapping[str, Any], now_seconds: float, width: int) -> str:
    who = f"{hit['role']} {hit['name']}".strip()
    state = "" if hit["in_context"] else "  trimmed"
    age = age_since(hit["created_at"], now_seconds)
    told = "" if age == "–" else f"  {age} ago" if age != "now" else "  now"
    left = visible(f"{short_id(hit['session_id'])} #{hit['seq']}  {who}{state}{told}")
    project = clipped(visible(project_of(hit["cwd"])), 24)
    gap = width - len(left) - len(project)
    return f"{left}{' ' * gap}{project}" if project and gap >= 2 else left


def _neighbour(row: Mapping[str, Any], width: int) -> str:
    who = f"{row['role']} {row['name']}".strip()
    text = visible(" ".join(row["excerpt"].split()))
    return "  " + clipped(f"#{row['seq']}  {visible(who)}  {text}", width - 2)


def row_head(row: Mapping[str, Any]) -> str:
    """Return one line that says what a row is."""
    who = f"{row['role']} {row['kind']} {row['name']}".strip()
    state = "" if row["in_context"] else "  trimmed"
    return visible(f"#{row['seq']}  {who}  {row['created_at']}{state}")


def session_lines(rows: Sequence[Mapping[str, Any]], *, head: str, width: int) -> list[str]:
    """Return the rows of a session, one line each."""
    lines = [*wrapped(head, width), ""]
    for row in rows:
        who = f"{row['role']} {row['name']}".strip()
        mark = " " if row["in_context"] else "–"
        kind = "forgotten" if row.get("is_forgotten") else row["kind"]
        text = visible(" ".join(row["text"].split())) or f"({kind})"
        lines.append(clipped(f"{row['seq']:>5} {mark} {visible(who):<14}  {text}", width))
    return lines
