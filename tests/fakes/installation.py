"""A copy of openmem in a folder of its own, with a small application in place of the proxy.

Processes of it run that copy and nothing else, are found by its folder in their arguments, and
must all be gone at the end: leaving the block fails when one is left.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openmem.base.io import is_private_folder
from openmem.base.paths import Paths
from openmem.host.record import Record, read_record

PROJECT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(is_so: Callable[[], Any], what: str, seconds: float = 20.0) -> Any:
    """Return the first true answer; AssertionError naming `what` when none comes in time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = is_so()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class Installation:
    """One copied openmem with its own state folder and port. `environ`: what its processes get."""

    def __init__(self, folder: Path, *, is_small: bool = True) -> None:
        self.root = folder / "app"
        self.root.mkdir(parents=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / "openmem", self.root / "openmem", ignore=ignored)
        for name in ("templates", "hooks"):
            shutil.copytree(PROJECT / name, self.root / name, ignore=ignored)
        if is_small:
            small = PROJECT / "tests/fakes/small_wiring.py"
            shutil.copy(small, self.root / "openmem/host/wiring.py")
        self.port = free_port()
        self.environ = {
            "HOME": str(folder),
            "PATH": os.environ.get("PATH", os.defpath),
            "OPENMEM_STATE_DIR": str(folder / "state"),
            "OPENMEM_CONFIG_DIR": str(folder / "config"),
            "OPENMEM_PROXY_PORT": str(self.port),
        }
        self.paths = Paths(self.environ)

    # --- processes

    def command(self, module: str, *words: str) -> list[str]:
        code = (
            f"import sys; sys.path.insert(0, {str(self.root)!r}); "
            f"from {module} import main; sys.exit(main(sys.argv[1:]))"
        )
        return [sys.executable, "-P", "-c", code, *words]

    def launch(self, *words: str, environ: Mapping[str, str] | None = None) -> int:
        """Run the supervisor's launcher with these words; returns its exit status."""
        done = subprocess.run(
            self.command("openmem.host.supervisor", *words),
            env={**self.environ, **(environ or {})},
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return done.returncode

    def python(self, code: str, **more: Any) -> subprocess.Popen[str]:
        """Start Python code that sees this copy; `paths`, `environ` and `config` are there."""
        head = (
            f"import os, sys; sys.path.insert(0, {str(self.root)!r})\n"
            "from openmem.base.config import load_config\n"
            "from openmem.base.paths import Paths\n"
            "environ = dict(os.environ); paths = Paths(environ)\n"
            "config = load_config(paths.config_file, environ)\n"
        )
        return subprocess.Popen(
            [sys.executable, "-P", "-c", head + code],
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
            **more,
        )

    def processes(self) -> dict[int, str]:
        """Return the processes that run this copy: id → arguments. Zombies do not count."""
        listed = subprocess.run(
            ["ps", "-eww", "-o", "pid=,stat=,args="], capture_output=True, text=True, check=True
        )
        found = {}
        for line in listed.stdout.splitlines():
            pid, stat, arguments = line.split(None, 2)
            if str(self.root) in arguments and not stat.startswith("Z"):
                found[int(pid)] = arguments
        return found

    def kill_all(self) -> None:
        """SIGKILL all at one moment: first everyone stands still, or they would heal each other."""
        pids = list(self.processes())
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        wait_for(lambda: not set(pids) & set(self.processes()), "all are dead")

    def end(self) -> None:
        """End everything and assert that nothing is left."""
        self.launch("--stop")
        try:
            wait_for(lambda: not self.processes(), "no process of the copy is left", 12)
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
        folder = os.path.dirname(self.paths.control_socket)
        assert folder == self.paths.run_dir or not is_private_folder(folder), f"{folder} is left"

    # --- what it says

    @property
    def record(self) -> Record:
        found = read_record(self.paths)
        assert found is not None, "no record"
        return found

    def worker(self) -> int:
        """Return the process id of the serving worker, once there is one."""
        return int(wait_for(lambda: self._record_field("worker_pid"), "a worker serves"))

    def _record_field(self, name: str) -> Any:
        found = read_record(self.paths)
        return getattr(found, name) if found else None

    @property
    def log(self) -> str:
        try:
            return Path(self.paths.logs_dir, "proxy.log").read_text()
        except FileNotFoundError:
            return ""

    # --- asking it

    def get(self, path: str, *, port: int = 0, timeout: float = 30.0) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def who(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.get("/who"))
        return value

    @contextmanager
    def stream(self, n: int, ms: int) -> Iterator[http.client.HTTPResponse]:
        """A response of n lines, ms apart, whose head has arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"/stream?n={n}&ms={ms}")
            yield connection.getresponse()
        finally:
            connection.close()

    def set_version(self, version: str) -> None:
        """Put another version on disk, as an upgrade in place does."""
        (self.root / "openmem/__init__.py").write_text(f'__version__ = "{version}"\n')


@contextmanager
def installation(folder: Path, *, is_small: bool = True) -> Iterator[Installation]:
    """An installation that leaves nothing behind."""
    copy = Installation(folder, is_small=is_small)
    try:
        yield copy
    finally:
        copy.end()


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be collected does not."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")
