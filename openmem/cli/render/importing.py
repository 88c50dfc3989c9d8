"""What an import came to, as a person reads it. Pure functions of plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmem.base.counts import counted
from openmem.cli.console import visible, wrapped
from openmem.cli.render.context import size_text
from openmem.cli.render.table import columns

_LINES_SHOWN = 10


def import_lines(data: Mapping[str, Any], titles: Mapping[str, str], *, width: int) -> list[str]:
    """Return the summary: a line for each agent, then what was left out and where."""
    lines = _table(data["sessions"], titles)
    for reason, count in sorted(data["denied"].items()):
        lines += wrapped(f"  = {counted(count, 'session')} not stored: {reason}", width, "")
    lines += _some([_skipped(entry) for entry in data["skipped"]], "line", "skipped", width)
    lines += _some([_unread(entry) for entry in data["unread"]], "file", "not read", width)
    lines += wrapped(_how_much(data), width)
    return lines


def _table(sessions: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[str]:
    word = "ROWS NEW"
    rows = [["AGENT", "SESSIONS", word, "KNOWN", "FROM", "TO"]]
    for agent, title in titles.items():
        mine = [session for session in sessions if session["agent"] == agent]
        if not mine:
            continue
        first = min((s["first_at"] for s in mine if s["first_at"]), default="")
        last = max(s["last_at"] for s in mine)
        known = sum(s["known"] + s["shared"] for s in mine)
        added = sum(s["added"] for s in mine)
        rows.append(
            [title, f"{len(mine):,}", f"{added:,}", f"{known:,}", first[:10] or "–", last[:10]]
        )
    return columns(rows, right=(1, 2, 3)) if len(rows) > 1 else []


def _some(entries: list[str], noun: str, verb: str, width: int) -> list[str]:
    if not entries:
        return []
    lines = [f"{counted(len(entries), noun)} {verb}:"]
    for entry in entries[:_LINES_SHOWN]:
        lines += wrapped(visible(entry), width, "  ")
    if len(entries) > _LINES_SHOWN:
        lines.append(f"  … and {len(entries) - _LINES_SHOWN} more; --json names all")
    return lines


def _skipped(entry: Mapping[str, Any]) -> str:
    place = f", line {entry['line']}" if entry["line"] else ""
    return f"{entry['path']}{place}: {entry['why']}"


def _unread(entry: Mapping[str, Any]) -> str:
    return f"{entry['path']}: {entry['why']}"


def _how_much(data: Mapping[str, Any]) -> str:
    count = data["places"] - data["unchanged"] - data["older"]
    if not count:
        words = "Nothing to do"
    else:
        verb = "looked at" if data["dry_run"] else "read"
        words = f"{counted(count, 'place')} {verb}, {size_text(data['bytes'])}"
        if data["seconds"] >= 1:
            rate = data["bytes"] / 1e6 / data["seconds"]
            words += f" in {data['seconds']:.0f} s, {rate:.0f} MB/s"
    for number, rest in ((data["unchanged"], "as before"), (data["older"], "older")):
        words += f"; {number} {rest}" if number else ""
    return words + "."
