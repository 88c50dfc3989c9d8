"""A machine with a policy, two repositories and a folder that is denied."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.memory.facade import Memories
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.scope import Scope, scope_of

PERSON, AGENT = Actor(kind="person", name="ada"), Actor(kind="agent", name="claude-code")
POLICY = (
    "version = 1\n[defaults.git]\nstore = true\nrecall = true\nretain = true\n"
    "[defaults.other]\nstore = false\nrecall = false\nretain = false\n"
)


@dataclass(frozen=True)
class Place:
    """Where tests stand: `site` and `other` are repositories, `denied` is no repository."""

    paths: Paths
    site: Path
    other: Path
    denied: Path

    def person(self, folder: Path | None = None) -> Scope:
        return scope_of(str(folder or self.site), self.paths, PERSON)

    def agent(self, folder: Path | None = None, session_id: str = "") -> Scope:
        return scope_of(str(folder or self.site), self.paths, AGENT, session_id=session_id)

    def bytes_with(self, word: bytes) -> list[str]:
        """Return the files below the state folder that hold a word."""
        root = Path(self.paths.state_dir)
        return [str(p) for p in root.rglob("*") if p.is_file() and word in p.read_bytes()]


def repository(folder: Path, remote: str) -> Path:
    """Return a git repository with a remote."""
    folder.mkdir(parents=True)
    for words in (["init", "-q"], ["remote", "add", "origin", remote]):
        subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return folder


@pytest.fixture
def place(home: Path) -> Place:
    paths = Paths(os.environ)
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(POLICY)
    denied = home / "denied"
    denied.mkdir()
    return Place(
        paths=paths,
        site=repository(home / "site", "git@github.com:acme/site.git"),
        other=repository(home / "other", "git@github.com:acme/other.git"),
        denied=denied,
    )


@pytest.fixture
def memories(place: Place) -> Iterator[Memories]:
    opened = open_memories(place.paths)
    yield opened
    opened.close()
