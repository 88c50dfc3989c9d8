"""A whole machine in small: HOME, project, fake model server, the real Claude Code, openmem.

The order of a person: Claude Code is there and works against its own upstream; `set_up` runs the
installed `openmem setup --yes`; then sessions. The end of the scene is part of it: openmem is
stopped, and a process that still names this HOME is a failure, and ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Outcome, Sink, claude_binary, make_project
from tests.fakes.openmem import Openmem, openmem_bin
from tests.fakes.records import Record
from tests.fakes.tap import Tap
from tests.fakes.wire import Request

RUN = "scene"


@dataclass(slots=True, kw_only=True)
class Scene:
    """What a test acts with. `server` is the model; `claude` has no address but its settings'."""

    home: Path
    project: Path
    server: FakeAnthropic
    sink: Sink
    claude: Claude
    openmem: Openmem
    port: int

    @property
    def state(self) -> Path:
        return self.home / ".local/share/openmem"

    @property
    def settings(self) -> Path:
        return self.home / ".claude/settings.json"

    def set_up(self, *words: str) -> None:
        """Run `openmem setup --yes`, as a person would."""
        self.openmem.ok("setup", "--yes", "--port", str(self.port), *words, timeout_seconds=120)

    def proxy(self) -> dict[str, Any]:
        """Return what `proxy status --json` says."""
        data = self.openmem.ok("proxy", "status", "--json").data
        assert isinstance(data, dict)
        return data

    def say(self, prompt: str, *options: str, model: str = "claude-opus-5-5") -> Outcome:
        """Run `claude -p` in the project; it must end well."""
        outcome = self.claude.run(prompt, *options, model=model)
        assert outcome.status == 0, outcome
        return outcome

    def store(self, session_id: str) -> Path:
        """Return the path of a session's store."""
        return self.state / f"context/sessions/{session_id}.v4.db"

    def rows(self, session_id: str) -> list[dict[str, Any]]:
        """Return all rows of a session from the contract's own view."""
        with contextlib.closing(sqlite3.connect(self.store(session_id))) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute("SELECT * FROM messages ORDER BY seq")]

    @contextlib.contextmanager
    def tapped(self) -> Iterator[Tap]:
        """Put a tap between Claude Code and our proxy while the block runs."""
        before = self.settings.read_text()
        ours = f":{self.port}/a/claude-code"
        assert ours in before
        with Tap(self.port) as tap:
            self.settings.write_text(before.replace(ours, f":{tap.port}/a/claude-code"))
            try:
                yield tap
            finally:
                self.settings.write_text(before)

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

    def wait_for_no_process(self, *, seconds: float = 10.0) -> list[int]:
        """Return the processes that are left after a bounded wait."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left


def shape_of(request: Request) -> tuple[str, bytes, list[tuple[str, str]]]:
    """Return what must not change on its way: path, body, headers but those of the hop."""
    own = {"host", "connection"}
    headers = [(name.lower(), value) for name, value in request.headers if name.lower() not in own]
    return request.target.partition("/v1/")[2], request.body, sorted(headers)


def assert_unchanged(sent: list[Request], got: list[Record]) -> None:
    """Assert that what the model server got is what the client sent, byte for byte."""
    assert got
    assert sorted(map(shape_of, sent)) == sorted(shape_of(record.request) for record in got)


def environ_of(home: Path, sink: Sink) -> dict[str, str]:
    """Return what an openmem command inherits: the agent on PATH, nothing of this machine's."""
    binary, commands = claude_binary(), openmem_bin()
    assert binary is not None and commands is not None
    return {
        "HOME": str(home),
        "PATH": f"{commands}:{Path(binary).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "NO_COLOR": "1",
        "HTTPS_PROXY": sink.url,
        "HTTP_PROXY": sink.url,
        "NO_PROXY": "127.0.0.1,localhost",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def a_scene(folder: Path, server: FakeAnthropic) -> Iterator[Scene]:
    """Lay a scene below `folder`; take it down whatever happened in it."""
    home = folder / "person"
    (home / ".claude").mkdir(parents=True)
    settings = {"env": {"ANTHROPIC_BASE_URL": server.url_of(RUN)}}
    (home / ".claude/settings.json").write_text(json.dumps(settings, indent=2) + "\n")
    with Sink() as sink:
        project = make_project(folder / "project")
        environ = environ_of(home, sink)
        scene = Scene(
            home=home,
            project=project,
            server=server,
            sink=sink,
            claude=Claude(home=home, project=project, sink_url=sink.url, path=environ["PATH"]),
            openmem=Openmem(home=home, folder=project, environ=environ),
            port=free_port(),
        )
        try:
            yield scene
        finally:
            left = _take_down(scene)
        assert left == [], f"processes outlived the scene: {left}"


def _take_down(scene: Scene) -> list[str]:
    """Stop the proxy and end what is left; return the command lines of what had to be ended."""
    if (scene.state / "run").exists():
        scene.openmem("proxy", "stop", "--now")
    left = scene.wait_for_no_process(seconds=60.0)  # a kept turn's child gives way to all others
    lines = []
    for pid in left:
        with contextlib.suppress(OSError):  # it ended between the two looks
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            os.kill(pid, signal.SIGKILL)
            lines.append(f"{pid} {line}")
    return lines


def files_of(folder: Path) -> dict[str, bytes]:
    """Return every file and link below a folder with its bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path).encode()
        elif path.is_file():
            found[name] = path.read_bytes()
        elif path.is_dir():
            found[name + "/"] = b""
    return found
