"""The doctor on permissions that let what erases run without being asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.base import AGENTS, Wanted
from openmem.base.paths import Paths
from openmem.plan.apply import apply
from openmem.plan.system import RealSystem
from openmem.setup.doctor.finding import Finding
from openmem.setup.doctor.wiring import check_agents
from tests.setup.conftest import Machine


class Wired:
    """One agent, wired on this HOME; its files can be written over."""

    def __init__(self, home: Path, name: str, **wanted: Any) -> None:
        self.home, self.name = home, name
        self.system = RealSystem({**os.environ, "PATH": "/usr/bin:/bin"})
        self.paths = Paths(os.environ)
        self.wire(proxy=False, skill=False, **wanted)

    def wire(self, **wanted: Any) -> None:
        agent = AGENTS[self.name]
        detected = agent.detect(self.system, self.system.environ)
        assert detected is not None
        plan = agent.wiring(self.system, self.paths, detected, Wanted(**wanted))
        apply(plan, self.system, self.paths, label="setup")

    def told(self) -> list[Finding]:
        found = check_agents(self.system, self.paths)
        return [one for one in found if one.name == "permission" and one.subject == self.name]


def put(path: Path, keys: tuple[str, ...], value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(path.read_text()) if path.exists() else {}
    table = document
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    table[keys[-1]] = value
    path.write_text(json.dumps(document, indent=2))


@pytest.fixture
def claude(home: Path) -> Wired:
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{}")
    return Wired(home, "claude-code")


@pytest.mark.parametrize(
    ("permissions", "entries"),
    [
        ({"allow": ["Bash(ls:*)", "mcp__openmem"]}, ["mcp__openmem"]),
        ({"allow": ["mcp__openmem__*"]}, ["mcp__openmem__*"]),
        ({"allow": ["mcp__openmem", "mcp__openmem__*forget"]}, ["mcp__openmem"] * 2),
        ({"allow": ["mcp__openmem"], "ask": ["mcp__openmem__memory_search"]}, ["mcp__openmem"]),
        ({"allow": ["mcp__openmem__memory_search", "mcp__openmem__memory_a*"]}, []),
        ({"allow": ["mcp__openmem__memory_forget"]}, []),
        ({"allow": ["mcp__*", "*", "mcp__openmem(*)", "mcp__openmem__", 7, None]}, []),
        ({"allow": ["mcp__openmemory", "mcp__openmem2__*"]}, []),
        ({"allow": ["mcp__openmem"], "ask": ["mcp__openmem__memory_forget"]}, []),
        ({"allow": ["mcp__openmem"], "ask": ["mcp__*"]}, []),
        ({"allow": ["mcp__openmem"], "deny": ["mcp__openmem"]}, []),
        ("mine", []),
    ],
    ids=str,
)
def test_claude_codes_entries_are_told_where_they_let_it_run(
    claude: Wired, permissions: object, entries: list[str]
) -> None:
    """Trial: the real 2.1.332 ran, asked for or refused `memory_forget` with each of these."""
    assert claude.told() == []
    put(claude.home / ".claude/settings.json", ("permissions",), permissions)
    found = claude.told()
    assert len(found) == len(entries)
    for finding, entry in zip(found, entries, strict=True):
        assert finding.outcome == "warning" and f'"{entry}' in finding.detail
        assert str(claude.home / ".claude/settings.json") in finding.detail
        assert "memory_forget without asking" in finding.detail
        assert finding.advice.startswith("openmem install-mcp --agent claude-code --allow-tools")
        assert finding.fix is None  # a permission is the person's own: nothing is changed here


def test_the_command_that_is_told_narrows_it(claude: Wired) -> None:
    """The advice must be true: nothing is told afterwards, and the rest stays."""
    settings = claude.home / ".claude/settings.json"
    put(settings, ("permissions", "allow"), ["mcp__openmem__*", "Bash(ls:*)", "mcp__openmem"])
    assert len(claude.told()) == 2
    claude.wire(hooks=None, mcp=True, proxy=None, skill=None, allow_tools=True)
    assert claude.told() == []
    allowed = json.loads(settings.read_text())["permissions"]["allow"]
    assert allowed[0] == "Bash(ls:*)" and "mcp__openmem__memory_search" in allowed


def test_a_projects_entry_is_told_unless_the_person_or_the_project_asks(
    claude: Wired, tmp_path: Path
) -> None:
    """Ours: "yes, and don't ask again" puts the entry into the project's own file."""
    folder = tmp_path / "work"
    local = folder / ".claude/settings.local.json"
    put(claude.home / ".claude.json", ("projects", str(folder)), {})
    put(claude.home / ".claude.json", ("projects", "not a path"), {})
    put(local, ("permissions", "allow"), ["mcp__openmem"])
    (found,) = claude.told()
    assert str(local) in found.detail and found.advice.startswith("take it out of that file")
    put(folder / ".claude/settings.json", ("permissions", "ask"), ["mcp__openmem__memory_*"])
    assert claude.told() == []
    (folder / ".claude/settings.json").write_text("{ not json")
    assert len(claude.told()) == 1
    put(claude.home / ".claude/settings.json", ("permissions", "deny"), ["mcp__openmem"])
    assert claude.told() == []


