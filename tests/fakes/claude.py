"""Runs the real Claude Code from npm with nothing inherited and nothing outside loopback.

Where it is: `OPENMEM_TEST_AGENTS` (a folder with `node_modules`), `.ci/cache/agents` of the
checkout, or PATH. A sink takes every request that is not for loopback and refuses it; what was
asked for is kept, so that a test can say that nothing left the machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.fakes.agent_run import ORIGINAL_ENVIRON, Ended, closed_environ, run_to_end
from tests.fakes.wire import HttpServer, Reply, Request

CHECKOUT = Path(__file__).resolve().parents[2]


def claude_binary() -> str | None:
    """Return the path of the real Claude Code, None when this machine has none."""
    roots = [ORIGINAL_ENVIRON.get("OPENMEM_TEST_AGENTS", ""), str(CHECKOUT / ".ci/cache/agents")]
    for root in filter(None, roots):
        path = Path(root) / "node_modules/.bin/claude"
        if path.exists():
            return str(path)
    return shutil.which("claude", path=ORIGINAL_ENVIRON.get("PATH"))


class Sink:
    """An HTTP proxy that refuses everything and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._http = HttpServer(self._refuse)

    def _refuse(self, request: Request, reply: Reply) -> None:
        self.asked.append(f"{request.method} {request.target}")
        reply.whole(403, [("connection", "close")], b"")
        reply.closes = True

    @property
    def url(self) -> str:
        return self._http.url

    def __enter__(self) -> Sink:
        self._http.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._http.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Ended):
    """What one headless run gave. `json`: the last line of `--output-format json`, or {}."""

    @property
    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(self.stdout.strip().splitlines()[-1])
        except (ValueError, IndexError):
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def result(self) -> str:
        return str(self.json.get("result", ""))

    @property
    def session_id(self) -> str:
        return str(self.json.get("session_id", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claude:
    """A Claude Code in one HOME and one project folder.

    `base_url`: put into the environment, empty to leave it to the settings file · `extra`:
    further environment · `path`: put in front of PATH.
    """

    home: Path
    project: Path
    sink_url: str
    base_url: str = ""
    path: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    def environ(self) -> dict[str, str]:
        """Return the whole environment of a run."""
        closed = closed_environ(self.home, self.sink_url)
        values = {
            **closed,
            "PATH": f"{self.path}:{closed['PATH']}" if self.path else closed["PATH"],
            "ANTHROPIC_API_KEY": "fake-key-of-a-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            **self.extra,
        }
        if self.base_url:
            values["ANTHROPIC_BASE_URL"] = self.base_url
        return values

    def run(
        self,
        prompt: str,
        *options: str,
        model: str = "claude-opus-5-5",
        tools: Sequence[str] = ("Bash", "Read", "Agent", "Task", "mcp__openmem"),
        timeout_seconds: float = 90,
    ) -> Outcome:
        """Return the outcome of `claude -p PROMPT`; at the time limit its group is ended."""
        binary = claude_binary()
        assert binary is not None
        command = [binary, "-p", prompt, "--model", model, "--output-format", "json", *options]
        if tools:
            command += ["--allowedTools", *tools]
        return run_to_end(
            Outcome,
            command,
            folder=self.project,
            environ=self.environ(),
            timeout_seconds=timeout_seconds,
        )


def make_project(folder: Path) -> Path:
    """Return a git repository with one file and one commit."""
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("alpha\nbeta\n")
    identity = ["-c", "user.name=Dev", "-c", "user.email=dev@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return folder
