"""Fifty sessions started and killed leave no process of ours behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.agents.base import AGENTS
from openmem.agents.launchers import HOOK, MCP, launcher_path
from tests.fakes.any_person import a_person
from tests.fakes.claude import Sink, make_project
from tests.fakes.machine import POLICY, Machine, taken_down
from tests.fakes.scene import free_port

pytestmark = pytest.mark.timeout(400)

SESSIONS = 50
# What an agent does of a session: an MCP server for its whole life, a hook at each event. It says
# how far it came, and is killed there; what it started has to notice by itself.
_AGENT = """
import json, subprocess, sys
agent, sid, folder, hook, mcp = sys.argv[1:]
server = subprocess.Popen([mcp], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize",
         "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                    "clientInfo": {"name": agent, "version": "1"}}}
server.stdin.write(json.dumps(hello).encode() + b"\\n")
server.stdin.flush()
print("server", flush=True)
for event in ("session-start", "prompt", "stop"):
    payload = {"session_id": sid, "conversation_id": sid,
               "cwd": folder, "workspace_roots": [folder],
               "prompt": "where does the mooring mast stand?", "text": "At quay 17-B, it says.",
               "last_assistant_message": "At quay 17-B, it says."}
    child = subprocess.Popen([hook, event, "--agent", agent], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, cwd=folder)
    child.stdin.write(json.dumps(payload).encode())
    print(event, flush=True)
    child.stdin.close()
    child.wait()
print("end", flush=True)
server.wait()
"""


@pytest.mark.parametrize("has_proxy", [True, False])
def test_no_process_of_ours_is_left_ten_seconds_after_fifty_killed_sessions(
    tmp_path: Path, has_proxy: bool
) -> None:
    """Issue 7, Show it; users' report 19: servers and hooks that outlive their agent."""
    home = tmp_path / "person"
    names = tuple(AGENTS)
    with Sink() as sink:
        for name in names:
            a_person(name, home)
        machine = Machine(
            home=home,
            project=make_project(tmp_path / "project"),
            sink=sink,
            environ={"HOME": str(home), "PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null"},
            port=free_port(),
        )
        with taken_down(machine):
            machine.install(*([] if has_proxy else ["--no-proxy"]))
            assert (home / ".config/openmem/policy.toml").read_text() == POLICY
            served = set(machine.processes())
            assert bool(served) == has_proxy
            hook = launcher_path(machine.paths, HOOK)
            mcp = launcher_path(machine.paths, MCP)
            steps = ("server", "session-start", "prompt", "stop", "end")
            for number in range(SESSIONS):
                agent = names[number % len(names)]
                words = [agent, f"s-{number}", str(machine.project), hook, mcp]
                child = subprocess.Popen(
                    [sys.executable, "-c", _AGENT, *words],
                    env=machine.environ,
                    stdout=subprocess.PIPE,
                    stdin=subprocess.DEVNULL,
                    text=True,
                )
                with child:
                    assert child.stdout is not None
                    until = steps[number % len(steps)]
                    for line in child.stdout:
                        if line.strip() == until:
                            break
                    os.kill(child.pid, signal.SIGKILL)  # the agent alone, as a crash does
            left = machine.wait_for_no_process(beside=served, seconds=10.0)
            assert left == [], [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
            registered = list((machine.state / "context/sessions").glob("s-*.json"))
            assert len(registered) >= SESSIONS // 2
            assert json.loads(registered[0].read_text())["cwd"] == str(machine.project)
