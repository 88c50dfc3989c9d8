"""The provider's own plug-in and MCP server in the place of ours, as a person types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from openmem.agents.base import AGENTS
from tests.setup.conftest import USER_SETTINGS, Done, Machine

ALL = len(AGENTS["claude-code"].events)
INSTALL = ("install-coding-agent", "--agent", "claude-code", "--no-proxy", "--yes")
KEY = 'server-key-0123456789"x'


def at_server(machine: Machine, provider: str = "hindsight") -> None:
    """Settings of a server elsewhere; nothing listens there."""
    key = machine.home / "server.key"
    key.write_text(KEY + "\n")
    for name, value in (
        ("provider", provider),
        ("server.url", "http://127.0.0.1:9"),
        ("server.key_file", str(key)),
    ):
        assert machine("config", "set", name, value).status == 0


def hooks_of_ours(machine: Machine) -> int:
    return machine.settings.read_text().count("openmem-hook")


def state(machine: Machine) -> dict[str, object]:
    path = machine.home / ".claude.json"
    value = json.loads(path.read_text()) if path.exists() else {}
    assert isinstance(value, dict)
    return value.get("mcpServers", {})


def setting(machine: Machine, name: str) -> str:
    return machine("config", "get", name).out.strip().rpartition(" ")[2]


def manual(done: Done) -> list[str]:
    return [a["text"] for a in done.data["actions"] if a["kind"] == "manual"]


def test_our_hooks_go_mcp_stays_and_the_choice_is_kept(machine: Machine) -> None:
    """Issue 6, part 6: hook sets exclude each other, the MCP server stays, the choice is saved."""
    at_server(machine)
    assert machine(*INSTALL).status == 0 and hooks_of_ours(machine) == ALL
    done = machine(*INSTALL, "--provider-plugin", "--json")
    assert done.status == 0, done.err
    assert hooks_of_ours(machine) == 0 and "openmem" in state(machine)
    assert json.loads(machine.settings.read_text())["hooks"] == json.loads(USER_SETTINGS)["hooks"]
    (step,) = manual(done)
    assert "npx @vectorize-io/hindsight-coding-agents install claude-code" in step
    assert "http://127.0.0.1:9" in step and "server.key" in step and KEY not in done.out
    assert setting(machine, "agents.integration") == "provider"
    # Saved: neither command brings ours back by itself, and there is nothing left to do.
    for words in (INSTALL, ("setup", "--yes", "--no-proxy", "--no-smoke-test", "--store-git")):
        again = machine(*words, "--json")
        assert again.status in (0, 1), again.err  # nothing listens there, which setup says
        assert hooks_of_ours(machine) == 0 and manual(again) == []
    back = machine(*INSTALL, "--no-provider-plugin")
    assert back.status == 0 and hooks_of_ours(machine) == ALL
    assert setting(machine, "agents.integration") == "openmem"


def test_both_at_once_is_refused(machine: Machine) -> None:
    """Issue 6, part 6."""
    at_server(machine)
    before = machine.snapshot()
    for words in (INSTALL, ("setup", "--yes")):
        done = machine(*words, "--hooks", "--provider-plugin")
        assert done.status == 2 and "exclude each other" in " ".join(done.err.split())
    assert machine.snapshot() == before


@pytest.mark.parametrize(("provider", "said"), [("local", "inside openmem"), ("mem0", "platform")])
def test_a_provider_without_a_plugin_says_why(machine: Machine, provider: str, said: str) -> None:
    """Part 6; upstream: mem0's plug-in is for its hosted platform only."""
    at_server(machine, provider)
    before = machine.snapshot()
    done = machine(*INSTALL, "--provider-plugin")
    assert done.status == 1 and said in " ".join(done.err.split())
    assert machine.snapshot() == before


def test_another_provider_takes_our_hooks_back(machine: Machine) -> None:
    """Ours: a plug-in was chosen for the provider that it belongs to."""
    at_server(machine)
    machine(*INSTALL, "--provider-plugin")
    words = ("setup", "--provider", "local", "--no-proxy", "--no-smoke-test", "--yes")
    done = machine(*words)
    assert done.status == 0, done.err
    assert hooks_of_ours(machine) == ALL and setting(machine, "agents.integration") == "openmem"


