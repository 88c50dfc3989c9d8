"""Advice and timelines as a person reads them. Pure functions of plain values at a given width."""

from __future__ import annotations

from collections.abc import Sequence

from openmem.cli.console import visible, wrapped
from openmem.cli.render.context import count_text
from openmem.cli.render.table import clipped, columns
from openmem.context.advise import FRACTIONS, THRESHOLDS, Advice, Setting
from openmem.context.report.timeline import SIGNS, Happening, Strand, sign_of

_STEPS = "▁▂▃▄▅▆▇█"
_HAPPENINGS_SHOWN = 12
_OTHERS_SHOWN = 3


def note_lines(notes: Sequence[str], width: int) -> tuple[str, ...]:
    """Return sentences as lines of at most `width`."""
    return tuple(line for note in notes for line in wrapped(note, width))


def percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"


def advice_lines(advice: Advice, *, width: int, in_force: str) -> list[str]:
    """Return the replay's table, what it advises, and what it cannot know.

    `in_force`: where the setting in force comes from, for the last line.
    """
    lines = wrapped(
        f"Replayed {advice.calls:,} requests in {advice.threads} "
        f"{'thread' if advice.threads == 1 else 'threads'} of {advice.sessions} "
        f"{'session' if advice.sessions == 1 else 'sessions'}: cost against keeping everything, "
        "and how often it would have been trimmed.",
        width,
    )
    rows = [["TRIM FROM", *(f"TO {percent(fraction)}" for fraction in FRACTIONS), "PEAK"]]
    for soft in THRESHOLDS:
        cells = [advice.cell(soft, fraction) for fraction in FRACTIONS]
        peak = max(setting.total.peak for setting in cells)
        rows.append([f"{soft:,}", *map(_cell, cells), count_text(peak)])
    lines += ["", *columns(rows, right=(0, 1, 2, 3, 4)), ""]
    fits = "" if advice.keeps_within else f", past the window of {count_text(advice.window)}"
    lines.append(
        f"keep everything              1.00{_money(advice.keep.dollars)}, "
        f"peak {count_text(advice.keep.peak)}{fits}"
    )
    lines.append(
        f"the agent's own summaries    {advice.compact_share:.2f}{_money(advice.compact.dollars)}, "
        f"peak {count_text(advice.compact.peak)}, {advice.compact.cuts} of them"
    )
    current = advice.current
    lines.append(
        f"in force {in_force:<19} {current.share:.2f}{_money(current.total.dollars)}, "
        f"{current.soft:,} to {percent(current.fraction)}, {current.total.cuts} trims"
    )
    lines.append("")
    best = advice.best
    if best is None:
        lines += wrapped(f"Nothing to advise: {advice.why}", width)
    else:
        lines += wrapped(
            f"Advised: trim from {best.soft:,} to {percent(best.fraction)}, "
            f"{best.share:.2f}{_money(best.total.dollars)}. Why: {advice.why}",
            width,
        )
        lines += ["", *_commands(best, current)]
    return lines


def _cell(setting: Setting) -> str:
    return f"{setting.share:.2f} · {setting.total.cuts}"


def _money(dollars: float | None) -> str:
    return "" if dollars is None else f" (${dollars:,.2f})"


def _commands(best: Setting, current: Setting) -> list[str]:
    lines = []
    if best.soft != current.soft:
        lines.append(f"openmem config set trim.soft_tokens {best.soft}")
    if best.fraction != current.fraction:
        lines.append(f"openmem config set trim.to_fraction {best.fraction:g}")
    return lines or ["That is what is in force."]


def timeline_lines(strands: Sequence[Strand], *, head: str, width: int) -> list[str]:
    """Return a session's threads as rows of steps with their signs below, then what happened."""
    lines = wrapped(visible(head), width)
    if not any(strand.calls for strand in strands):
        return [*lines, "", "No request of this session is recorded."]
    shown = _shown(strands)
    for strand in shown:
        lines += ["", *_strand_lines(strand, width)]
    if len(shown) < len(strands):
        lines += ["", f"and {len(strands) - len(shown)} smaller threads, in the picture (--html)"]
    used = {one.cause for strand in shown for one in strand.happenings}
    if used:
        words = " · ".join(
            f"{sign_of(cause).letter} {sign_of(cause).word}" for cause in SIGNS if cause in used
        )
        lines += ["", *wrapped(f"{words} · times in UTC", width)]
    return lines


def _shown(strands: Sequence[Strand]) -> list[Strand]:
    """Return the main threads and the largest of the others, in their order."""
    others = [strand for strand in strands if strand.kind != "main"]
    largest = sorted(others, key=lambda strand: -sum(call.prompt for call in strand.calls))
    kept = largest[:_OTHERS_SHOWN]
    return [strand for strand in strands if strand.kind == "main" or strand in kept]


def _strand_lines(strand: Strand, width: int) -> list[str]:
    rate = f", {100 * strand.hit_rate:.1f} % from the cache" if strand.hit_rate is not None else ""
    gone = f", {count_text(strand.removed)} removed" if strand.removed else ""
    gone += f", {count_text(strand.cleared)} cleared by the provider" if strand.cleared else ""
    trims = f"{strand.trims} trim{'' if strand.trims == 1 else 's'}{gone}"
    counts = f"{len(strand.calls):,} requests, {trims}{rate}"
    lines = wrapped(f"{visible(strand.name)}, {visible(strand.model)}: {counts}", width)
    if not strand.calls:
        return lines
    room = max(10, width - 12)
    steps, signs = _row(strand, room)
    top = max(call.prompt for call in strand.calls)
    lines.append(f"{count_text(top):>8}  {steps}")
    if signs.strip():
        lines.append(f"{'':>8}  {signs.rstrip()}")
    shown = strand.happenings[-_HAPPENINGS_SHOWN:]
    if len(strand.happenings) > len(shown):
        lines.append(
            f"  {len(strand.happenings) - len(shown)} earlier ones in the picture (--html)"
        )
    rows = [_happening_row(one) for one in shown]
    lines += [clipped(f"  {row}", width) for row in columns(rows, right=(0,))]
    return lines


def _happening_row(one: Happening) -> list[str]:
    """Return number, time, what it came to, then sign and words, which may be clipped."""
    told = [count_text(one.prompt)] if one.prompt else []
    if one.removed:
        told = [f"{count_text(one.prompt + one.removed)} to {count_text(one.prompt)}"]
    if one.kept is not None:
        told.append(f"{100 * one.kept:.0f} % kept")
    at = f"{one.at[5:10]} {one.at[11:16]}"
    words = f"{sign_of(one.cause).letter} {visible(one.words)}"
    return [str(one.call), at, ", ".join(told), words]


def _row(strand: Strand, room: int) -> tuple[str, str]:
    """Return the steps of a thread in at most `room` characters, and the signs under them.

    Several requests share a step when there are more than fit: the largest is shown.
    """
    count = len(strand.calls)
    width = min(room, count)
    top = max(call.prompt for call in strand.calls) or 1
    steps = []
    for place in range(width):
        group = strand.calls[place * count // width : (place + 1) * count // width]
        height = max(call.prompt for call in group)
        steps.append(_STEPS[min(len(_STEPS) - 1, height * len(_STEPS) // (top + 1))])
    signs = [" "] * width
    for happening in strand.happenings:
        at = min(width - 1, (max(1, happening.call) - 1) * width // count)
        letter = sign_of(happening.cause).letter
        signs[at] = letter if signs[at] in (" ", letter) else "*"
    return "".join(steps), "".join(signs)
