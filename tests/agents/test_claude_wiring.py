"""Wiring of Claude Code: what stands in its files afterwards, and what never changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.agents.base import AGENTS, Wanted
from openmem.agents.claude_code.places import PERMISSIONS
from openmem.agents.launchers import HOOK, MCP, launcher_path
from openmem.base.errors import Refused, Unparseable
from openmem.base.own_tools import ALLOWABLE, ASKING
from openmem.base.paths import Paths
from openmem.mcp.context_tools import context_tools
from openmem.mcp.memory_tools import memory_tools
from openmem.plan.action import WriteFile
from openmem.plan.apply import apply
from openmem.plan.system import RealSystem
from tests.agents.conftest import Person

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
OWN = {
    "permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(./.env)"]},
    "env": {"FOO": "bar", "SECRET_TOKEN": "s3cret"},
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./check"}]}],
    },
    "model": "opus",
}


def test_a_fresh_machine_gets_hooks_server_address_and_command(person: Person) -> None:
    """Issue 2 part 6: hooks, MCP with alwaysLoad, base URL in env; issue 4 part 6: the guard."""
    person.wire(port=9001)
    found = person.read()
    assert tuple(found["hooks"]) == EVENTS  # type: ignore[arg-type]
    (guard,) = found["hooks"]["PreToolUse"]  # type: ignore[index]
    assert guard["matcher"] == "Edit|MultiEdit|Write|NotebookEdit|TodoWrite"
    assert guard["hooks"][0]["command"].endswith("openmem-hook tool --agent claude-code")
    assert found["env"] == {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9001/a/claude-code",
        "ENABLE_TOOL_SEARCH": "true",
    }
    server = person.read(person.state)["mcpServers"]["openmem"]  # type: ignore[index]
    assert server == {
        "type": "stdio",
        "command": launcher_path(person.paths, MCP),
        "args": [],
        "env": {},
        "alwaysLoad": True,
    }
    assert (person.home / ".claude/commands/smart-compact.md").exists()
    assert "permissions" not in found


def test_every_hook_has_a_limit_in_whole_seconds(person: Person) -> None:
    """Users' report 16: milliseconds read as seconds; no limit means 600 s."""
    person.wire()
    for groups in person.read()["hooks"].values():  # type: ignore[attr-defined]
        for group in groups:
            for hook in group["hooks"]:
                assert type(hook["timeout"]) is int and 1 <= hook["timeout"] <= 30


def test_entries_of_others_stay_as_they_are(person: Person) -> None:
    """Design 4: other people's entries untouched; ours are appended."""
    text = json.dumps(OWN, indent=4)
    person.write(person.settings, text)
    person.wire(allow_tools=True)
    after = person.read()
    hooks = after["hooks"]
    assert isinstance(hooks, dict)
    assert hooks["Stop"][0] == OWN["hooks"]["Stop"][0] and len(hooks["Stop"]) == 2  # type: ignore[index]
    assert hooks["PreToolUse"][:-1] == OWN["hooks"]["PreToolUse"]  # type: ignore[index]
    assert after["permissions"] == {
        "allow": ["Bash(ls:*)", *PERMISSIONS],
        "deny": ["Read(./.env)"],
    }
    assert after["env"]["FOO"] == "bar" and after["model"] == "opus"  # type: ignore[index]
    lines = set(person.settings.read_text().splitlines())
    assert [
        x for x in text.splitlines() if x.rstrip(",") not in {y.rstrip(",") for y in lines}
    ] == []


def test_wiring_twice_is_wiring_once(person: Person) -> None:
    """Design 4: wire twice = once; plan(apply(plan)) is empty."""
    person.write(person.settings, OWN)
    person.wire(allow_tools=True)
    before = person.tree()
    again = person.plan(allow_tools=True)
    assert again.is_empty and again.warnings == ()
    assert person.tree() == before


def test_planning_writes_nothing(person: Person) -> None:
    """Design 5: a dry run changes no file."""
    before = person.tree()
    assert not person.plan().is_empty
    assert person.tree() == before
    assert not Path(person.paths.state_dir).exists()


@pytest.mark.parametrize("how", ["undo", "uninstall", "unwire"])
@pytest.mark.parametrize(
    "text",
    [
        None,
        "{}",
        '{"env":{"ANTHROPIC_BASE_URL":"https://gate.example/v1"},"hooks":{}}',
        json.dumps(OWN, indent="\t").replace("\n", "\r\n"),
        "\ufeff" + json.dumps(OWN, indent=2) + "\n\n",
    ],
)
def test_the_way_back_gives_the_bytes_of_before(person: Person, text: str | None, how: str) -> None:
    """Issue 2 part 2: undo and uninstall give back the bytes of before."""
    if text is not None:
        person.write(person.settings, text)
    before = person.tree()
    person.wire(allow_tools=True)
    assert person.tree() != before
    getattr(person, how)()
    assert person.tree() == before