def test_the_providers_own_mcp_server_stands_in_the_place_of_ours(machine: Machine) -> None:
    """Issue 6, part 6: `install-mcp --provider-only`. No key in Claude Code's file."""
    bare = machine.snapshot()
    at_server(machine)
    assert machine("install-mcp", "--agent", "claude-code", "--yes").status == 0
    dry = machine("install-mcp", "--agent", "claude-code", "--provider-only", "--dry-run", "--json")
    assert dry.status == 0 and set(state(machine)) == {"openmem"}
    done = machine("install-mcp", "--agent", "claude-code", "--provider-only", "--yes")
    assert done.status == 0, done.err
    entry = state(machine)["hindsight"]
    assert isinstance(entry, dict) and set(state(machine)) == {"hindsight"}
    assert entry["url"] == "http://127.0.0.1:9/mcp/"
    assert KEY not in (machine.home / ".claude.json").read_text()
    said = subprocess.run(
        entry["headersHelper"], shell=True, capture_output=True, text=True, check=True
    )
    assert json.loads(said.stdout) == {"Authorization": f"Bearer {KEY}"}
    assert setting(machine, "agents.mcp") == "provider"
    again = machine("install-mcp", "--agent", "claude-code", "--provider-only", "--yes", "--json")
    assert again.data["actions"] == []
    # A later setup keeps it; ours come back by their own command.
    machine("setup", "--yes", "--no-proxy", "--no-smoke-test", "--no-store-git")
    assert set(state(machine)) == {"hindsight"}
    assert machine("install-mcp", "--agent", "claude-code", "--yes").status == 0
    assert set(state(machine)) == {"openmem"} and setting(machine, "agents.mcp") == "openmem"
    assert machine("install-mcp", "--agent", "claude-code", "--provider-only", "--yes").status == 0
    gone = machine("uninstall", "--purge", "--yes")
    assert gone.status == 0, gone.err
    (machine.home / "server.key").unlink()
    assert machine.snapshot() == bare


def test_codex_keeps_the_key_in_its_own_file_and_it_is_said_and_masked(machine: Machine) -> None:
    """Ours: Codex knows no program that gives a key."""
    at_server(machine)
    config = machine.home / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text('model = "gpt-5"\n')
    words = ("install-mcp", "--agent", "codex", "--provider-only")
    dry = machine(*words, "--dry-run", "--diff")
    assert "keeps the provider's key" in " ".join((dry.out + dry.err).split())
    assert KEY not in dry.out + dry.err and "server-key" not in dry.out
    done = machine(*words, "--yes")
    assert done.status == 0 and "server-key" not in done.out + done.err
    text = config.read_text()
    assert "[mcp_servers.hindsight]" in text and "Bearer server-key" in text
    assert machine("uninstall-coding-agent", "--agent", "codex", "--yes").status == 0
    assert config.read_text() == 'model = "gpt-5"\n'


def test_somebody_elses_entry_of_that_name_is_left(machine: Machine) -> None:
    """Design: other people's entries untouched."""
    at_server(machine)
    theirs = {"mcpServers": {"hindsight": {"type": "http", "url": "https://mine.example/mcp/"}}}
    (machine.home / ".claude.json").write_text(json.dumps(theirs))
    before = machine.snapshot()
    done = machine("install-mcp", "--agent", "claude-code", "--provider-only", "--yes")
    assert done.status == 4 and "did not make" in " ".join(done.err.split())
    assert machine.snapshot() == before


@pytest.mark.parametrize("provider", ["local", "mem0", "cognee"])
def test_a_provider_without_an_mcp_server_says_why(machine: Machine, provider: str) -> None:
    """Ours: never an entry that leads nowhere."""
    at_server(machine, provider)
    before = machine.snapshot()
    done = machine("install-mcp", "--agent", "claude-code", "--provider-only", "--yes")
    assert done.status == 1 and "MCP server" in done.err and machine.snapshot() == before


def test_a_plugin_beside_our_hooks_is_said_before_anything_is_written(machine: Machine) -> None:
    """Issue 6, part 5: upstream plug-ins that would inject twice."""
    at_server(machine)
    settings = json.loads(USER_SETTINGS)
    settings["enabledPlugins"] = {"hindsight-memory@hindsight": True, "other@x": True}
    machine.settings.write_text(json.dumps(settings))
    done = machine(*INSTALL[:-1], "--dry-run", "--json")
    (words,) = [w for w in done.data["warnings"] if "twice" in w]
    assert "hindsight-memory@hindsight" in words and "--provider-plugin" in words
    assert machine(*INSTALL, "--provider-plugin").status == 0
    assert json.loads(machine.settings.read_text())["enabledPlugins"] == settings["enabledPlugins"]


def test_the_folder_of_a_key_may_hold_blanks(machine: Machine) -> None:
    """Users' report 11: one program for any path."""
    at_server(machine)
    odd = machine.home / "a 'b' $(c)"
    odd.mkdir()
    Path(odd, "key").write_text("k1\n")
    assert machine("config", "set", "server.key_file", str(odd / "key")).status == 0
    assert machine("install-mcp", "--agent", "claude-code", "--provider-only", "--yes").status == 0
    entry = state(machine)["hindsight"]
    assert isinstance(entry, dict)
    said = subprocess.run(entry["headersHelper"], shell=True, capture_output=True, text=True)
    assert json.loads(said.stdout) == {"Authorization": "Bearer k1"}
