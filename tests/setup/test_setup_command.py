"""`openmem setup` on a machine: what changes, what does not, what is said; with a real proxy."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from openmem.base.paths import Paths
from openmem.host.record import is_supervised
from tests.setup.conftest import USER_SETTINGS, Machine

pytestmark = pytest.mark.heavy


def is_running(machine: Machine) -> bool:
    return is_supervised(Paths({"HOME": str(machine.home)}))


def test_a_dry_run_changes_nothing_and_starts_nothing(machine: Machine) -> None:
    """Design, section 5; users' contract: a dry run writes nothing at all."""
    before = machine.snapshot()
    done = machine("setup", "--dry-run", "--json", "--port", str(machine.port))
    assert done.status == 0 and machine.snapshot() == before and not is_running(machine)
    actions = done.data["actions"]
    assert all({"kind", "path", "why", "diff"} <= set(action) for action in actions)
    by_name = {os.path.basename(action["path"]): action for action in actions}
    assert '+    "env": {' in by_name["settings.json"]["diff"]
    assert by_name["policy.toml"]["why"] and by_name["config.toml"]["diff"].startswith("---")
    text = machine("setup", "--dry-run", "--port", str(machine.port))
    assert "~ ~/.claude/settings.json" in text.out and "Nothing is written yet." in text.out
    assert machine.snapshot() == before


def test_setup_yes_takes_the_embedded_defaults_and_the_second_run_does_nothing(
    machine: Machine,
) -> None:
    """Issue 2, What a user can do."""
    done = machine("setup", "--yes", "--json", "--port", str(machine.port))
    assert done.status == 0, done.err
    proofs = {proof["name"]: proof["result"] for proof in done.data["proofs"]}
    assert proofs == {
        "policy": "ok",
        "proxy": "warning",  # the upstream that the shell names does not answer
        "Claude Code": "ok",
        "smoke test": "ok",
    }
    policy = tomllib.loads((machine.home / ".config/openmem/policy.toml").read_text())
    assert policy["defaults"]["git"]["store"] and not policy["defaults"]["other"]["store"]
    config = tomllib.loads((machine.home / ".config/openmem/config.toml").read_text())
    assert config["provider"] == "local" and config["proxy"] == {
        "enabled": True,
        "port": machine.port,
    }
    assert config["routes"]["claude-code"]["upstream"] == machine.upstream
    base = f"http://127.0.0.1:{machine.port}/a/claude-code"
    assert machine.env_of_settings()["ANTHROPIC_BASE_URL"] == base
    assert is_running(machine)
    state = machine.home / ".local/share/openmem"
    assert not [path for path in state.rglob("*") if "smoke" in path.name]
    assert not list((state / "context").rglob("*.db")) if (state / "context").exists() else True

    before = machine.snapshot()
    again = machine("setup", "--yes")
    assert (again.status, again.out) == (0, "Nothing to do.\n")
    assert machine.snapshot() == before


def test_a_taken_port_is_passed_over_and_said(machine: Machine) -> None:
    """Issue 2, Bad input: port taken, the next free one."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", machine.port))
        other.listen()
        done = machine.setup()
    assert done.status == 0, done.err
    assert f"Port {machine.port} is taken;" in done.err
    port = tomllib.loads((machine.home / ".config/openmem/config.toml").read_text())["proxy"][
        "port"
    ]
    assert port > machine.port and str(port) in machine.env_of_settings()["ANTHROPIC_BASE_URL"]


def test_without_claude_code_setup_goes_on_and_says_how_to_wire_later(machine: Machine) -> None:
    """Issue 2, Bad input."""
    machine.settings.unlink()
    machine.settings.parent.rmdir()
    done = machine.setup()
    assert done.status == 0, done.err
    assert "openmem install-coding-agent" in done.err and "not found" in done.err
    assert is_running(machine) and not machine.settings.exists()
    assert machine("install-coding-agent", "--yes").status == 6


def test_settings_that_do_not_parse_stop_everything_before_the_first_write(
    machine: Machine,
) -> None:
    """Issue 2, Bad input; peers, hands-on: nothing written before a refusal."""
    machine.settings.write_text('{\n  "model": "x", // mine\n}\n')
    before = machine.snapshot()
    done = machine.setup()
    assert done.status == 4 and machine.snapshot() == before
    assert "~/.claude/settings.json does not parse (line 2, column" in done.err
    assert "--without claude-code" in done.err.replace("\n", " ")
    assert machine.setup("--without", "claude-code").status == 0
    assert machine.settings.read_text() == '{\n  "model": "x", // mine\n}\n'


def test_a_model_api_that_answers_is_proven_through_the_proxy(machine: Machine) -> None:
    """screens.md, end of setup."""

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", int(machine.upstream.rsplit(":", 1)[1])), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        done = machine.setup("--json")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    proxy = next(proof for proof in done.data["proofs"] if proof["name"] == "proxy")
    assert proxy["result"] == "ok" and "ms round trip" in proxy["detail"]


def test_undo_gives_back_every_byte_and_stops_the_proxy(machine: Machine) -> None:
    """Issue 2, part 2: `undo` gives back the bytes of before."""
    assert machine.setup().status == 0
    done = machine("undo", "--yes")
    assert done.status == 0, done.err
    assert machine.settings.read_text() == USER_SETTINGS
    assert not (machine.home / ".claude.json").exists()
    assert not (machine.home / ".config/openmem").exists()
    assert not is_running(machine)


def test_uninstall_purge_leaves_home_as_it_was(machine: Machine) -> None:
    """Users' report 8; issue 2, Show it."""
    before = machine.snapshot()
    assert machine("setup", "--yes", "--port", str(machine.port)).status == 0
    done = machine("uninstall", "--purge", "--yes")
    assert done.status == 0, done.err
    assert machine.snapshot() == before and not is_running(machine)
    assert machine("uninstall", "--purge", "--yes").out == "Nothing to do.\n"


