"""A HOME with Claude Code's files in it, and the command line run as a person runs it."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

USER_SETTINGS = json.dumps(
    {
        "permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(.env)"]},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]},
    },
    indent=4,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one command gave."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)["data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One HOME, and `openmem` run in it. `upstream`: what the shell names; nothing listens there
    unless a test makes something listen."""

    home: Path
    upstream: str
    port: int

    def __call__(self, *words: str, **environ: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "openmem", *words],
            capture_output=True,
            text=True,
            env=self.environ(**environ),
            cwd=self.home,
            timeout=90,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Done(status=done.returncode, out=done.stdout, err=done.stderr)

    def environ(self, **more: str) -> dict[str, str]:
        checkout = str(Path(__file__).resolve().parents[2])
        return {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": checkout,
            "ANTHROPIC_BASE_URL": self.upstream,
            "NO_PROXY": "127.0.0.1",
            **more,
        }

    def setup(self, *words: str) -> Done:
        return self("setup", "--yes", "--port", str(self.port), "--no-smoke-test", *words)

    def snapshot(self) -> dict[str, str]:
        """Return every path of HOME with mode and digest."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            what = "dir"
            if path.is_symlink():
                what = f"link {os.readlink(path)}"
            elif path.is_file():
                what = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(self.home))] = f"{path.lstat().st_mode:o} {what}"
        return found

    @property
    def settings(self) -> Path:
        return self.home / ".claude/settings.json"

    def env_of_settings(self) -> dict[str, str]:
        value = json.loads(self.settings.read_text()).get("env", {})
        assert isinstance(value, dict)
        return value


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def machine(home: Path) -> Iterator[Machine]:
    """A machine with Claude Code's settings; its proxy is ended afterwards."""
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(USER_SETTINGS)
    made = Machine(home=home, upstream=f"http://127.0.0.1:{free_port()}", port=free_port())
    yield made
    made("proxy", "stop", "--now")
