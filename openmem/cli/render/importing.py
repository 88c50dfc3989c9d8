"""What an import came to, as a person reads it. Pure functions of plain values.

Lines that fail for one reason, one behind the other, are told as one: a file that is no session at
all must not push out of sight what is wrong in the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmem.base.counts import counted, size_text
from openmem.cli.console import visible, wrapped
from openmem.cli.render.table import columns

_LINES_SHOWN = 10
_SLOW_BYTES_A_SECOND = 1e6  # below it the time goes into many small sessions, not into reading


def import_lines(data: Mapping[str, Any], titles: Mapping[str, str], *, width: int) -> list[str]:
    """Return the summary: a line for each agent, then what was left out and where."""
    lines = _table(data["sessions"], titles)
    for reason, count in sorted(data["denied"].items()):
        words = f"  = {counted(count, 'session')} not stored by the policy: {reason}"
        lines += wrapped(words, width, "")
    lines += _some(len(data["skipped"]), _skipped(data["skipped"]), "line", "skipped", width)
    unread = [_unread(entry) for entry in data["unread"]]
    lines += _some(len(unread), unread, "place", "not read", width)
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


def _some(count: int, entries: list[str], noun: str, verb: str, width: int) -> list[str]:
    if not entries:
        return []
    lines = [f"{counted(count, noun)} {verb}:"]
    for entry in entries[:_LINES_SHOWN]:
        lines += wrapped(visible(entry), width, "  ")
    if len(entries) > _LINES_SHOWN:
        lines.append(f"  … and {len(entries) - _LINES_SHOWN} more; --json names all")
    return lines


def _skipped(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each run of lines of one file that fail for one reason."""
    runs: list[tuple[Mapping[str, Any], int]] = []
    for entry in entries:
        if runs:
            first, last = runs[-1]
            is_same = (first["path"], first["why"]) == (entry["path"], entry["why"])
            if is_same and last <= entry["line"] <= last + 1:
                runs[-1] = (first, entry["line"])
                continue
        runs.append((entry, entry["line"]))
    return [f"{first['path']}{_place(first['line'], last)}: {first['why']}" for first, last in runs]


def _place(first: int, last: int) -> str:
    if not first:
        return ""
    return f", line {first}" if first == last else f", lines {first} to {last}"


def _unread(entry: Mapping[str, Any]) -> str:
    return f"{entry['path']}: {entry['why']}"


def _how_much(data: Mapping[str, Any]) -> str:
    count = data["places"] - data["unchanged"] - data["older"]
    if not count:
        words = "Nothing new" if data["unread"] else "Nothing to do"
    else:
        verb = "looked at" if data["dry_run"] else "read"
        words = f"{counted(count, 'place')} {verb}, {size_text(data['bytes'])}"
        if data["seconds"] >= 1:
            words += f" in {data['seconds']:.0f} s"
            rate = data["bytes"] / data["seconds"]
            words += f", {rate / 1e6:.0f} MB/s" if rate >= _SLOW_BYTES_A_SECOND else ""
    for number, rest in ((data["unchanged"], "as before"), (data["older"], "older")):
        words += f"; {number} {rest}" if number else ""
    return words + "."