def test_uninstall_keeps_settings_policy_and_store_and_names_them(machine: Machine) -> None:
    """Design, section 5: what was left and why."""
    assert machine.setup().status == 0
    kept = machine.home / ".local/share/openmem/context/sessions/s.v4.db"
    kept.parent.mkdir(parents=True)
    kept.write_text("")
    done = machine("uninstall", "--yes")
    assert done.status == 0 and machine.settings.read_text() == USER_SETTINGS
    assert kept.exists() and (machine.home / ".config/openmem/policy.toml").exists()
    for named in ("~/.config/openmem", "~/.local/share/openmem", "--purge removes it too"):
        assert named in done.err
    assert not is_running(machine)
    assert machine.setup().status == 0  # and it can be set up again


def test_nothing_is_asked_without_a_terminal(machine: Machine) -> None:
    """Design, section 5: fail naming the flag."""
    before = machine.snapshot()
    for words in (("setup",), ("uninstall",), ("install-coding-agent",), ("install-mcp",)):
        done = machine(*words)
        assert done.status in (0, 2) and machine.snapshot() == before
        if words != ("uninstall",):  # there is nothing to take out, so nothing to ask
            assert done.status == 2 and "--yes" in done.err


def test_proxy_stop_takes_the_address_out_and_start_gives_it_back(machine: Machine) -> None:
    """Design, section 7: `proxy stop` takes the base URL out of the agents' settings."""
    assert machine.setup().status == 0
    wired = machine.settings.read_text()
    stopped = machine("proxy", "stop", "--json")
    assert stopped.data["proxy"]["state"] == "ended"
    assert "ANTHROPIC_BASE_URL" not in machine.env_of_settings() and not is_running(machine)
    assert "stopped by you" in machine("proxy", "status").out
    assert machine("proxy", "start").status == 0
    assert machine.settings.read_text() == wired and is_running(machine)


def test_a_start_after_two_stops_leaves_nothing_as_it_is(machine: Machine) -> None:
    """Ours: the older stop was overtaken by a setup; what it cannot give back is no news."""
    assert machine.setup().status == 0
    wired = machine.env_of_settings()
    assert machine("proxy", "stop").status == 0
    assert machine.setup().status == 0
    assert machine("proxy", "stop").status == 0
    started = machine("proxy", "start")
    assert started.status == 0 and "Left as it is" not in started.out + started.err
    assert machine.env_of_settings() == wired


def test_an_address_that_a_person_removed_stays_removed(machine: Machine) -> None:
    """Users' report 9: removal by the user is final."""
    assert machine.setup().status == 0
    settings = json.loads(machine.settings.read_text())
    del settings["env"]["ANTHROPIC_BASE_URL"]
    machine.settings.write_text(json.dumps(settings))
    assert machine("proxy", "stop").status == 0
    assert machine("proxy", "start").status == 0
    assert "ANTHROPIC_BASE_URL" not in machine.env_of_settings()


