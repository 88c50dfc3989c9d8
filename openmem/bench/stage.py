"""Where a bench runs: a HOME and a project of its own, and processes that end with it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from openmem.base.errors import Failed

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
_START_SECONDS = 30.0


class Stage:
    """A temporary HOME, a git project, and the children started on it. Use as a context manager."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="openmem-bench-")
        self.home = os.path.join(self.folder, "home")
        self.project = os.path.join(self.folder, "project")
        self.temporary = os.path.join(self.folder, "tmp")  # agents leave folders in theirs
        for path in (self.home, self.project, self.temporary):
            os.mkdir(path)
        self._children: list[subprocess.Popen[str]] = []
        subprocess.run(["git", "init", "-q", self.project], check=True, env=self.environ())

    def environ(self, **more: str) -> dict[str, str]:
        """Return an environment with this HOME and no settings of the person's."""
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        own = {"HOME": self.home, "TMPDIR": self.temporary, "GIT_CONFIG_NOSYSTEM": "1"}
        return {**kept, **own, **more}

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for child in reversed(self._children):
            _end(child)
        shutil.rmtree(self.folder, ignore_errors=True)

    def openmem(self, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """Run an openmem command to its end and return its output. Failed when it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "openmem", *words],
            env=dict(environ or self.environ()),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise Failed(f"openmem {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def child(self, *command: str, environ: Mapping[str, str] | None = None) -> int:
        """Start a process that prints its port, and return the port."""
        process = subprocess.Popen(
            command,
            env=dict(environ or self.environ()),
            cwd=self.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._children.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.strip().isdecimal():
            raise Failed(f"{' '.join(command)} did not start.")
        return int(line)

    def upstream(self) -> int:
        """Start the bench's upstream and return its port."""
        return self.child(sys.executable, "-m", "openmem.bench.upstream")

    def passthrough(self, upstream_port: int) -> int:
        """Start the bare pass-through and return its port."""
        return self.child(sys.executable, "-m", "openmem.bench.passthrough", str(upstream_port))

    def proxy(self, upstream_port: int) -> int:
        """Start openmem's own proxy in the foreground before an upstream; return its port."""
        port = free_port()
        words = ["proxy", "run", "--port", str(port)]
        words += ["--upstream", f"http://127.0.0.1:{upstream_port}"]
        log_path = os.path.join(self.folder, "proxy.log")
        with open(log_path, "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "openmem", *words],
                env=self.environ(),
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._children.append(process)
        wait_for_port(port, process, log_path)
        return port

    @property
    def last_pid(self) -> int:
        """The process id of the child that was started last."""
        return self._children[-1].pid

    def end_last(self) -> None:
        """End the child that was started last."""
        _end(self._children.pop())

    def allow_everything(self) -> None:
        """Write a policy that stores every session, so that the proxy has work to do."""
        lines = ["version = 1"]
        for kind in ("git", "other", "unregistered"):
            lines += [f"[defaults.{kind}]", "store = true", "recall = true", "retain = true"]
        self._write("policy.toml", "\n".join(lines) + "\n")

    def settings(self, text: str) -> None:
        """Write the settings file."""
        self._write("config.toml", text)

    def _write(self, name: str, text: str) -> None:
        folder = os.path.join(self.home, ".config/openmem")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let a SIGTERM end the block as Ctrl-C does: with its children, and without its folders."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(child: subprocess.Popen[str]) -> None:
    """End a child, and with it what it started in its own session."""
    if child.stdin is not None:
        child.stdin.close()
    elif child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[str], log_path: str) -> None:
    """Return when something listens. Failed when the process ends or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    with open(log_path, encoding="utf-8", errors="replace") as log:
        raise Failed(f"the proxy did not start: {log.read()[-2000:]}")
