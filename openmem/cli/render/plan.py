"""A plan as a person reads it: what will change, why, what stays, what to run next.

One line per file, by mark: `+` new, `~` changed, `-` removed, `$` a command that is run. Folders
are shown only when nothing inside them is, because a file's line already says where it goes.
Source: screens.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openmem.base.counts import counted, listed
from openmem.base.paths import display
from openmem.cli.console import tilde, visible, wrapped
from openmem.cli.render.table import cells, padded
from openmem.plan.action import (
    Action,
    Left,
    MakeDir,
    ManualStep,
    Plan,
    RemoveDir,
    RemoveFile,
    RunCommand,
    WriteFile,
)
from openmem.plan.diff import mark_of

_WIDEST_NAME = 38  # a name up to here stands beside its reason, a longer one above it
_NARROWEST_WHY = 24  # a terminal that leaves a reason less has every long name above it


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a plan. `mark`: + ~ - $ =; `name`: path or command, home as `~`."""

    mark: str
    name: str
    why: str


def entry_of(action: Action, home: str) -> Entry | None:
    """Return the line of an action, None for a step by hand."""
    match action:
        case WriteFile():
            return Entry(
                mark=mark_of(action), name=display(action.path, home), why=tilde(action.why, home)
            )
        case RemoveFile():
            return Entry(mark="-", name=display(action.path, home), why=tilde(action.why, home))
        case MakeDir():
            return Entry(
                mark="+", name=display(action.path, home) + "/", why=tilde(action.why, home)
            )
        case RemoveDir():
            return Entry(
                mark="-", name=display(action.path, home) + "/", why=tilde(action.why, home)
            )
        case RunCommand():
            return Entry(
                mark=mark_of(action),
                name=command_text(action.argv, home),
                why=tilde(action.why, home),
            )
        case ManualStep():
            return None


# Our own processes are started by a long line of python; this is what a person would type for it.
_OWN_WORDS = {
    "--start": "openmem proxy start",
    "--stop": "openmem proxy stop --now",
    "--give-way": "openmem proxy stop --now",
}


def command_text(argv: Sequence[str], home: str) -> str:
    """Return a command as it would be typed."""
    if any("openmem.host.supervisor" in word for word in argv) and argv[-1] in _OWN_WORDS:
        return _OWN_WORDS[argv[-1]]
    if any("openmem.stack" in word for word in argv) and argv[-2] in ("up", "down"):
        return f"openmem {argv[-2]}"
    return " ".join(
        display(word, home) if word.startswith(home + "/") else shlex.quote(word) for word in argv
    )


def entries_of(plan: Plan, home: str, state_dir: str = "") -> list[Entry]:
    """Return the lines of a plan: settings first, then what stands in our state, then commands."""
    paths = [a.path for a in plan.actions if isinstance(a, WriteFile | RemoveFile)]
    shown: list[Entry] = []
    inside = display(state_dir, home) + "/" if state_dir else "\0"
    for action in plan.actions:
        if isinstance(action, MakeDir | RemoveDir) and any(
            path.startswith(action.path.rstrip("/") + "/") for path in paths
        ):
            continue
        entry = entry_of(action, home)
        if entry is not None and entry not in shown:
            shown.append(entry)
    return sorted(shown, key=lambda entry: (entry.mark == "$", entry.name.startswith(inside)))


def headline(plan: Plan, more: Sequence[Entry] = ()) -> str:
    """Return what the plan amounts to: `change 5 files and run 1 command`; "" when empty."""
    files = {a.path for a in plan.actions if isinstance(a, WriteFile | RemoveFile)}
    commands = sum(isinstance(a, RunCommand) for a in plan.actions)
    parts = []
    if files:
        parts.append("change " + counted(len(files), "file"))
    if commands:
        parts.append("run " + counted(commands, "command"))
    if more:
        parts.append("remove " + counted(len(more), "folder"))
    if not parts and any(isinstance(a, MakeDir | RemoveDir) for a in plan.actions):
        parts.append("tidy up folders")
    return listed(parts)


def entry_lines(entries: Iterable[Entry], width: int) -> list[str]:
    """Return entries in two columns, the reason wrapped into its own."""
    entries = list(entries)
    if not entries:
        return []
    widest = min(_WIDEST_NAME, width - 6 - _NARROWEST_WHY)
    fitting = [cells(entry.name) for entry in entries if cells(entry.name) <= widest]
    column = max(fitting, default=0) + 2
    lines: list[str] = []
    for entry in entries:
        name, why = visible(entry.name), visible(entry.why)
        if cells(name) + 2 > column:
            lines += [f"  {entry.mark} {name}", *wrapped(why, width - 2, " " * 6)]
            continue
        first, *more = wrapped(why, width - 4 - column) or [""]
        lines.append(f"  {entry.mark} {padded(name, column)}{first}".rstrip())
        lines += [" " * (4 + column) + text for text in more]
    return lines


def left_lines(left: Sequence[Left], home: str, width: int) -> list[str]:
    """Return what stays although it was asked to go, and why."""
    if not left:
        return []
    return ["", "Left as it is:", *entry_lines((_left_entry(x, home) for x in left), width)]


def _left_entry(left: Left, home: str) -> Entry:
    inside = ": " + ".".join(str(key) for key in left.keys) if left.keys else ""
    return Entry(mark="=", name=display(left.path, home) + inside, why=tilde(left.why, home))


def plan_lines(
    plan: Plan,
    *,
    home: str,
    width: int,
    state_dir: str = "",
    notes: Sequence[str] = (),
    more: Sequence[Entry] = (),
    diffs: Sequence[str] = (),
    next_steps: Sequence[str] = (),
    is_dry: bool = True,
) -> list[str]:
    """Return the screen of a plan. `notes`: sentences below the files; `diffs`: lines, if asked.

    `more`: what happens besides the plan, as one entry each.
    """
    if plan.is_empty and not more:
        return ["Nothing to do.", *left_lines(plan.left, home, width)]
    what = headline(plan, more)
    still = " Nothing is written yet." if is_dry else ""
    entries = entry_lines([*entries_of(plan, home, state_dir), *more], width)
    lines = wrapped(
        f"openmem will {what}.{still}" if what else "openmem will change no file.", width
    )
    lines += ["", *entries] if entries else []
    if diffs:
        lines += ["", *diffs]
    told = [f"Warning: {text}" for text in plan.warnings]
    by_hand = [f"By hand: {a.text} ({a.why})" for a in plan.actions if isinstance(a, ManualStep)]
    if notes:
        lines.append("")
    for note in notes:
        lines += wrapped(visible(tilde(note, home)), width, "  ")
    for text in [*told, *by_hand]:
        lines += ["", *wrapped(visible(tilde(text, home)), width, "  ")]
    lines += left_lines(plan.left, home, width)
    if next_steps:
        lines += ["", *next_steps]
    return lines
