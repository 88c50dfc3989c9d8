"""Runs the real Codex from npm with nothing inherited and nothing outside loopback.

It weighs 424 MB, so no test run installs it: `OPENMEM_TEST_CODEX` names a folder with
`node_modules` that holds `@openai/codex`; without it the tests that need it are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.claude import _ORIGINAL_ENVIRON

VERSION = "0.171.0"
# Nothing but the model is asked for with these; read at every start.
QUIET = """check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
"""


def codex_binary() -> str | None:
    """Return the path of the real Codex, None when this run has none."""
    root = _ORIGINAL_ENVIRON.get("OPENMEM_TEST_CODEX", "")
    path = Path(root) / "node_modules/.bin/codex"
    return str(path) if root and path.exists() else None


needs_codex = pytest.mark.skipif(
    codex_binary() is None,
    reason="no Codex here (2026-11-30); OPENMEM_TEST_CODEX=FOLDER after npm install "
    f"@openai/codex@{VERSION} there",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one headless run gave. `events`: the lines of `--json`."""

    status: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]

    @property
    def session_id(self) -> str:
        started = [event for event in self.events if event["type"] == "thread.started"]
        return str(started[0]["thread_id"]) if started else ""

    @property
    def said(self) -> list[str]:
        """What the agent said, in order."""
        items = [e["item"] for e in self.events if e["type"] == "item.completed"]
        return [item["text"] for item in items if item["type"] == "agent_message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Codex:
    """A Codex in one HOME and one project folder. `extra`: further environment."""

    home: Path
    project: Path
    sink_url: str
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / ".codex/config.toml"

    def environ(self) -> dict[str, str]:
        """Return the whole environment of a run."""
        return {
            "HOME": str(self.home),
            "PATH": _ORIGINAL_ENVIRON.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TZ": "UTC",
            "HTTPS_PROXY": self.sink_url,
            "HTTP_PROXY": self.sink_url,
            "NO_PROXY": "127.0.0.1,localhost",
            "CODEX_API_KEY": "fake-key-of-a-test",
            "FAKE_KEY": "fake-key-of-a-test",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            **self.extra,
        }

    def run(
        self, prompt: str, *options: str, resume: str = "", timeout_seconds: float = 90
    ) -> Outcome:
        """Return the outcome of `codex exec`; at the time limit its group is ended.

        `resume`: the session to go on with, "" for a new one.
        """
        words = ["exec", "--json", *options]
        return self.command(
            [*words, "resume", resume, prompt] if resume else [*words, prompt],
            timeout_seconds=timeout_seconds,
        )

    def command(self, words: Sequence[str], *, timeout_seconds: float = 90) -> Outcome:
        """Return the outcome of any command."""
        binary = codex_binary()
        assert binary is not None
        child = subprocess.Popen(
            [binary, *words],
            cwd=self.project,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            stdout, stderr = child.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            stdout, stderr = child.communicate()
            raise AssertionError(
                f"codex took over {timeout_seconds} s: {stdout[-2000:]} {stderr[-2000:]}"
            ) from None
        return Outcome(status=child.returncode, stdout=stdout, stderr=stderr)
