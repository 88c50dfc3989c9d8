"""The doctor's findings as lines: outcome, what was seen, what to do. Source: screens.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from openmem.base.counts import counted
from openmem.cli.console import tilde, visible, wrapped
from openmem.setup.doctor.finding import OUTCOMES, Finding

_COLUMN = 9


def doctor_lines(findings: Sequence[Finding], home: str, width: int) -> list[str]:
    """Return every finding in the order it was made, and the count."""
    lines: list[str] = []
    for finding in findings:
        text = visible(tilde(finding.text, home))
        told = wrapped(text, width - _COLUMN) or [""]
        lines.append(f"{finding.outcome:{_COLUMN}}{told[0]}")
        lines += [" " * _COLUMN + rest for rest in told[1:]]
        if finding.advice:
            advice = visible(tilde(finding.advice, home))
            first, *more = wrapped(advice, width - _COLUMN - 2)
            lines.append(" " * _COLUMN + f"→ {first}")
            lines += [" " * (_COLUMN + 2) + rest for rest in more]
    return [*lines, "", count_line(findings)]


def count_line(findings: Sequence[Finding]) -> str:
    """Return `1 error, 2 warnings, 14 ok`."""
    counts = Counter(finding.outcome for finding in findings)
    parts = []
    for outcome in OUTCOMES:
        if counts[outcome]:
            is_noun = outcome in ("error", "warning")
            parts.append(
                counted(counts[outcome], outcome) if is_noun else f"{counts[outcome]} {outcome}"
            )
    return ", ".join(parts) or "Nothing was checked."
