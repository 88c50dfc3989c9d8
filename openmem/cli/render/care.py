"""What goes for good, as a person sees it before saying yes; and what went. Source: screens.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openmem.base.counts import counted
from openmem.cli.console import tilde, visible, wrapped
from openmem.cli.render.context import age_since
from openmem.cli.render.table import clipped, columns

if TYPE_CHECKING:
    from openmem.context.care.receipt import ForgetReceipt
    from openmem.context.care.select import Chosen, Selected

PENDING = "a reader holds old pages, or the disk is full,"
_ROWS_NAMED = 12
_STAYING_NAMED = 12


def session_line(facts: Mapping[str, str], home: str, width: int) -> str:
    """Return one session that goes. `facts`: id, agent, cwd, rows, size, age, note; "" unknown."""
    told = [
        facts["agent"], tilde(facts["cwd"], home), facts["rows"], facts["size"],
        facts["age"], facts["note"],
    ]  # fmt: skip
    text = ", ".join(visible(part) for part in told if part)
    return clipped(f"  - {facts['id']}  {text}", width)


def age_words(at: str, now_seconds: float) -> str:
    """Return `2 d ago`, `just now`, "" for a time that is none of ours."""
    age = age_since(at, now_seconds)
    return "" if age == "–" else "just now" if age == "now" else f"{age} ago"


def chosen_lines(
    selected: Sequence[Selected], *, home: str, now_seconds: float, width: int
) -> list[str]:
    """Return the rows that go, by session, with the line that was found in each."""
    lines: list[str] = []
    for choice in selected:
        entry = choice.entry
        where = tilde(entry.cwd, home)
        older = "stays: written by an earlier system" if entry.is_legacy else ""
        told = ", ".join(visible(part) for part in (entry.agent, where, older) if part)
        head = f"  {'=' if older else '-'} {entry.session_id}  {told}"
        lines += ["", clipped(head.rstrip(), width)]
        shown = choice.rows[:_ROWS_NAMED]
        lines += columns([_cells(row, now_seconds) for row in shown])
        more = len(choice.rows) - len(shown)
        if more:
            lines.append(f"    and {counted(more, 'more row')}")
    return [clipped(line, width) for line in lines[1:]]


def _cells(row: Chosen, now_seconds: float) -> list[str]:
    who = visible(f"{row.role} {row.name}".strip())
    text = visible(" ".join(row.line.split()))
    return [f"    #{row.seq}", clipped(who, 16), age_since(row.created_at, now_seconds), text]


def staying_lines(staying: Sequence[str], home: str, width: int) -> list[str]:
    """Return what holds it and stays, with what to do about it."""
    lines: list[str] = []
    for sentence in staying[:_STAYING_NAMED]:
        lines += _hanging(f"  = {tilde(sentence, home)}", width)
    more = len(staying) - _STAYING_NAMED
    return [*lines, f"  = and {counted(more, 'more file')}"] if more > 0 else lines


def receipt_lines(receipt: ForgetReceipt, home: str, width: int) -> list[str]:
    """Return what was forgotten, what keeps it out, and what is left or not done yet."""
    parts = [
        f"{counted(number, noun)}{rest}"
        for number, noun, rest in (
            (receipt.rows, "row", ""),
            (receipt.lines, "line", ""),
            (receipt.masked, "row", " masked"),
            (receipt.files, "file", ""),
            (receipt.blobs, "payload", ""),
        )
        if number
    ]
    lines = [f"Forgotten: {', '.join(parts) or 'nothing'}."]
    if receipt.sessions:
        lines += wrapped(f"In {'session' if len(receipt.sessions) == 1 else 'sessions'} "
                         f"{', '.join(receipt.sessions)}.", width)  # fmt: skip
    if receipt.tombstones:
        marks, keep = counted(receipt.tombstones, "mark"), "s" if receipt.tombstones == 1 else ""
        lines.append(f"{marks} without content keep{keep} it from coming back.")
    if receipt.left:
        lines += ["", "Left:", *staying_lines(receipt.left, home, width)]
    if receipt.pending:
        text = (
            f"Pending: {PENDING} in {', '.join(receipt.pending)}; the freed bytes are overwritten "
            "when that has changed, by the proxy or the next sweep. Until then this is not done."
        )
        lines += ["", *wrapped(text, width)]
    return lines


def _hanging(text: str, width: int) -> list[str]:
    first, *rest = wrapped(text.strip(), width - 4) or [""]
    return [f"  {first}", *(f"    {line}" for line in rest)]
