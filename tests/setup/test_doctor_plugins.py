"""The doctor on whose hooks and tools an agent has; upstream plug-ins are told by their marks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from openmem.agents.base import AGENTS
from openmem.agents.upstream import found_upstream
from openmem.base.paths import Paths
from openmem.plan.system import RealSystem
from openmem.setup.doctor.finding import Finding
from openmem.setup.doctor.plugins import check_plugins
from openmem.setup.facts import Facts
from openmem.setup.look import look_at_agents
from openmem.setup.plugin import twice

OURS = "/x/openmem-hook session-start --agent claude-code"


def hook(command: str) -> dict[str, object]:
    return {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": command}]}]}}


def claude(home: Path, settings: object, state: object = None) -> None:
    (home / ".claude").mkdir(exist_ok=True)
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    (home / ".claude.json").write_text(json.dumps(state or {}))


def upstream(agent: str) -> list[tuple[str, str]]:
    system = RealSystem(os.environ)
    detected = AGENTS[agent].detect(system, os.environ)
    assert detected is not None
    return [(one.provider, one.kind) for one in found_upstream(system, detected)]


def looked(home: Path, config: str) -> list[Finding]:
    paths = Paths(os.environ)
    os.makedirs(paths.config_dir, exist_ok=True)
    Path(paths.config_file).write_text(config)
    return check_plugins(RealSystem(os.environ), paths)


@pytest.mark.parametrize(
    ("settings", "state", "found"),
    [
        ({}, {}, []),
        (hook("node ~/.hindsight/coding-agents/hooks/recall.mjs"), {}, [("hindsight", "hooks")]),
        ({"enabledPlugins": {"hindsight-memory@hindsight": True}}, {}, [("hindsight", "hooks")]),
        ({"enabledPlugins": {"hindsight-memory@hindsight": False}}, {}, []),
        ({"enabledPlugins": {"mem0@mem0-plugins": True}}, {}, [("mem0", "hooks")]),
        ({"enabledPlugins": {"cognee-memory@cognee": True}}, {}, [("cognee", "hooks")]),
        ({}, {"mcpServers": {"hindsight": {"url": "http://x/mcp/"}}}, [("hindsight", "mcp")]),
        (hook("echo hindsight is 20/20"), {}, []),
        (hook(OURS), {"mcpServers": {"openmem": {"command": "/x/openmem-mcp"}}}, []),
    ],
)
def test_claude_code_tells_of_plugins_by_their_marks(
    home: Path, settings: object, state: object, found: list[tuple[str, str]]
) -> None:
    """Facts on upstream integrations, section 5; a word alone is no mark."""
    claude(home, settings, state)
    assert upstream("claude-code") == found


@pytest.mark.parametrize(
    ("config", "hooks", "found"),
    [
        ("", hook("python ~/.hindsight/codex/hook.py"), [("hindsight", "hooks")]),
        ('[plugins."cognee@cognee"]\nenabled = true\n', {}, [("cognee", "hooks")]),
        ('[plugins."cognee@cognee"]\nenabled = false\n', {}, []),
        ('[mcp_servers.hindsight]\nurl = "http://x/mcp/"\n', {}, [("hindsight", "mcp")]),
        ("not toml [", {}, []),
    ],
)
def test_codex_tells_of_plugins_by_their_marks(
    home: Path, config: str, hooks: object, found: list[tuple[str, str]]
) -> None:
    """Facts on upstream integrations, section 5."""
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(config)
    (home / ".codex/hooks.json").write_text(json.dumps(hooks))
    assert upstream("codex") == found


def test_opencode_and_cursor_tell_of_plugins_by_their_marks(home: Path) -> None:
    """Facts on upstream integrations, section 5; OpenCode's file takes comments."""
    (home / ".config/opencode").mkdir(parents=True)
    file = home / ".config/opencode/opencode.json"
    file.write_text('{ // mine\n "plugin": ["@vectorize-io/opencode-hindsight@1.0.0", "x"]}')
    assert upstream("opencode") == [("hindsight", "hooks")]
    file.write_text('{"plugin": ["opencode-hindsight-theme"]}')
    assert upstream("opencode") == []
    (home / ".cursor").mkdir()
    entry = {"command": "node ~/.hindsight/coding-agents/hooks/recall.mjs"}
    hooks = {"version": 1, "hooks": {"beforeSubmitPrompt": [entry, {"command": "mine"}]}}
    (home / ".cursor/hooks.json").write_text(json.dumps(hooks))
    assert upstream("cursor") == [("hindsight", "hooks")]


def test_two_that_recall_are_a_warning_with_both_ways_out(home: Path) -> None:
    """Issue 6, part 5: upstream plug-ins that would inject twice."""
    system, paths = RealSystem(os.environ), Paths(os.environ)
    claude(home, {})
    detected = AGENTS["claude-code"].detect(system, os.environ)
    assert detected is not None
    from openmem.agents.base import Wanted
    from openmem.plan.apply import apply

    plan = AGENTS["claude-code"].wiring(system, paths, detected, Wanted(mcp=False, proxy=False))
    apply(plan, system, paths, label="test")
    assert looked(home, "") == []
    settings = json.loads((home / ".claude/settings.json").read_text())
    settings["enabledPlugins"] = {"hindsight-memory@hindsight": True}
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    (found,) = looked(home, "")
    assert found.outcome == "warning" and "twice" in found.detail and found.fix is None
    assert "uninstall claude-code" in found.advice and "--provider-plugin" in found.advice
    facts = Facts(agents=look_at_agents(system, paths))
    assert len(twice(system, facts, "claude-code")) == 1


def test_a_plugin_that_was_chosen_and_is_not_there(home: Path) -> None:
    """Issue 6, part 6: the choice is saved, so it can be checked."""
    claude(home, {}, {"mcpServers": {"x": {"url": "y"}}})
    config = 'provider = "hindsight"\n[agents]\nintegration = "provider"\n'
    (found,) = looked(home, config)
    assert found.outcome == "warning" and "npx @vectorize-io" in found.advice
    claude(home, {"enabledPlugins": {"hindsight-memory@hindsight": True}})
    (found,) = looked(home, config)
    assert found.outcome == "ok"