def test_nothing_is_told_where_our_server_is_not(claude: Wired) -> None:
    """Ours: without the server the entry allows nothing."""
    put(claude.home / ".claude/settings.json", ("permissions", "allow"), ["mcp__openmem"])
    claude.wire(hooks=None, mcp=False, proxy=None, skill=None)
    put(claude.home / ".claude/settings.json", ("permissions", "allow"), ["mcp__openmem"])
    assert claude.told() == []


TOOLS = "[mcp_servers.openmem.tools.memory_forget]\n"


@pytest.mark.parametrize(
    ("lines", "is_told"),
    [
        ('default_tools_approval_mode = "approve"\n', True),
        (f'default_tools_approval_mode = "approve"\n{TOOLS}approval_mode = "prompt"\n', False),
        (f'default_tools_approval_mode = "approve"\n{TOOLS}approval_mode = "approve"\n', False),
        (f'default_tools_approval_mode = "approve"\n{TOOLS}note = 1\n', True),
        ('default_tools_approval_mode = "approve"\ndisabled_tools = ["memory_forget"]\n', False),
        ('default_tools_approval_mode = "approve"\nenabled_tools = ["memory_search"]\n', False),
        ('default_tools_approval_mode = "prompt"\n', False),
        ("", False),
    ],
)
def test_codexs_mode_for_all_tools_is_told_where_the_tool_has_none(
    home: Path, lines: str, is_told: bool
) -> None:
    """Facts 2: `default_tools_approval_mode`; the real 0.171.0 keeps to a tool's own mode."""
    config = home / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text("")
    codex = Wired(home, "codex", hooks=False)
    assert codex.told() == []
    config.write_text(config.read_text().rstrip("\n") + "\n" + lines)
    found = codex.told()
    assert bool(found) == is_told
    for finding in found:
        assert str(config) in finding.detail and "default_tools_approval_mode" in finding.detail
        assert finding.advice.startswith("openmem install-mcp --agent codex --allow-tools")
    codex.wire(hooks=None, proxy=None, skill=None, allow_tools=True)
    assert codex.told() == []


def test_codexs_project_file_counts_over_the_persons(home: Path, tmp_path: Path) -> None:
    """Codex's configuration reference: a trusted project's file lies over the person's."""
    config, folder = home / ".codex/config.toml", tmp_path / "work"
    config.parent.mkdir()
    config.write_text(f'[projects."{folder}"]\ntrust_level = "trusted"\n')
    codex = Wired(home, "codex", hooks=False)
    own = folder / ".codex/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[mcp_servers.openmem]\ndefault_tools_approval_mode = "approve"\n')
    (found,) = codex.told()
    assert str(own) in found.detail and found.advice.startswith("take it out of that file")
    codex.wire(hooks=None, proxy=None, skill=None, allow_tools=True)
    assert codex.told() == []  # the person's word on the one tool holds in the project too