def test_after_unwiring_uninstall_has_nothing_left_to_do(person: Person) -> None:
    """Ours: taking out one agent must not leave receipts that would restore it."""
    person.write(person.settings, OWN)
    before = person.tree()
    person.wire()
    person.unwire()
    assert person.unwire().is_empty
    person.uninstall()
    assert person.tree() == before


def test_unwiring_leaves_what_came_after(person: Person) -> None:
    """Users' report 8; facts 1: Claude Code and the person write these files too."""
    person.write(person.settings, OWN)
    person.wire(allow_tools=True)
    settings, state = person.read(), person.read(person.state)
    settings["theme"] = "dark"
    state["numStartups"] = 4
    person.write(person.settings, settings)
    person.write(person.state, state)
    person.unwire()
    assert person.read() == {**OWN, "theme": "dark"}
    assert person.read(person.state) == {"numStartups": 4, "projects": {}}
    assert person.wired().is_empty


def test_unwiring_without_receipts_takes_out_what_carries_our_mark(person: Person) -> None:
    """Ours: the state folder was lost; the settings still name us."""
    person.write(person.settings, OWN)
    person.wire(allow_tools=True, port=9002)
    for folder in (person.paths.receipts_dir, person.paths.backups_dir):
        for path in sorted(Path(folder).rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    person.unwire("https://gate.example")
    assert person.wired().is_empty
    after = person.read()
    assert after["hooks"] == OWN["hooks"]
    assert after["env"]["ANTHROPIC_BASE_URL"] == "https://gate.example"  # type: ignore[index]
    assert after["permissions"] == OWN["permissions"]
    assert not (person.home / ".claude/commands/smart-compact.md").exists()


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n  // mine\n  "model": "opus"\n}', 2, 3),
        ('{\n  "model": "opus",\n}', 2, 18),
        ('{\n  "model":\n}', 3, 1),
        ("[]", 1, 1),
        ("\xff\xfe".encode("latin-1"), 1, 1),
    ],
)
def test_a_settings_file_that_claude_code_would_drop_is_refused(
    person: Person, text: str | bytes, line: int, column: int
) -> None:
    """Issue 2 part 6: a comment or trailing comma is refused with its place, bytes unchanged."""
    person.write(person.settings, text)
    before = person.tree()
    with pytest.raises(Unparseable) as caught:
        person.plan()
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(person.settings) in caught.value.message
    (problem,) = person.detect().problems
    assert problem == caught.value.message
    assert person.tree() == before
    assert person.wired().problem == caught.value.message


def test_a_dangling_link_is_refused(person: Person) -> None:
    """Issue 2, bad input: exit 4, nothing written."""
    person.settings.parent.mkdir()
    person.settings.symlink_to("../dotfiles/settings.json")
    with pytest.raises(Refused):
        person.plan()
    assert person.detect().problems


def test_a_linked_settings_file_stays_a_link(person: Person) -> None:
    """Users' report 5: the target is edited, link and mode are kept."""
    target = person.write(person.home / "dotfiles/settings.json", OWN)
    target.chmod(0o600)
    person.settings.parent.mkdir()
    person.settings.symlink_to("../dotfiles/settings.json")
    person.wire()
    assert person.settings.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert person.wired().hooks == EVENTS


def test_a_moved_configuration_is_the_one_that_is_wired(person: Person) -> None:
    """Facts 1.1: CLAUDE_CONFIG_DIR moves the tree and .claude.json into it."""
    moved = person.home / "elsewhere"
    person.environ["CLAUDE_CONFIG_DIR"] = str(moved)
    person.write(moved / ".claude.json", {"numStartups": 1})
    before = person.state.read_bytes()
    person.wire()
    assert "openmem" in person.read(moved / ".claude.json")["mcpServers"]  # type: ignore[operator]
    assert (moved / "settings.json").exists() and (moved / "commands/smart-compact.md").exists()
    assert person.state.read_bytes() == before and not person.settings.exists()


def test_an_address_that_moved_is_replaced(person: Person) -> None:
    """Ours: the port was taken, setup chose another."""
    person.wire(port=9001)
    person.wire(port=9002)
    assert person.wired().port == 9002
    person.uninstall()
    assert not person.settings.exists()


