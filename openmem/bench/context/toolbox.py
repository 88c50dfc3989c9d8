"""What the client can run for the model: a shell that knows two commands, and openmem's own tools.

The tools are those of the real MCP server, as a process, in the session's folder, with the
session's id as Claude Code gives it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from openmem.base.errors import Failed

_WAIT_SECONDS = 60.0
PREFIX = "mcp__openmem__"


def _declared(name: str, what: str, **properties: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": what,
        "input_schema": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
        },
    }


AGENT_TOOLS = [
    _declared("Bash", "Run a shell command and return its output.", command="string"),
    _declared("Read", "Read a file of the project.", path="string", limit="integer"),
    _declared("Edit", "Replace a text in a file.", path="string", old="string", new="string"),
    _declared("Agent", "Start a sub-agent with a task.", prompt="string"),
]
TODO_TOOL = _declared("TodoWrite", "Set the to-do list.", todos="array")


@dataclass(slots=True)
class McpServer:
    """The MCP server of one session. Use as a context manager."""

    folder: str
    environ: Mapping[str, str]
    _child: subprocess.Popen[bytes] | None = None
    _rest: bytes = b""
    _ids: int = 0

    def __enter__(self) -> McpServer:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "openmem.mcp"],
            cwd=self.folder,
            env=dict(self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        client = {"name": "openmem-bench", "version": "1"}
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self._ask("initialize", about)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._child is not None and self._child.stdin and self._child.stdout
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()

    def declared(self) -> list[dict[str, Any]]:
        """Return the tools as Claude Code declares them to the model."""
        return [
            {
                "name": PREFIX + tool["name"],
                "description": tool["description"],
                "input_schema": tool["inputSchema"],
            }
            for tool in self._ask("tools/list", {})["tools"]
        ]

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a tool's text, also when it tells of an error."""
        result = self._ask("tools/call", {"name": name, "arguments": dict(arguments)})
        return "\n".join(str(block.get("text", "")) for block in result["content"])

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.write(json.dumps(message).encode() + b"\n")
        self._child.stdin.flush()

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._ids += 1
        self._send({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})
        while True:
            answer = json.loads(self._line())
            if answer.get("id") == self._ids:
                if "error" in answer:
                    raise Failed(f"the MCP server answered {answer['error']} to {method}.")
                return answer["result"]

    def _line(self) -> bytes:
        assert self._child is not None and self._child.stdout is not None
        descriptor = self._child.stdout.fileno()
        deadline = time.monotonic() + _WAIT_SECONDS
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise Failed("the MCP server did not answer in time.")
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                raise Failed("the MCP server ended during a bench.")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line


@dataclass(slots=True)
class Toolbox:
    """Runs tool calls and counts them. `server`: None where no such tools are offered; `files`: of
    the project, by path, where the model works on any."""

    server: McpServer | None = None
    files: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def declared(self) -> list[dict[str, Any]]:
        own = [*AGENT_TOOLS, TODO_TOOL] if self.files else AGENT_TOOLS
        return [*own, *(self.server.declared() if self.server else [])]

    def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Return a call's result. Failed for a tool that was not declared."""
        self.counts[name] = self.counts.get(name, 0) + 1
        if name.startswith(PREFIX) and self.server is not None:
            return self.server.call(name.removeprefix(PREFIX), arguments)
        if self.files and name in ("Read", "Edit", "TodoWrite"):
            return self._work(name, arguments)
        if name != "Bash":
            raise Failed(f"the scripted model called {name}, which it was not offered.")
        command = str(arguments["command"])
        if command.startswith("echo "):
            return command.removeprefix("echo ")
        if command.startswith("printf '%s' '"):
            return command.removeprefix("printf '%s' '").removesuffix("'")
        return "1f3a9c2 Keep the parser's columns\n88d0e41 Rename the margin\n07aa512 First commit"

    def _work(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "TodoWrite":
            return "The to-do list was set."
        path = str(arguments["path"])
        if name == "Edit":
            old, new = str(arguments["old"]), str(arguments["new"])
            if self.files[path].count(old) != 1:
                return f"error: the text stands not once in {path}"
            self.files[path] = self.files[path].replace(old, new)
            return f"{path} was changed."
        return self.files[path]