def test_a_dead_proxy_is_an_error_that_fix_mends(machine: Machine) -> None:
    """Design, section 5: doctor is read-only without --fix."""
    assert machine.setup().status == 0
    assert machine("doctor", "--no-network").status == 0
    status = machine("proxy", "status", "--json").data
    both = (status["supervisor_pid"], status["worker_pid"])
    # Held first: who of the two outlives the other for a moment starts it again.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in both:
            os.kill(pid, number)
    broken = machine("doctor", "--no-network", "--json")
    proxy = next(check for check in broken.data["checks"] if check["name"] == "proxy")
    assert broken.status == 1 and proxy["result"] == "error" and proxy["fixable"]
    assert not is_running(machine)
    assert machine("doctor", "--fix", "--yes", "--no-network").status == 0
    assert is_running(machine) and machine("doctor", "--no-network").status == 0


def test_only_the_tools(machine: Machine) -> None:
    """Design, section 5: install-mcp is the MCP entry and nothing else."""
    assert machine("install-mcp", "--yes").status == 0
    assert machine.settings.read_text() == USER_SETTINGS and not is_running(machine)
    servers = json.loads((machine.home / ".claude.json").read_text())["mcpServers"]
    assert list(servers) == ["openmem"]
    assert machine("uninstall-coding-agent", "--yes").status == 0
    assert not (machine.home / ".claude.json").exists()


def test_agents_can_be_wired_without_the_proxy(machine: Machine) -> None:
    """Design, section 5: --no-proxy."""
    assert machine("install-coding-agent", "--no-proxy", "--yes").status == 0
    assert "ANTHROPIC_BASE_URL" not in machine.env_of_settings() and not is_running(machine)
    assert "openmem-hook" in machine.settings.read_text()


def test_setup_without_the_proxy_ends_the_one_that_runs(machine: Machine) -> None:
    """Ours: an answer is carried out, also when it takes something back."""
    assert machine.setup().status == 0
    assert machine.setup("--no-proxy").status == 0
    assert not is_running(machine)
    assert "ANTHROPIC_BASE_URL" not in machine.env_of_settings()
    assert machine("setup", "--yes").out == "Nothing to do.\n"


def test_a_new_port_moves_the_proxy_and_the_address(machine: Machine) -> None:
    """Ours."""
    from tests.setup.conftest import free_port

    assert machine.setup().status == 0
    other = free_port()
    done = machine("setup", "--yes", "--no-smoke-test", "--port", str(other))
    assert done.status == 0, done.err
    assert machine("proxy", "status", "--json").data["port"] == other
    assert f":{other}/" in machine.env_of_settings()["ANTHROPIC_BASE_URL"]


def test_a_saved_plan_is_carried_out_exactly_or_refused(machine: Machine) -> None:
    """Users' contract: apply refuses if any file changed since; terraform's saved plans."""
    port = ("--port", str(machine.port))
    pending = machine("plan", *port, "--out", "plan.json", "--exit-code")
    assert pending.status == 3 and "Nothing is written yet." in pending.out
    saved = machine.home / "plan.json"
    assert saved.stat().st_mode & 0o777 == 0o600
    assert machine.settings.read_text() == USER_SETTINGS and not is_running(machine)
    machine.settings.write_text(USER_SETTINGS + "\n")
    before = machine.snapshot()
    assert machine("apply", "plan.json").status == 4 and machine.snapshot() == before
    machine.settings.write_text(USER_SETTINGS)
    assert machine("apply", "plan.json", "--dry-run").status == 0 and not is_running(machine)
    assert machine("apply", "plan.json").status == 0 and is_running(machine)
    assert machine("plan", "--exit-code").status == 0  # nothing is pending any more
    assert machine("apply", "none.json").status == 1
    saved.write_text("{}")
    assert machine("apply", "plan.json").status == 4


def test_a_saved_plan_holds_no_secret_of_the_person(machine: Machine) -> None:
    """Design, section 4: a saved plan holds references to secrets, never values."""
    secret = "sk-ant-api03-" + "aB3" * 31 + "AA"
    settings = json.loads(USER_SETTINGS) | {"env": {"ANTHROPIC_API_KEY": secret}}
    machine.settings.write_text(json.dumps(settings, indent=2))
    done = machine("plan", "--port", str(machine.port), "--out", "plan.json", "--diff", "--json")
    assert done.status == 0 and secret not in done.out + done.err
    assert secret not in (machine.home / "plan.json").read_text()
    assert machine("apply", "plan.json").status == 0
    assert json.loads(machine.settings.read_text())["env"]["ANTHROPIC_API_KEY"] == secret
