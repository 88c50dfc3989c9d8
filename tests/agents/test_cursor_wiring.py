"""Cursor by its documentation: what is written, and that its forms are kept to.

No program of it could be had, so these are contract tests; the compatibility page says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from openmem.agents.base import AGENTS
from openmem.agents.launchers import MCP, hook_command, launcher_path
from openmem.base.errors import Refused
from tests.fakes.any_person import AnyPerson, a_person
from tests.fakes.json_files import json_files

CURSOR = AGENTS["cursor"]


@pytest.fixture
def person(home: Path) -> AnyPerson:
    return a_person("cursor", home)


def hooks_of(person: AnyPerson) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((person.home / ".cursor/hooks.json").read_bytes())
    return found


def test_hooks_and_server_have_the_documented_form(person: AnyPerson) -> None:
    """Issue 7 part 3: numeric version; a hook is a command with seconds; flat lists by event."""
    person.wire()
    found = hooks_of(person)
    assert found["version"] == 1 and type(found["version"]) is int
    assert found["hooks"]["stop"] == [{"command": "theirs"}]
    events = {"sessionStart": "session-start", "beforeSubmitPrompt": "prompt",
              "afterAgentResponse": "stop"}  # fmt: skip
    for event, ours in events.items():
        command = hook_command(person.paths, ours, "cursor")
        assert found["hooks"][event] == [{"command": command, "timeout": 5}]
    servers = json.loads((person.home / ".cursor/mcp.json").read_bytes())["mcpServers"]
    program = launcher_path(person.paths, MCP)
    assert servers["openmem"] == {"command": program, "args": [], "env": {}}
    assert servers["theirs"] == {"command": "x"}


def test_it_has_no_proxy_and_says_so_plainly(person: AnyPerson) -> None:
    """Issue 7 part 3: no proxy (it does not allow one)."""
    assert not person.detect().is_routable
    person.wire()
    assert person.wired().port == 0
    told = " ".join(CURSOR.notes(person.detect(), person.wanted()))
    assert "takes no other address" in told and "not recorded" in told and "not tried" in told


@pytest.mark.parametrize("version", ['"1"', "2", "true"])
def test_another_version_is_refused_with_its_place(person: AnyPerson, version: str) -> None:
    """Issue 7, Bad input: an unknown newer form; nothing is written."""
    person.write(".cursor/hooks.json", f'{{"version": {version}, "hooks": {{}}}}')
    before = person.tree()
    with pytest.raises(Refused, match=r"hooks\.json: its version"):
        person.plan()
    assert person.tree() == before
    person.wire(hooks=None)  # the rest can be had without


def test_ours_stands_once_whatever_form_it_had(person: AnyPerson) -> None:
    """Users' report 7: a hook that is registered twice fires twice."""
    old = {"command": "/old/state/hooks/openmem-hook prompt --agent cursor"}
    document = {"version": 1, "hooks": {"beforeSubmitPrompt": [old, {"command": "theirs"}],
                                        "preCompact": [old]}}  # fmt: skip
    person.write(".cursor/hooks.json", json.dumps(document))
    assert person.wired().older != ()
    person.wire()
    found = hooks_of(person)["hooks"]
    assert [("openmem-hook" in one["command"]) for one in found["beforeSubmitPrompt"]] == [
        True,
        False,
    ]
    assert "preCompact" not in found and person.wired().older == ()


def test_nothing_is_found_where_there_is_no_cursor(home: Path) -> None:
    """A HOME without a sign of it."""
    person = a_person("cursor", home, has_own=False)
    assert CURSOR.detect(person.system, person.environ) is None
    (home / ".config/Cursor").mkdir(parents=True)
    assert person.detect().name == "cursor"


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(hooks=json_files(comments=False), servers=json_files(comments=False))
def test_any_files_come_back_to_the_byte(home: Path, hooks: bytes, servers: bytes) -> None:
    """Issue 7, Show it: wiring property tests for each agent's file format."""
    person = a_person("cursor", home, has_own=False)
    files = {
        person.write(".cursor/hooks.json", hooks): hooks,
        person.write(".cursor/mcp.json", servers): servers,
    }
    try:
        person.wire()
    except Refused:  # what we would write into is no table
        assert all(path.read_bytes() == data for path, data in files.items())
        return
    assert person.plan().is_empty and person.wired().mcp
    person.unwire()
    assert all(path.read_bytes() == data for path, data in files.items())
