"""One answer of the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from openmem.plan.action import Plan

Outcome = Literal["ok", "info", "warning", "error", "skipped"]
OUTCOMES: tuple[Outcome, ...] = ("error", "warning", "info", "skipped", "ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check saw. `name`: stable, for scripts; `subject`: what `detail` speaks of, may be "".

    `advice`: what to do, one sentence or command. `fix`: a plan that is proven safe, or None.
    """

    name: str
    outcome: Outcome
    detail: str
    subject: str = ""
    advice: str = ""
    fix: Plan | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The sentence a person reads."""
        return f"{self.subject}: {self.detail}" if self.subject else self.detail


def worst(findings: Sequence[Finding]) -> Outcome:
    """Return the gravest outcome; "ok" when there is none."""
    found = {finding.outcome for finding in findings}
    return next((outcome for outcome in OUTCOMES if outcome in found), "ok")
