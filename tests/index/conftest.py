"""A machine with a policy, a repository, and room for agents' files."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.transcripts.registry import READERS
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.formats.messages import split_request
from openmem.context.store.model import Incoming
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify
from openmem.context.transcript import Reader
from openmem.index.sessions.importing import Means, import_sources
from openmem.index.sessions.report import Report
from tests.fakes.agent_files import ClaudeFile, claude_path, lines, write

SID = "11111111-2222-4333-8444-555555555555"
OTHER = "66666666-2222-4333-8444-555555555555"
POLICY = "version = 1\n[defaults.git]\nstore = true\nrecall = true\nretain = true\n"


@dataclass(slots=True)
class Machine:
    """One HOME with a repository in it."""

    home: Path
    repo: Path
    paths: Paths
    key: bytes

    def policy(self, text: str) -> None:
        write(Path(self.paths.policy_file), text.encode())

    def bring_in(
        self,
        *,
        is_dry: bool = False,
        beside: bool = False,
        since: float = 0.0,
        agents: tuple[str, ...] = (),
        readers: dict[str, Reader] | None = None,
        progress: Callable[[int, int, str], None] = lambda done, total, title: None,
    ) -> Report:
        """Import what the agents' folders hold."""
        used = dict(readers or READERS)
        sources = [
            source
            for name, reader in used.items()
            if not agents or name in agents
            for source in reader.sources({}, str(self.home))
        ]
        means = Means(
            paths=self.paths, key=self.key, readers=used, is_dry=is_dry, since=since,
            stores_beside=beside, progress=progress,
        )  # fmt: skip
        return import_sources(means, sources, Report())

    def rows(self, sid: str) -> list[dict[str, Any]]:
        path = f"{self.paths.sessions_dir}/{sid}.v4.db"
        if not os.path.exists(path):
            return []
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM messages ORDER BY seq")]

    def texts(self, sid: str) -> list[str]:
        """Return the texts of rows that hold one of their own, in order."""
        return [row["text"] for row in self.rows(sid) if row["source"] is None]

    def select(self, sid: str, statement: str) -> list[tuple[Any, ...]]:
        path = f"{self.paths.sessions_dir}/{sid}.v4.db"
        with closing(sqlite3.connect(path)) as connection:
            return list(connection.execute(statement))

    def check(self, *sids: str) -> None:
        """Assert that stored sessions are whole."""
        for sid in sids:
            assert verify(self.paths, sid) == []

    def claude(self, sid: str, *values: dict[str, Any]) -> Path:
        return write(claude_path(self.home, sid), lines(*values))

    def file(self, sid: str, *, agent_id: str = "") -> ClaudeFile:
        return ClaudeFile(sid, str(self.repo), agent_id=agent_id)


@pytest.fixture
def machine(home: Path, tmp_path: Path) -> Machine:
    repo = tmp_path / "repo"
    write(repo / ".git/HEAD", b"ref: refs/heads/main\n")
    paths = Paths({"HOME": str(home)})
    made = Machine(home, repo, paths, ensure_key(paths))
    made.policy(POLICY)
    return made


def record(machine: Machine, sid: str, *messages: dict[str, Any], agent_id: str = "") -> None:
    """Let the proxy's recorder see a request with these messages."""
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": messages}).encode()
    recorder = Recorder(machine.paths, machine.key)
    kind = "sub-agent" if agent_id else "main"
    recorder.record_request(
        sid,
        Incoming(agent="claude-code", view=split_request(body), kind=kind, agent_id=agent_id),
    )  # type: ignore[arg-type]
    recorder.close()


def messages_of(talk: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a transcript's lines as the messages of a request; reminders and markers put in."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(talk):
        message = {"role": line["message"]["role"], "content": line["message"]["content"]}
        if number == 0:
            text = message["content"]
            message["content"] = [
                {"type": "text", "text": "<system-reminder>\ndate\n</system-reminder>"},
                {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}},
            ]
        if found and found[-1]["role"] == message["role"] == "assistant":
            found[-1]["content"] = [*found[-1]["content"], *message["content"]]
        else:
            found.append(message)
    return found
