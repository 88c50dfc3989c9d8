"""Claude Code as one of the agents."""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Detected, Wanted, Wired
from openmem.agents.claude_code import detect, notes, unwiring, wired, wiring
from openmem.agents.claude_code.places import EVENTS, NAME, TITLE
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.system import System


class ClaudeCode:
    """Claude Code 2 and later; see `Agent` for what each part gives."""

    name = NAME
    title = TITLE
    events = tuple(EVENTS)

    def detect(self, system: System, environ: Mapping[str, str]) -> Detected | None:
        return detect.detect(system, environ)

    def wiring(self, system: System, paths: Paths, detected: Detected, wanted: Wanted) -> Plan:
        return wiring.plan_wiring(system, paths, detected, wanted)

    def unwiring(
        self,
        system: System,
        paths: Paths,
        detected: Detected,
        *,
        upstream: str = "",
        upstreams: Mapping[str, str] | None = None,
    ) -> Plan:
        return unwiring.plan_unwiring(system, paths, detected, upstream=upstream)

    def wired(self, system: System, paths: Paths, detected: Detected) -> Wired:
        return wired.read_wired(system, paths, detected)

    def notes(self, detected: Detected, wanted: Wanted) -> tuple[str, ...]:
        return notes.notes(detected, wanted)
