"""Cursor as one of the agents."""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Detected, Wanted, Wired
from openmem.agents.back import plan_files_back
from openmem.agents.cursor import detect, wiring
from openmem.agents.cursor.places import EVENTS, NAME, SERVER, TITLE, places_of
from openmem.agents.entries import is_our_server, mentions
from openmem.agents.launchers import HOOK, MCP, launcher_path
from openmem.agents.reading import list_at, read_json, table_at, text_at, value_at
from openmem.agents.skill import has_skill, skill_file
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import preview
from openmem.plan.system import System


class Cursor:
    """Cursor, by its documentation of 2026; see `Agent` for what each part gives."""

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
        found = places_of(detected)
        files = {found.hooks, found.servers, skill_file(found.skills)}
        back = plan_files_back(system, paths, files)
        nothing = Wanted(hooks=False, mcp=False, proxy=False, skill=False)
        return back + wiring.plan_wiring(preview(back, system), paths, detected, nothing)

    def wired(self, system: System, paths: Paths, detected: Detected) -> Wired:
        found = places_of(detected)
        try:
            document, servers = read_json(system, found.hooks), read_json(system, found.servers)
        except OpenmemError as error:
            return Wired(problem=error.message)
        hooks: list[str] = []
        older: list[str] = []
        for event in table_at(document, ("hooks",)):
            for hook in list_at(document, ("hooks", event)):
                if not mentions(hook, HOOK):
                    continue
                if event not in EVENTS:
                    older.append(f"a hook of ours on {event}")
                elif text_at(hook, ("command",)) != wiring.hook_value(paths, event)["command"]:
                    older.append(f"an older hook of ours on {event}")
                elif event in hooks:
                    older.append(f"a second hook of ours on {event}")
                else:
                    hooks.append(event)
        server = value_at(servers, ("mcpServers", SERVER))
        has_server = text_at(server, ("command",)) == launcher_path(paths, MCP)
        if server is not None and not has_server and is_our_server(server):
            older.append(f'an older form of the MCP server "{SERVER}"')
        return Wired(
            hooks=tuple(event for event in EVENTS if event in hooks),
            mcp=has_server and value_at(server, ("disabled",)) is not True,
            skill=has_skill(system, found.skills),
            older=tuple(older),
        )

    def notes(self, detected: Detected, wanted: Wanted) -> tuple[str, ...]:
        said = []
        if wanted.proxy:
            said.append(
                "Cursor sends its requests to its own service and takes no other address: its "
                "sessions are not recorded and not trimmed, and it has memory and tools only."
            )
        if wanted.hooks:
            said.append(
                "Cursor is wired by its documentation, not tried: look at Hooks in its settings."
            )
        return tuple(said)
