"""Runs the real Codex from npm with nothing inherited and nothing outside loopback.

It weighs 424 MB, so no test run installs it: `OPENMEM_TEST_CODEX` names a folder with
`node_modules` that holds `@openai/codex`; without it the tests that need it are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.agent_run import ORIGINAL_ENVIRON, Ended, closed_environ, run_to_end

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
    root = ORIGINAL_ENVIRON.get("OPENMEM_TEST_CODEX", "")
    path = Path(root) / "node_modules/.bin/codex"
    return str(path) if root and path.exists() else None


needs_codex = pytest.mark.skipif(
    codex_binary() is None,
    reason="no Codex here (2026-11-30); OPENMEM_TEST_CODEX=FOLDER after npm install "
    f"@openai/codex@{VERSION} there",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Ended):
    """What one headless run gave. `events`: the lines of `--json`."""

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
            **closed_environ(self.home, self.sink_url),
            "CODEX_API_KEY": "fake-key-of-a-test",
            "FAKE_KEY": "fake-key-of-a-test",
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
        return run_to_end(
            Outcome,
            [binary, *words],
            folder=self.project,
            environ=self.environ(),
            timeout_seconds=timeout_seconds,
        )
