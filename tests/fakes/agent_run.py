"""One run of a real agent's program: nothing of the person's around it, and an end in any case."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ORIGINAL_ENVIRON = dict(os.environ)  # taken at import, before the fence drops OPENMEM_*


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What one headless run gave. `events`: the lines of its output that are JSON."""

    status: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]


Kind = TypeVar("Kind", bound=Ended)


@functools.cache
def temporary_folder() -> Path:
    """Return the folder in which agents leave what they hold for temporary, until the tests end.

    One for all: agents tell it to the model, so it must not change between two runs of a session;
    and it is short, because they put sockets there.
    """
    folder = tempfile.mkdtemp(prefix="agents-", dir=ORIGINAL_ENVIRON.get("TMPDIR", "/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def closed_environ(home: Path, sink_url: str) -> dict[str, str]:
    """Return an environment with its own HOME, in which every way out of loopback is the sink."""
    return {
        "HOME": str(home),
        "PATH": ORIGINAL_ENVIRON.get("PATH", "/usr/bin:/bin"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TZ": "UTC",
        "TMPDIR": str(temporary_folder()),
        "HTTPS_PROXY": sink_url,
        "HTTP_PROXY": sink_url,
        "NO_PROXY": "127.0.0.1,localhost",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
    }


def run_to_end(
    kind: type[Kind],
    command: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    timeout_seconds: float,
    stdin: str = "",
) -> Kind:
    """Return what a command gave; at the time limit its group is ended, and AssertionError."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environ),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = child.communicate(stdin or None, timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):  # it ended at this moment
            os.killpg(child.pid, 9)
        stdout, stderr = child.communicate()
        name = os.path.basename(command[0])
        raise AssertionError(
            f"{name} took over {timeout_seconds} s: {stdout[-2000:]} {stderr[-2000:]}"
        ) from None
    return kind(status=child.returncode, stdout=stdout, stderr=stderr)
