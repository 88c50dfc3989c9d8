"""The MCP launcher with `--stay`: an agent that would not start without us starts all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.launchers import MCP, rendered
from openmem.base.paths import Paths


def launcher(folder: Path, **changes: str) -> Path:
    script = folder / MCP
    script.write_bytes(rendered(MCP, Paths({"HOME": str(folder)}), **changes))
    script.chmod(0o755)
    return script


def dialogue(script: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [str(script), "--stay"],
        input="".join(json.dumps(one, separators=(",", ":")) + "\n" for one in messages),
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(script.parent)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "codex-mcp-client", "version": "0.171.0"}}}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": "a-1", "method": "tools/list",
        "params": {"_meta": {"progressToken": 0}}}  # fmt: skip


def test_a_removed_installation_answers_as_a_server_without_tools(tmp_path: Path) -> None:
    """Trial with 0.171.0: Codex does not start at all when a required server does not."""
    script = launcher(tmp_path, python="/no/python")
    hello, listed, pong = dialogue(
        script, HELLO, READY, LIST, {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    )
    assert hello["id"] == 0 and hello["result"]["protocolVersion"] == "2025-06-18"
    assert hello["result"]["serverInfo"]["name"] == "openmem"
    assert (listed["id"], listed["result"]) == ("a-1", {"tools": []})
    assert (pong["id"], pong["result"]) == (7, {})


def test_an_installation_that_is_there_serves_its_tools(tmp_path: Path) -> None:
    """The same argument, and the real server."""
    script = launcher(tmp_path, python=sys.executable)
    _, listed = dialogue(script, HELLO, READY, LIST)
    assert "smart_compact_search" in {tool["name"] for tool in listed["result"]["tools"]}


@pytest.mark.parametrize("words", [[], ["--stay"]])
def test_the_command_on_path_takes_its_place(tmp_path: Path, words: list[str]) -> None:
    """Launchers: the installation that wrote it, else the one on PATH, without our argument."""
    script = launcher(tmp_path, python="/no/python")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/openmem-mcp"
    command.write_text('#!/bin/sh\nprintf "%s" "ran $*"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [str(script), *words],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path / 'bin'}:{os.defpath}", "HOME": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("ran ", 0)