FORGET = "openmem_memory_forget"


@pytest.mark.parametrize(
    ("permission", "entry"),
    [
        (None, f"permission has no entry for {FORGET}"),
        ("allow", 'permission "allow"'),
        ({"*": "allow"}, 'permission "*"'),
        ({"*": {"*": "allow"}}, 'permission "*"'),
        ({"openmem_*": "allow"}, 'permission "openmem_*"'),
        ({FORGET: "ask", "*": "allow"}, 'permission "*"'),
        ({"openmem*": "ask", "*": "allow"}, 'permission "*"'),
        ({FORGET: "ask", "openmem_memory_*": "allow"}, 'permission "openmem_memory_*"'),
        ({FORGET: "ask"}, ""),
        ({"*": "allow", FORGET: "ask"}, ""),
        ({"openmem_memory_forge?": "deny"}, ""),
        ({FORGET: {"*": "ask", "a": "allow"}}, ""),
        ({FORGET: "allow"}, ""),
        ({FORGET: {"*": "allow"}}, ""),
        ("ask", ""),
        ({FORGET: "ask", "bash": "allow", "openmem_memory_search": "allow"}, ""),
    ],
    ids=str,
)
def test_opencodes_last_word_is_told_where_it_lets_it_run(
    home: Path, permission: object, entry: str
) -> None:
    """Trial: the real 1.18.33 ran or refused `memory_forget` with these; the last match counts."""
    file = home / ".config/opencode/opencode.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    opencode = Wired(home, "opencode")
    assert opencode.told() == []
    document = json.loads(file.read_text())
    del document["permission"]
    if permission is not None:
        document["permission"] = permission
    file.write_text(json.dumps(document))
    found = opencode.told()
    assert [finding.detail.split(" in /")[0] for finding in found] == ([entry] if entry else [])
    for finding in found:
        assert str(file) in finding.detail and finding.advice
    if permission is None:
        opencode.wire(hooks=None, proxy=None, skill=None)
        assert opencode.told() == []


def test_opencodes_files_count_as_one_and_an_agent_has_the_last_word(home: Path) -> None:
    """OpenCode's documentation: an agent's own permissions count over everybody's."""
    folder = home / ".config/opencode"
    folder.mkdir(parents=True)
    upper, lower = folder / "opencode.jsonc", folder / "opencode.json"
    upper.write_text("{}")
    lower.write_text('{"permission": {"*": "allow"}}')
    opencode = Wired(home, "opencode")
    assert opencode.told() == []  # ours stands above, behind the lower file's
    put(upper, ("agent", "build", "permission"), "allow")
    put(upper, ("agent", "plan", "permission"), {"bash": "allow"})
    (found,) = opencode.told()
    assert 'agent.build.permission "allow"' in found.detail and str(upper) in found.detail
    document = json.loads(upper.read_text())
    upper.write_text(json.dumps({"mcp": document["mcp"]}))
    (found,) = opencode.told()
    assert 'permission "*"' in found.detail and str(lower) in found.detail


def test_doctor_says_it_and_writes_nothing(machine: Machine) -> None:
    """Brief: doctor names file, entry and command, and changes nothing by itself."""
    assert machine.setup("--no-allow-tools").status == 0
    put(machine.settings, ("permissions", "allow"), ["Bash(ls:*)", "mcp__openmem"])
    before = machine.settings.read_bytes()
    done = machine("doctor", "--no-network", COLUMNS="200")
    assert 'permissions.allow "mcp__openmem" in ~/.claude/settings.json' in done.out
    assert "→ openmem install-mcp --agent claude-code --allow-tools" in done.out
    fixed = machine("doctor", "--no-network", "--fix", "--yes")
    assert fixed.status in (0, 1) and machine.settings.read_bytes() == before
    assert machine("install-mcp", "--agent", "claude-code", "--allow-tools", "--yes").status == 0
    assert 'mcp__openmem" in' not in machine("doctor", "--no-network", COLUMNS="200").out
