"""Runs the real OpenCode from npm with nothing inherited and nothing outside loopback.

It weighs 354 MB, so no test run installs it: `OPENMEM_TEST_OPENCODE` names a folder with
`node_modules` that holds `opencode-ai`; without it the tests that need it are left out.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.agent_run import (
    ORIGINAL_ENVIRON,
    Ended,
    closed_environ,
    run_to_end,
    temporary_folder,
)

VERSION = "1.18.33"


def opencode_binary() -> str | None:
    """Return the path of the real OpenCode, None when this run has none."""
    root = ORIGINAL_ENVIRON.get("OPENMEM_TEST_OPENCODE", "")
    path = Path(root) / "node_modules/.bin/opencode"
    return str(path) if root and path.exists() else None


needs_opencode = pytest.mark.skipif(
    opencode_binary() is None,
    reason="no OpenCode here (2026-11-30); OPENMEM_TEST_OPENCODE=FOLDER after npm install "
    f"opencode-ai@{VERSION} there",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Ended):
    """What one headless run gave. `events`: the lines of `--format json`."""

    @property
    def session_id(self) -> str:
        return next((str(e["sessionID"]) for e in self.events if e.get("sessionID")), "")

    @property
    def said(self) -> list[str]:
        """What the agent said, in order."""
        return [e["part"]["text"] for e in self.events if e.get("type") == "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCode:
    """An OpenCode in one HOME and one project folder. `extra`: further environment."""

    home: Path
    project: Path
    sink_url: str
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.home / ".config/opencode/opencode.json"

    def environ(self) -> dict[str, str]:
        """Return the whole environment of a run, but for the folder of its locks."""
        return {
            **closed_environ(self.home, self.sink_url),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            **self.extra,
        }

    def run(
        self, prompt: str, *options: str, resume: str = "", timeout_seconds: float = 120
    ) -> Outcome:
        """Return the outcome of `opencode run`, the prompt on standard input.

        `resume`: the session to go on with, "" for a new one.
        """
        more = ["--session", resume] if resume else []
        words = ["run", "--format", "json", *more, *options]
        return self.command(words, prompt, timeout_seconds=timeout_seconds)

    def started(self, prompt: str) -> subprocess.Popen[bytes]:
        """Return `opencode run`, begun; the caller ends it."""
        binary = opencode_binary()
        assert binary is not None
        child = subprocess.Popen(
            [binary, "run", "--format", "json"],
            cwd=self.project,
            env={**self.environ(), "XDG_STATE_HOME": f"{self.home}/.started"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdin is not None
        child.stdin.write(prompt.encode())
        child.stdin.close()
        return child

    def command(
        self, words: Sequence[str], stdin: str = "", *, timeout_seconds: float = 120
    ) -> Outcome:
        """Return the outcome of any command; at the time limit its group is ended.

        A lock that an ended run left costs the next one a minute, so each gets its own folder.
        """
        binary = opencode_binary()
        assert binary is not None
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as locks:
            try:
                return run_to_end(
                    Outcome,
                    [binary, *words],
                    folder=self.project,
                    environ={**self.environ(), "XDG_STATE_HOME": locks},
                    timeout_seconds=timeout_seconds,
                    stdin=stdin,
                )
            finally:
                for library in temporary_folder().glob(".*.so"):  # 5 MB that each run leaves
                    library.unlink()
