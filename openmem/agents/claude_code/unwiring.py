"""The plan that takes out of Claude Code's files all that is ours, whoever wrote it.

Idea: what the receipts know goes back to the bytes of before; what stands there beyond that (wired
by hand, by another HOME, by a lost state folder) is taken out by its mark. Invariant: a file that
nobody changed since is byte for byte what it was.
"""

from __future__ import annotations

from openmem.agents.agent import Detected, Wanted
from openmem.agents.back import plan_files_back
from openmem.agents.claude_code.places import SERVER, cache_folder, places_of
from openmem.agents.claude_code.wiring import plan_wiring
from openmem.agents.skill import skill_file
from openmem.base.paths import Paths
from openmem.plan.action import Left, Plan
from openmem.plan.apply import preview
from openmem.plan.system import System


def plan_unwiring(system: System, paths: Paths, detected: Detected, *, upstream: str) -> Plan:
    """Return the plan; empty when nothing of ours is there. Unparseable, Refused as for wiring."""
    found = places_of(detected)
    back = plan_files_back(
        system, paths, {found.settings, found.state, found.command, skill_file(found.skills)}
    )
    ahead = preview(back, system)
    nothing = Wanted(
        hooks=False, mcp=False, proxy=False, skill=False, allow_tools=False, upstream=upstream
    )
    rest = plan_wiring(ahead, paths, detected, nothing)
    return back + rest + Plan(left=_logs(system, paths))


def _logs(system: System, paths: Paths) -> tuple[Left, ...]:
    """Return what Claude Code itself wrote of our server; it is Claude Code's to keep or remove."""
    folder = cache_folder(paths.environ, paths.home)
    name = f"mcp-logs-{SERVER}"
    if not any(system.stat(f"{folder}/{project}/{name}") for project in system.list(folder)):
        return ()
    why = f"Claude Code's own logs of the MCP server ({name})"
    return (Left(path=folder, why=why, code="foreign"),)