@pytest.mark.parametrize("value", ["false", "auto:5", "force"])
def test_a_persons_own_choice_of_tool_loading_stays(person: Person, value: str) -> None:
    """Users' report 45: set what can be set back, over nobody's own choice."""
    person.write(person.settings, {"env": {"ENABLE_TOOL_SEARCH": value}})
    person.wire()
    assert person.read()["env"]["ENABLE_TOOL_SEARCH"] == value  # type: ignore[index]
    person.unwire()
    assert person.read() == {"env": {"ENABLE_TOOL_SEARCH": value}}


@pytest.mark.parametrize("before", [None, "https://gate.example/v1"])
def test_the_address_alone_can_be_taken_out_and_put_back(
    person: Person, before: str | None
) -> None:
    """Design 7: `proxy stop` takes the base URL out of the agents' settings."""
    if before:
        person.write(person.settings, {"env": {"ANTHROPIC_BASE_URL": before}})
    person.wire(port=9001)
    wired = person.settings.read_bytes()
    only = {"hooks": None, "mcp": None}
    person.wire(**only, proxy=False)
    found = person.wired()
    assert (found.port, found.base_url, found.hooks, found.mcp) == (0, before or "", EVENTS, True)
    person.wire(**only, proxy=True, port=9001)
    assert json.loads(person.settings.read_bytes()) == json.loads(wired)


def test_an_address_of_somebody_else_is_not_taken_out(person: Person) -> None:
    """Users' report 9: the person changed it by hand; that is final."""
    person.wire()
    settings = person.read()
    settings["env"] = {"ANTHROPIC_BASE_URL": "https://mine.example"}
    person.write(person.settings, settings)
    assert person.plan(hooks=None, mcp=None, proxy=False).is_empty
    person.unwire()
    assert person.read()["env"] == {"ANTHROPIC_BASE_URL": "https://mine.example"}


def test_a_project_with_an_address_of_its_own_is_said(person: Person) -> None:
    """Trial: a project's own settings win over the person's, so its sessions pass us by."""
    project = person.home / "repo"
    file = person.write(
        project / ".claude/settings.local.json", {"env": {"ANTHROPIC_BASE_URL": "https://corp"}}
    )
    before = file.read_bytes()
    (warning,) = person.plan(projects=(str(project),)).warnings
    assert str(file) in warning and "do not go through the proxy" in warning
    assert person.plan(projects=(str(project),), proxy=None).warnings == ()
    assert file.read_bytes() == before


def test_only_the_server_is_wired_when_only_it_is_wanted(person: Person) -> None:
    """Design 5: `install-mcp` is only the MCP entry."""
    plan = person.wire(hooks=None, proxy=None, skill=None)
    assert {a.path for a in plan.actions if isinstance(a, WriteFile)} == {
        str(person.state),
        launcher_path(person.paths, MCP),
    }
    assert not person.settings.exists()


def test_what_a_person_added_to_our_server_is_kept(person: Person) -> None:
    """Ours: a second setup is not the place to lose a person's own setting."""
    person.wire()
    state = person.read(person.state)
    entry = state["mcpServers"]["openmem"]  # type: ignore[index]
    entry["alwaysLoad"] = False
    entry["env"] = {"OPENMEM_STATE_DIR": "/x"}
    person.write(person.state, state)
    assert person.plan().is_empty


def test_the_wide_permission_of_before_makes_way_for_one_a_tool(person: Person) -> None:
    """Issue 5, part 4: an entry for the whole server also allows what erases."""
    person.write(person.settings, {"permissions": {"allow": ["mcp__openmem", "Bash(ls:*)"]}})
    person.wire(allow_tools=None)
    assert person.read()["permissions"] == {"allow": ["mcp__openmem", "Bash(ls:*)"]}
    before = person.settings.read_bytes()
    person.wire(allow_tools=True)
    assert person.read()["permissions"] == {"allow": ["Bash(ls:*)", *PERMISSIONS]}
    assert person.plan(allow_tools=True).is_empty
    person.undo()
    assert person.settings.read_bytes() == before


def test_no_permission_is_given_for_what_erases_and_every_tool_has_its_place() -> None:
    """Issue 5, part 4; ours: a new tool must be put on one of the two lists."""
    tools = [*context_tools({}), *memory_tools({}, "full")]
    erasing = [tool.name for tool in tools if tool.annotations.get("destructiveHint")]
    assert list(ASKING) == erasing
    assert set(ALLOWABLE) == {tool.name for tool in tools} - set(erasing)


def test_a_permission_that_was_given_is_not_taken_by_the_next_setup(person: Person) -> None:
    """Facts 2: permission entries are a user's own decision; so is keeping them."""
    person.wire(allow_tools=True)
    assert person.plan().is_empty
    person.wire(allow_tools=False)
    assert not person.wired().allow_tools


