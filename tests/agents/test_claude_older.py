"""Older entries of ours and those of OpenMem 0.8: named, taken out, and put back by undo."""

from __future__ import annotations

import json

import pytest

from openmem.agents.claude_code.places import MATCHERS
from openmem.agents.launchers import hook_command
from tests.agents.conftest import Person

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")


def _hook(command: str) -> dict[str, object]:
    return {"type": "command", "command": command}


def _group(*commands: str, **more: object) -> dict[str, object]:
    return {**more, "hooks": [_hook(command) for command in commands]}


PREDECESSOR = [
    'node "/home/u/.local/share/personal-memory/agent-runtime/hook-runner.mjs" session-start',
    "npx -y @bcmyguest/openmem hook prompt",
    "node /opt/openmem/cli/openmem.mjs hook",
]
FOREIGN = [
    "node /opt/other/runner.mjs",
    "say openmem is great",
    "/home/u/openmem-notes/sync.sh",
    "python3 hook-runner.py",
]


def _commands(value: object) -> list[str]:
    """Every command of a settings file, in order."""
    if isinstance(value, dict):
        found = [v for k, v in value.items() if k == "command" and isinstance(v, str)]
        return found + [c for v in value.values() for c in _commands(v)]
    return [c for item in value for c in _commands(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("command", PREDECESSOR)
def test_the_predecessors_hooks_are_named_and_taken_out(person: Person, command: str) -> None:
    """Issue 2 part 6: an OpenMem 0.8 is named and taken out through the plan."""
    person.write(
        person.settings,
        {"hooks": {"SessionStart": [_group(command)], "PreCompact": [_group(command)]}},
    )
    before = person.tree()
    plan = person.wire()
    found = person.read()["hooks"]
    assert isinstance(found, dict) and set(found) == set(EVENTS)
    assert not any(command in c for c in _commands(found))
    assert "Taken out: a hook of OpenMem 0.8 on SessionStart." in plan.warnings
    assert "Taken out: a hook of OpenMem 0.8 on PreCompact." in plan.warnings
    person.undo()
    assert person.tree() == before


def test_a_neighbour_in_the_same_group_stays(person: Person) -> None:
    """Design 4: other people's entries untouched."""
    hooks = {
        "Stop": [
            _group("mine", PREDECESSOR[0], "mine too", matcher="x"),
            _group(PREDECESSOR[1]),
            _group("last"),
        ]
    }
    person.write(person.settings, {"hooks": hooks})
    person.wire()
    stop = person.read()["hooks"]["Stop"]  # type: ignore[index]
    assert stop[:2] == [_group("mine", "mine too", matcher="x"), _group("last")]
    assert len(stop) == 3


@pytest.mark.parametrize("command", FOREIGN)
def test_what_only_looks_like_it_stays(person: Person, command: str) -> None:
    """Ours: a mark is a mark, a name is not."""
    person.write(person.settings, {"hooks": {"Stop": [_group(command)]}})
    plan = person.wire()
    assert command in _commands(person.read())
    assert not any("Taken out" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    "older",
    [
        "/old/place/openmem-hook stop --agent claude-code",
        "'/old place/openmem-hook' stop",
        '"/old/place/openmem-hook" stop --agent claude-code',
        "sh /old/openmem-hook stop",
    ],
)
def test_older_forms_of_ours_become_one(person: Person, older: str) -> None:
    """Users' report 7: other path, older quoting, registered twice."""
    current = hook_command(person.paths, "stop", "claude-code")
    hooks = {"Stop": [_group(older), _group("mine"), _group(older), _group(current)]}
    person.write(person.settings, {"hooks": hooks})
    before = person.tree()
    person.wire()
    assert sorted(_commands(person.read()["hooks"]["Stop"])) == sorted(["mine", current])  # type: ignore[index]
    assert person.plan().is_empty
    person.undo()
    assert person.tree() == before
    person.wire()
    person.unwire()
    assert _commands(person.read()) == ["mine"]  # ours goes in every form, whoever wrote it


def test_hooks_of_ours_in_other_places_become_those_of_now(person: Person) -> None:
    """Users' report 10: four SessionStart matchers and one PreToolUse of an older version."""
    old = "/old/openmem-hook"
    hooks = {
        "SessionStart": [
            _group(f"{old} session-start", matcher=m)
            for m in ("startup", "resume", "clear", "compact")
        ],
        "PreToolUse": [_group(f"{old} tool", matcher="Bash")],
    }
    person.write(person.settings, {"hooks": hooks})
    assert person.wired().hooks == ()
    assert len(person.wired().older) == 5
    person.wire()
    found = person.read()["hooks"]
    assert isinstance(found, dict) and set(found) == set(EVENTS)
    assert len(_commands(found)) == 4
    (guard,) = found["PreToolUse"]
    assert guard["matcher"] == MATCHERS["PreToolUse"]  # not the older one's
    assert person.wired().hooks == EVENTS and person.wired().older == ()


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_second_registration_in_a_project_goes(person: Person, name: str, is_known: bool) -> None:
    """Users' report 7: entry in user settings and again in project settings; install leaves one."""
    project = person.home / "repo"
    own = "/old/openmem-hook prompt --agent claude-code"
    file = person.write(
        project / ".claude" / name,
        {"hooks": {"UserPromptSubmit": [_group(own)], "Stop": [_group("team")]}, "model": "x"},
    )
    if is_known:
        person.write(person.state, {"projects": {str(project): {}}})
    plan = person.wire(projects=() if is_known else (str(project),))
    assert person.read(file) == {"hooks": {"Stop": [_group("team")]}, "model": "x"}
    assert any(str(name) in warning and "~/repo" in warning for warning in plan.warnings)
    assert person.plan(projects=(str(project),)).is_empty


def test_a_project_without_entries_of_ours_is_not_touched(person: Person) -> None:
    """Ours: a project's files belong to its people, and may be broken."""
    project = person.home / "repo"
    good = person.write(project / ".claude/settings.json", '{ "hooks": {"Stop": []} }')
    bad = person.write(project / ".claude/settings.local.json", "{ // openmem-hook\n}")
    person.write(person.state, {"projects": {str(project): {}, "relative": {}}})
    person.wire()
    assert good.read_text() == '{ "hooks": {"Stop": []} }'
    assert bad.read_text() == "{ // openmem-hook\n}"


def test_the_predecessors_server_goes_and_ours_takes_the_name(person: Person) -> None:
    """Issue 2 part 6: hooks, MCP entry, skill of OpenMem 0.8."""
    old = {"command": "npx", "args": ["-y", "@bcmyguest/openmem", "mcp"]}
    other = {"command": "uvx", "args": ["other"]}
    project = str(person.home / "repo")
    person.write(
        person.state,
        {
            "mcpServers": {"openmem": old, "openmem-memory": old, "other": other},
            "projects": {project: {"mcpServers": {"openmem": old, "own": other}, "x": 1}},
        },
    )
    before = person.tree()
    plan = person.wire()
    state = person.read(person.state)
    assert set(state["mcpServers"]) == {"openmem", "other"}  # type: ignore[call-overload]
    assert state["projects"] == {project: {"mcpServers": {"own": other}, "x": 1}}
    assert person.wired().mcp
    text = " ".join(plan.warnings)
    assert '"openmem-memory", of OpenMem 0.8' in text and "ours takes its place" in text
    assert person.plan().warnings == ()
    person.undo()
    assert person.tree() == before


def test_a_projects_mcp_file_loses_only_the_predecessor(person: Person) -> None:
    """Users' report 7: one owner across user and project scope."""
    other = {"command": "uvx", "args": ["other"]}
    file = person.write(
        person.home / "repo/.mcp.json",
        {"mcpServers": {"mem": {"command": "node", "args": ["/x/openmem-mcp.mjs"]}, "o": other}},
    )
    person.wire(projects=(str(person.home / "repo"),))
    assert person.read(file) == {"mcpServers": {"o": other}}


def test_another_programs_server_of_our_name_is_said(person: Person) -> None:
    """Ours: the name is part of the tools' names, so there is no other for ours."""
    person.write(person.state, {"mcpServers": {"openmem": {"command": "something-else"}}})
    before = person.tree()
    plan = person.wire()
    assert any("of another program" in warning for warning in plan.warnings)
    person.unwire()
    assert person.tree() == before


def test_the_predecessors_skill_goes_and_undo_brings_it_back(person: Person) -> None:
    """Issue 2 part 6: its skill tells the agent of tools that are not ours."""
    skill = person.write(
        person.home / ".claude/skills/openmem/SKILL.md", "Use memory_search of OpenMem."
    )
    person.wire(skill=None)
    assert not skill.exists()
    person.undo()
    assert skill.read_text() == "Use memory_search of OpenMem."


def test_our_skill_takes_the_predecessors_place_and_undo_brings_it_back(person: Person) -> None:
    """Issue 7 part 4: one skill of that name, and it is about tools that are there."""
    old = "Use memory_search of OpenMem."
    skill = person.write(person.home / ".claude/skills/openmem/SKILL.md", old)
    person.wire()
    assert person.wired().skill and "smart_compact_search" in skill.read_text()
    person.undo()
    assert skill.read_text() == old


@pytest.mark.parametrize("text", ["My own notes on openmem.", "memory_search of another"])
def test_a_skill_that_is_not_the_predecessors_stays(person: Person, text: str) -> None:
    """Design 4: other people's entries untouched."""
    skill = person.write(person.home / ".claude/skills/openmem/SKILL.md", text)
    person.wire()
    assert skill.read_text() == text


def test_a_linked_skill_is_a_step_by_hand(person: Person) -> None:
    """Ours: a link into somebody's folder is theirs to remove."""
    person.write(person.home / "agents/openmem/SKILL.md", "memory_search of OpenMem")
    link = person.home / ".claude/skills/openmem"
    link.parent.mkdir(parents=True)
    link.symlink_to(person.home / "agents/openmem")
    plan = person.wire()
    assert link.is_symlink() and (link / "SKILL.md").exists()
    assert any("Remove the link" in getattr(action, "text", "") for action in plan.actions)


def test_a_predecessors_proxy_may_be_the_upstream_and_is_said(person: Person) -> None:
    """Ours: two proxies in a row would trim twice."""
    person.write(
        person.settings,
        {
            "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:4000"},
            "hooks": {"Stop": [_group(PREDECESSOR[0])]},
        },
    )
    warnings = person.plan().warnings
    assert any("http://127.0.0.1:4000" in w and "--upstream" in w for w in warnings)


def test_unwiring_leaves_the_predecessor_alone(person: Person) -> None:
    """Ours: who removes us did not ask to remove others."""
    value = {"hooks": {"Stop": [_group(PREDECESSOR[0])]}}
    person.write(person.settings, value)
    assert person.unwire().is_empty
    assert json.loads(person.settings.read_text()) == value
