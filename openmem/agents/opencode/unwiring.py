"""The plan that takes out of OpenCode's files all that is ours, whoever wrote it.

Idea: what the receipts know goes back to the bytes of before; what stands there beyond that is
taken out by its mark. Invariant: a file that nobody changed since is byte for byte what it was.
Trap: a person may have made a `.jsonc` since; ours may stand in the file below it.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Detected, Wanted
from openmem.agents.back import plan_files_back
from openmem.agents.opencode.places import places_of
from openmem.agents.opencode.wiring import plan_wiring
from openmem.agents.skill import skill_file
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import preview
from openmem.plan.system import System


def plan_unwiring(
    system: System,
    paths: Paths,
    detected: Detected,
    environ: Mapping[str, str],
    upstreams: Mapping[str, str],
) -> Plan:
    """Return the plan; empty when nothing of ours is there. Unparseable, Refused as for wiring."""
    found = places_of(detected, environ, paths.home)
    files = {*found.configs, found.plugin, found.command, skill_file(found.skills)}
    back = plan_files_back(system, paths, files)
    ahead = preview(back, system)
    nothing = Wanted(hooks=False, mcp=False, proxy=False, skill=False, upstreams=upstreams)
    return back + plan_wiring(ahead, paths, detected, nothing, environ)
