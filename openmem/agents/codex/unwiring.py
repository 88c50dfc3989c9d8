"""The plan that takes out of Codex's files all that is ours, whoever wrote it.

Idea: what the receipts know goes back to the bytes of before; what stands there beyond that is
taken out by its mark. Invariant: a file that nobody changed since is byte for byte what it was.
Trap: Codex itself may have written down that a hook of ours is trusted; that goes with the hook.
"""

from __future__ import annotations

from openmem.agents.agent import Detected, Wanted
from openmem.agents.back import plan_files_back
from openmem.agents.codex import trust
from openmem.agents.codex.places import places_of
from openmem.agents.codex.settings import read_toml
from openmem.agents.codex.wiring import plan_wiring
from openmem.agents.reading import read_json
from openmem.agents.skill import skill_file
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import preview
from openmem.plan.edit.planner import plan_toml_edit
from openmem.plan.system import System


def plan_unwiring(system: System, paths: Paths, detected: Detected, *, upstream: str) -> Plan:
    """Return the plan; empty when nothing of ours is there. Unparseable, Refused as for wiring."""
    found = places_of(detected)
    ours = trust.our_hooks(found, read_json(system, found.hooks), paths)
    back = plan_files_back(system, paths, {found.config, found.hooks, skill_file(found.skills)})
    ahead = preview(back, system)
    left = trust.distrust_edits(ours, read_toml(ahead, found.config))
    if left:
        why = "its hooks trusted no more"
        back += Plan(actions=tuple(plan_toml_edit(ahead, found.config, left, why=why)))
        ahead = preview(back, system)
    nothing = Wanted(hooks=False, mcp=False, proxy=False, skill=False, upstream=upstream)
    return back + plan_wiring(ahead, paths, detected, nothing)
