"""A machine in small with the real Codex: HOME, project, fake Responses service, openmem.

The order of a person: Codex is there and works against its own service; openmem is installed by
its own command line; then sessions. The end is part of it: openmem is stopped, and a process that
still names this HOME is a failure, and ended.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.claude import CHECKOUT, Sink, make_project
from tests.fakes.codex import QUIET, Codex, Outcome, codex_binary
from tests.fakes.responses_server import FakeResponses
from tests.fakes.scene import free_port

CUSTOM = """model = "gpt-5.1-codex"
model_provider = "gate"
"""
GATE = """
[model_providers.gate]
name = "Gate"   # mine
base_url = "{url}/r/x/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
"""
BUILT_IN = 'openai_base_url = "{url}/v1"\n'
POLICY = "version = 1\n[defaults.git]\nstore = true\nrecall = true\nretain = true\n"


@dataclass(slots=True, kw_only=True)
class CodexScene:
    """What a test acts with. `service` is the model."""

    home: Path
    project: Path
    service: FakeResponses
    sink: Sink
    codex: Codex
    port: int

    def openmem(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of openmem, as the person would; it must succeed."""
        done = subprocess.run(
            [sys.executable, "-m", "openmem", *words],
            cwd=self.project,
            env={
                **self.codex.environ(),
                "PATH": f"{Path(codex_binary() or '').parent}:/usr/bin:/bin",
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
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done

    def install(self, *words: str) -> None:
        """Wire Codex; what is stored is said first."""
        policy = self.home / ".config/openmem/policy.toml"
        policy.parent.mkdir(parents=True, exist_ok=True)
        policy.write_text(POLICY)
        self.openmem("install-coding-agent", "--agent", "codex", "--yes", *words)

    def run(self, prompt: str, *options: str, resume: str = "") -> Outcome:
        """Run `codex exec`; it must end well."""
        done = self.codex.run(prompt, *options, resume=resume)
        assert done.status == 0, done
        return done

    @property
    def state(self) -> Path:
        return self.home / ".local/share/openmem"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What reached the model, oldest first."""
        found = [r for r in self.service.records if r.endpoint == "responses" and r.request.body]
        return [record.json for record in found]

    def rows(self, sid: str) -> list[dict[str, Any]]:
        """Return all rows of a session from the contract's own view."""
        path = self.state / f"context/sessions/{sid}.v4.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM messages ORDER BY seq")]

    def events(self, sid: str) -> list[dict[str, Any]]:
        path = self.state / f"context/sessions/{sid}.v4.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM events ORDER BY id")]

    def found(self, *words: str) -> list[dict[str, Any]]:
        """Return the hits of `context search --json`."""
        data = json.loads(self.openmem("context", "search", *words, "--json").stdout)["data"]
        hits: list[dict[str, Any]] = data["hits"]
        return hits

    def processes(self) -> list[int]:
        """Return the processes whose HOME is this scene's."""
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


@contextlib.contextmanager
def a_codex_scene(folder: Path, config: str) -> Iterator[CodexScene]:
    """Lay a scene below `folder`; take it down whatever happened. `config`: with `{url}` in it."""
    home = folder / "person"
    (home / ".codex").mkdir(parents=True)
    with FakeResponses() as service, Sink() as sink:
        text = config.replace("{url}", service.url)
        head, bracket, tables = text.partition("\n[")
        (home / ".codex/config.toml").write_text(f"{head}\n{QUIET}{bracket}{tables}")
        project = make_project(folder / "project")
        scene = CodexScene(
            home=home,
            project=project,
            service=service,
            sink=sink,
            codex=Codex(home=home, project=project, sink_url=sink.url),
            port=free_port(),
        )
        try:
            yield scene
        finally:
            left = _take_down(scene)
        assert left == [], f"processes outlived the scene: {left}"


def _take_down(scene: CodexScene) -> list[str]:
    """Stop the proxy and end what is left; return the command lines of what had to be ended."""
    if (scene.state / "run").exists():
        scene.openmem("proxy", "stop", "--now")
    deadline = time.monotonic() + 10
    while (left := scene.processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = []
    for pid in left:
        with contextlib.suppress(OSError):  # it ended between the two looks
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            os.kill(pid, signal.SIGKILL)
            lines.append(f"{pid} {line}")
    return lines