def test_somebody_elses_command_of_that_name_stays(person: Person) -> None:
    """Design 4: other people's entries untouched."""
    own = person.write(person.home / ".claude/commands/smart-compact.md", "my own words")
    plan = person.wire()
    assert own.read_text() == "my own words"
    assert any("smart-compact" in warning for warning in plan.warnings)
    person.unwire()
    assert own.read_text() == "my own words"


def test_the_summary_is_what_a_parser_finds(person: Person) -> None:
    """Users' report 10: a summary claimed three hooks where the file had lost two."""
    person.wire()
    settings = person.read()
    hooks = settings["hooks"]
    assert isinstance(hooks, dict)
    del hooks["Stop"]
    hooks["SessionStart"][0]["hooks"][0]["command"] += " --changed"
    person.write(person.settings, settings)
    found = person.wired()
    assert found.hooks == ("UserPromptSubmit", "PreToolUse")
    assert found.older == ("an older hook of ours on SessionStart",)
    person.wire()
    assert person.wired().hooks == EVENTS and person.wired().older == ()


def test_the_address_is_written_last(person: Person) -> None:
    """Ours: from that write on requests come to us, so all else must stand by then."""
    plan = person.plan()
    paths = [action.path for action in plan.actions if isinstance(action, WriteFile)]
    assert paths[-1] == str(person.settings)


def test_the_command_names_the_hooks_launcher(person: Person) -> None:
    """Issue 2 part 6: recognisable id; docs/reference/hooks.md."""
    person.wire()
    for groups in person.read()["hooks"].values():  # type: ignore[attr-defined]
        assert launcher_path(person.paths, HOOK) in groups[0]["hooks"][0]["command"]


_KEYS = st.sampled_from(
    ["env", "hooks", "permissions", "model", "Stop", "SessionStart", "allow", "hooks", "ä", ""]
)
_LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)


def _settings() -> st.SearchStrategy[dict[str, object]]:
    hook = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=9)})
    group = st.fixed_dictionaries(
        {"hooks": st.lists(hook, max_size=3)}, optional={"matcher": st.text(max_size=4)}
    )
    events = st.dictionaries(
        st.sampled_from([*EVENTS, "PostToolUse"]), st.lists(group, max_size=3), max_size=4
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "hooks": events,
            "env": st.dictionaries(
                st.sampled_from(["ANTHROPIC_BASE_URL", "ENABLE_TOOL_SEARCH", "X"]),
                st.text(max_size=20),
                max_size=3,
            ),
            "permissions": st.fixed_dictionaries(
                {}, optional={"allow": st.lists(st.text(max_size=8), max_size=3)}
            ),
            "other": st.recursive(
                _LEAVES, lambda x: st.lists(x, max_size=3) | st.dictionaries(_KEYS, x, max_size=3)
            ),
        },
    )


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    value=_settings(),
    style=st.sampled_from([None, 2, 4, "\t"]),
    eol=st.sampled_from(["\n", "\r\n"]),
    allow=st.booleans(),
)
def test_install_and_uninstall_is_nothing_for_any_file(
    tmp_path_factory: pytest.TempPathFactory,
    value: dict[str, object],
    style: int | str | None,
    eol: str,
    allow: bool,
) -> None:
    """Issue 2 part 2: hypothesis holds install → uninstall = identity over generated files."""
    home = tmp_path_factory.mktemp("h")
    person = Person(home=home, environ={"HOME": str(home), "PATH": "/nowhere"})
    text = json.dumps(value, indent=style).replace("\n", eol)
    person.write(person.settings, text)
    before = person.tree()
    person.wire(allow_tools=allow)
    assert person.wired().hooks == EVENTS
    assert person.plan(allow_tools=allow).is_empty
    person.unwire()
    assert person.tree() == before


def test_a_dictionary_machine_and_the_real_one_plan_alike(person: Person) -> None:
    """Design 4: all forms of System pass one contract."""
    from openmem.plan.system import MemorySystem

    person.write(person.settings, OWN)
    files = {str(p): p.read_bytes() for p in (person.settings, person.state)}
    memory = MemorySystem(files, environ=person.environ)
    agent = AGENTS["claude-code"]
    found = agent.detect(memory, person.environ)
    assert found is not None
    paths = Paths(person.environ)
    in_memory = agent.wiring(memory, paths, found, Wanted())
    assert in_memory == person.plan()
    apply(in_memory, memory, paths, label="memory")
    assert agent.wiring(memory, paths, found, Wanted()).is_empty
    assert isinstance(person.system, RealSystem)
