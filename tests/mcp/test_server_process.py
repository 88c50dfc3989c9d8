"""The server as a process: what goes out, how it ends, what it does not load."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.mcp.wire import LINE_LIMIT
from tests.fakes.mcp_process import CHECKOUT, WAIT_SECONDS, McpProcess


def here(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def test_requests_that_are_piped_in_are_all_answered_before_the_end(
    home: Path, tmp_path: Path
) -> None:
    """Ours: scripts pipe their requests in and close; a call that runs is not lost by it."""
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call",
         "params": {"name": "smart_compact_search", "arguments": {"query": "x"}}},
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "openmem.mcp"],
        input="\n".join(json.dumps(line) for line in lines),  # the last one without its end
        cwd=tmp_path,
        env={"HOME": str(home), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2, 3]
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_at_once(
    home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """MCP, lifecycle, shutdown; a person's Ctrl-C reaches the whole group."""
    with McpProcess(tmp_path, here(home)) as server:
        server.ask("ping")
        server.child.send_signal(number)
        assert server.ended() == 0
        assert server.child.stderr is not None and server.child.stderr.read() == b""


def test_the_end_of_input_ends_the_server(home: Path, tmp_path: Path) -> None:
    """MCP, lifecycle, shutdown."""
    with McpProcess(tmp_path, here(home)) as server:
        server.ask("ping")
        server.close_input()
        assert server.ended() == 0


def test_a_client_that_stops_reading_ends_the_server(home: Path, tmp_path: Path) -> None:
    """Ours: a broken pipe is an end, not a trace."""
    with McpProcess(tmp_path, here(home)) as server:
        server.ask("ping")
        assert server.child.stdout is not None
        server.child.stdout.close()
        server.send({"jsonrpc": "2.0", "id": 9, "method": "ping"})
        assert server.ended() == 0


def test_a_server_whose_agent_died_ends_though_its_input_stays_open(
    home: Path, tmp_path: Path
) -> None:
    """Ours: a process beside the agent may hold the pipe; an orphan would run for ever."""
    reading, writing = os.pipe()
    agent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import openmem.mcp.wire as wire; "
            "wire.IDLE_SECONDS = 0.05; import sys; sys.argv = [str()]; "
            "from openmem.mcp.__main__ import main; main()'], stdin=int(sys.argv[1]))\n"
            "sys.stdin.read()\n",
            str(reading),
        ],
        cwd=tmp_path,
        env={"HOME": str(home), "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[reading],
    )
    assert agent.stdin is not None and agent.stdout is not None
    try:
        os.close(reading)
        os.write(writing, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert json.loads(agent.stdout.readline())["id"] == 1
        agent.kill()
        agent.wait(WAIT_SECONDS)
        # Its output ends when the last process that holds it is gone: the server.
        assert agent.stdout.read() == b""
    finally:
        os.close(writing)  # ends the server in any case
        agent.kill()
        agent.wait(WAIT_SECONDS)
        agent.stdin.close()
        agent.stdout.close()


def test_a_huge_line_is_refused_and_the_next_one_answered(home: Path, tmp_path: Path) -> None:
    """Ours: a line is bounded, the stream is not lost by it."""
    with McpProcess(tmp_path, here(home)) as server:
        for _ in range(LINE_LIMIT // (1 << 20) + 1):
            server.send_bytes(b"x" * (1 << 20))
        server.send_bytes(b"\n")
        assert server.line()["error"]["code"] == -32700
        assert server.ask("ping") == {}


def test_a_line_may_come_in_pieces_and_several_at_once(home: Path, tmp_path: Path) -> None:
    """Ours: a pipe keeps no message boundaries."""
    one = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    with McpProcess(tmp_path, here(home)) as server:
        for number in range(len(one)):
            server.send_bytes(one[number : number + 1])
        assert server.line()["id"] == 1
        server.send_bytes(one * 3)
        assert [server.line()["id"] for _ in range(3)] == [1, 1, 1]


def test_what_is_printed_by_accident_does_not_reach_the_protocol(
    home: Path, tmp_path: Path
) -> None:
    """Ours: nothing but protocol goes to standard output, from children and C code as well."""
    noisy = (
        "import os, subprocess, sys\n"
        "from openmem.mcp import tools, server\n"
        "def run(arguments, meta):\n"
        "    print('stray')\n"
        "    os.write(1, b'stray\\n')\n"
        "    subprocess.run(['sh', '-c', 'echo stray; cat'], timeout=10)\n"
        "    return 'fine'\n"
        "server.serve(tools.Toolbox((tools.ToolSpec('noisy', '', (), run),)))\n"
    )
    with McpProcess(tmp_path, here(home), command=[sys.executable, "-c", noisy]) as process:
        assert process.call("noisy") == ("fine", False)
        process.close_input()
        process.ended()
        assert process.child.stderr is not None
        assert process.child.stderr.read().count(b"stray") == 3


def test_the_command_line_is_told_apart_from_serving() -> None:
    """Design, section 5: help and version; anything else is wrong usage."""
    environ = {"PYTHONPATH": str(CHECKOUT), "HOME": "/nonexistent"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "openmem.mcp", *words],
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=WAIT_SECONDS,
        )

    assert run("--version").stdout.startswith("openmem-mcp ")
    assert "Usage: openmem-mcp" in run("--help").stdout
    wrong = run("--port", "1")
    assert wrong.returncode == 2 and wrong.stdout == "" and "Usage:" in wrong.stderr


def test_the_server_starts_without_what_only_a_call_needs(home: Path, tmp_path: Path) -> None:
    """Ours: the agent waits for this process at every start."""
    code = (
        "import sys\n"
        "from openmem.mcp.context_tools import context_tools\n"
        "from openmem.mcp.tools import Toolbox\n"
        "import openmem.mcp.server\n"
        "Toolbox(context_tools({})).listed()\n"
        "print(sorted({'sqlite3', 'dataclasses', 'subprocess', 'tomllib', 'typing', 'inspect',"
        " 'asyncio', 'hashlib', 'pathlib', 'logging', 'mcp', 'importlib.metadata'}"
        " & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.append({str(CHECKOUT)!r})\n{code}"],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    assert done.stdout.strip() == "[]"
