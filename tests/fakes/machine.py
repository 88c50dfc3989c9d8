"""One person's machine in small: HOME, a project, openmem's command line, and what it stored.

The end is part of it: openmem is stopped, and a process that still names this HOME is a failure,
and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmem.base.paths import Paths
from tests.fakes.claude import CHECKOUT, Sink
from tests.fakes.openmem import openmem_bin

POLICY = "version = 1\n[defaults.git]\nstore = true\nrecall = true\nretain = true\n"


@dataclass(slots=True, kw_only=True)
class Machine:
    """`environ`: of the person's shell, HOME and PATH in it."""

    home: Path
    project: Path
    sink: Sink
    environ: dict[str, str]
    port: int

    @property
    def paths(self) -> Paths:
        return Paths({"HOME": str(self.home)})

    @property
    def state(self) -> Path:
        return self.home / ".local/share/openmem"

    def openmem_raw(
        self, *words: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of openmem, as the person would."""
        installed = openmem_bin()
        program = [str(installed / "openmem")] if installed else [sys.executable, "-m", "openmem"]
        return subprocess.run(
            [*program, *words],
            cwd=folder or self.project,
            env={
                **self.environ,
                "PYTHONPATH": str(CHECKOUT),
                "OPENMEM_PROXY_PORT": str(self.port),
                "NO_COLOR": "1",
            },
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def openmem(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of openmem; it must succeed."""
        done = self.openmem_raw(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done

    def data(self, *words: str) -> Any:
        """Return the data of a command's `--json`."""
        return json.loads(self.openmem(*words, "--json").stdout)["data"]

    def install(self, *words: str) -> None:
        """Wire agents; what is stored is said first."""
        policy = self.home / ".config/openmem/policy.toml"
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text(POLICY)
        self.openmem("install-coding-agent", "--yes", *words)

    def rows(self, sid: str) -> list[dict[str, Any]]:
        """Return all rows of a session from the contract's own view."""
        return self._of(sid, "SELECT * FROM messages ORDER BY seq")

    def events(self, sid: str) -> list[dict[str, Any]]:
        return self._of(sid, "SELECT * FROM events ORDER BY id")

    def _of(self, sid: str, query: str) -> list[dict[str, Any]]:
        path = self.state / f"context/sessions/{sid}.v4.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]

    def found(self, *words: str) -> list[dict[str, Any]]:
        """Return the hits of `context search`."""
        hits: list[dict[str, Any]] = self.data("context", "search", *words)["hits"]
        return hits

    def processes(self) -> list[int]:
        """Return the processes whose HOME is this machine's."""
        mark = f"HOME={self.home}\0".encode()
        found = []
        for name in os.listdir("/proc"):
            if name.isdecimal():
                try:
                    environ = Path(f"/proc/{name}/environ").read_bytes() + b"\0"
                except OSError:
                    continue  # it ended meanwhile, or is not ours to read
                if mark in environ:
                    found.append(int(name))
        return found

    def wait_for_no_process(
        self, *, beside: Collection[int] = (), seconds: float = 10.0
    ) -> list[int]:
        """Return the processes that are left after a bounded wait, those `beside` left out."""
        deadline = time.monotonic() + seconds
        while True:
            left = [pid for pid in self.processes() if pid not in beside]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)


@contextlib.contextmanager
def taken_down(machine: Machine) -> Iterator[None]:
    """Stop openmem after the block, whatever happened in it; nothing of it may outlive that."""
    try:
        yield
    finally:
        if (machine.state / "run").exists():
            machine.openmem_raw("proxy", "stop", "--now")
        lines = []
        for pid in machine.wait_for_no_process():
            with contextlib.suppress(OSError):  # it ended between the two looks
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                os.kill(pid, signal.SIGKILL)
                lines.append(f"{pid} {line}")
    assert lines == [], f"processes outlived the machine: {lines}"
