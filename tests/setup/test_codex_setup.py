"""Codex through the command line: beside Claude Code, by itself, and out again to the byte."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.base import AGENTS, Wanted
from openmem.base.paths import Paths
from openmem.plan.apply import apply
from openmem.plan.system import RealSystem
from openmem.setup.answers import gather
from openmem.setup.doctor import wiring
from openmem.setup.facts import Facts, KnownAgent
from openmem.setup.look import look_at_agents
from openmem.setup.resolve import decide
from openmem.setup.wire import before_us
from tests.fakes.codex_person import CONFIG, CUSTOM
from tests.setup.conftest import Machine, free_port

INSTALL = ("install-coding-agent", "--agent", "codex", "--yes")


@pytest.fixture
def both(home: Path, machine: Machine) -> Iterator[Machine]:
    """A machine with Claude Code and with Codex behind a gate."""
    (home / ".codex").mkdir()
    text = CUSTOM.replace("https://gate.example/v1", f"http://127.0.0.1:{free_port()}/v1")
    (home / ".codex/config.toml").write_text(text)
    yield machine


def config(machine: Machine) -> dict[str, Any]:
    return tomllib.loads((machine.home / ".codex/config.toml").read_text())


def agents(home: Path) -> dict[str, bytes]:
    """Return the agents' own files."""
    folders = (home / ".codex", home / ".claude")
    return {str(p): p.read_bytes() for f in folders for p in sorted(f.rglob("*")) if p.is_file()}


def test_install_and_uninstall_of_codex_alone(both: Machine) -> None:
    """Issue 7, "What a user can do"; a second run says nothing to do; byte-exact restore."""
    before = agents(both.home)
    upstream = config(both)["model_providers"]["gate"]["base_url"]
    done = both(*INSTALL, OPENMEM_PROXY_PORT=str(both.port))
    assert done.status == 0, done
    assert "--trust-hooks" in " ".join(done.err.split())
    assert config(both)["model_providers"]["gate"]["base_url"].endswith("/a/codex")
    settings = (both.home / ".config/openmem/config.toml").read_text()
    assert tomllib.loads(settings)["routes"] == {"codex": {"upstream": upstream}}
    again = both(*INSTALL, OPENMEM_PROXY_PORT=str(both.port))
    assert again.status == 0 and "Nothing to do." in again.out
    row = next(a for a in both("status", "--json").data["agents"] if a["name"] == "codex")
    assert (row["hooks"], row["mcp"], row["proxy"]) == (True, True, True)
    assert row["untrusted_hooks"] == ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"]
    shown = both("status").out
    assert any("codex" in line and "untrusted" in line for line in shown.splitlines())
    assert both("uninstall-coding-agent", "--agent", "codex", "--yes").status == 0
    assert agents(both.home) == before


def test_taking_one_agent_out_leaves_the_other_working(both: Machine) -> None:
    """Ours: what agents share goes with the last one that runs it."""
    before = agents(both.home)
    assert both("install-coding-agent", "--yes", "--no-proxy").status == 0
    hooks = both.home / ".local/share/openmem/hooks"
    assert both("uninstall-coding-agent", "--agent", "claude-code", "--yes").status == 0
    assert sorted(p.name for p in hooks.iterdir()) == ["openmem-hook", "openmem-mcp"]
    assert "openmem" in (both.home / ".codex/hooks.json").read_text()
    assert both("uninstall-coding-agent", "--agent", "codex", "--yes").status == 0
    assert agents(both.home) == before
    assert not hooks.exists() or not any(hooks.iterdir())


def test_a_config_that_does_not_parse_is_refused_with_its_place(both: Machine) -> None:
    """Issue 7, Bad input: exit 4 with the place named, and nothing written."""
    (both.home / ".codex/config.toml").write_text('model = "x\n')
    before = both.snapshot()
    done = both(*INSTALL, "--no-proxy")
    assert done.status == 4, done
    assert "config.toml" in done.err and "line 1" in done.err
    assert {k: v for k, v in both.snapshot().items() if ".codex" in k or ".claude" in k} == {
        k: v for k, v in before.items() if ".codex" in k or ".claude" in k
    }


def test_proxy_stop_gives_codex_its_address_back_and_start_takes_it_again(both: Machine) -> None:
    """Design, section 7: `proxy stop` takes the base URL out of the agents' settings."""
    upstream = config(both)["model_providers"]["gate"]["base_url"]
    assert both(*INSTALL, OPENMEM_PROXY_PORT=str(both.port)).status == 0
    assert both("proxy", "stop", "--now").status == 0
    assert config(both)["model_providers"]["gate"]["base_url"] == upstream
    assert both("proxy", "start").status == 0
    assert config(both)["model_providers"]["gate"]["base_url"].endswith("/a/codex")


def known(**changes: Any) -> KnownAgent:
    detected = AGENTS["codex"].detect(RealSystem(os.environ), os.environ)
    assert detected is not None
    return KnownAgent(name="codex", title="Codex", detected=detected, **changes)


def test_trust_is_asked_for_codex_only_and_given_only_when_stated(home: Path) -> None:
    """Issue 7 part 1: a yes after the commands were shown, or the flag."""
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(CONFIG)
    facts = Facts(agents=(known(),))

    def decided(flags: dict[str, Any]) -> bool | None:
        answered = gather(facts, flags=flags, file={}, ask=None, takes_defaults=True)
        return decide(facts, answered, free=1).trust_hooks

    assert decided({}) is None
    assert decided({"trust_hooks": True}) is True
    claude = Facts(agents=(KnownAgent(name="claude-code", title="Claude Code"),))
    answered = gather(claude, flags={}, file={}, ask=None, takes_defaults=True)
    assert "trust_hooks" not in answered.values
    answered = gather(facts, flags={"hooks": False}, file={}, ask=None, takes_defaults=True)
    assert "trust_hooks" not in answered.values


def test_another_login_takes_the_upstream_along(home: Path) -> None:
    """Ours: an API key sent to the address of a ChatGPT login would be refused for ever."""
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(CONFIG)
    paths = Paths(os.environ)
    os.makedirs(paths.config_dir)
    Path(paths.config_file).write_text('[routes.codex]\nupstream = "https://api.openai.com/v1"\n')
    system = RealSystem({**os.environ, "PATH": "/nowhere"})

    def codex() -> KnownAgent:
        return next(one for one in look_at_agents(system, paths) if one.name == "codex")

    assert codex().upstream == "https://api.openai.com/v1"
    (home / ".codex/auth.json").write_text('{"auth_mode": "chatgpt"}')
    assert codex().upstream == "https://chatgpt.com/backend-api/codex"
    assert before_us(codex()) == ""
    Path(paths.config_file).write_text('[routes.codex]\nupstream = "https://gate.example"\n')
    assert codex().upstream == "https://gate.example" == before_us(codex())


def test_the_doctor_tells_of_hooks_that_codex_passes_over(home: Path) -> None:
    """Ours: Codex says nothing of them, so we do."""
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(CONFIG)
    system, paths = RealSystem({**os.environ, "PATH": "/nowhere"}), Paths(os.environ)
    detected = known().detected
    assert detected is not None
    plan = AGENTS["codex"].wiring(system, paths, detected, Wanted(proxy=None))
    apply(plan, system, paths, label="t")
    found = [one for one in wiring.check_agents(system, paths) if one.subject == "codex"]
    told = next(one for one in found if one.outcome == "warning")
    assert "Stop" in told.detail and "--trust-hooks" in told.advice
