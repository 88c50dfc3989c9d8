"""The MCP server as a process, spoken to by hand: one line in, one line out, every wait bounded."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 15.0


class McpProcess:
    """`python -m openmem.mcp` in a folder, with exactly the environment given and PATH."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], *, command: list[str] | None = None
    ) -> None:
        self.child = subprocess.Popen(
            command or [sys.executable, "-m", "openmem.mcp"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT), **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._rest = b""
        self._ids = 0

    def __enter__(self) -> McpProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(WAIT_SECONDS)
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            assert stream is not None
            stream.close()

    def send(self, value: object) -> None:
        self.send_bytes(json.dumps(value).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(data)
        self.child.stdin.flush()

    def line(self) -> Any:
        """Return the next line, decoded. AssertionError when none comes."""
        assert self.child.stdout is not None
        descriptor = self.child.stdout.fileno()
        deadline = time.monotonic() + WAIT_SECONDS
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "no line from the server"
            chunk = os.read(descriptor, 1 << 16)
            assert chunk, "the server closed its output"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def ask(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        """Return the result of a request, or its error object."""
        self._ids += 1
        self.send(
            {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": dict(params or {})}
        )
        answer = self.line()
        assert answer["id"] == self._ids
        return answer.get("result", answer.get("error"))

    def call(self, name: str, **arguments: object) -> tuple[str, bool]:
        """Return a tool's text and whether it is an error."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert set(result) <= {"content", "isError"}, result
        (block,) = result["content"]
        return str(block["text"]), bool(result.get("isError", False))

    def close_input(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()

    def ended(self) -> int:
        """Return the exit status; AssertionError when it does not end."""
        return self.child.wait(WAIT_SECONDS)
