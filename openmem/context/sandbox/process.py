"""Starts the child, hands it a job, and ends it at the deadline.

The child is a fresh interpreter without site-packages, environment, or files of ours: about
25 ms, which a warm process would save at the price of one more thing that can hang.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.context.store.readonly import file_uri, is_in_use

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
# Appended, not put first: the folder may be site-packages, which must not shadow the standard
# library. Imported, not run as a file, so that the compiled form on disk is used.
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from openmem.context.sandbox.child import main; main()"
)
_live: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a child said: its JSON lines, decoded, and whether it had to be killed."""

    messages: tuple[dict[str, object], ...]
    was_killed: bool


def run_child(job: Mapping[str, object], deadline_seconds: float) -> Answer:
    """Run one job and return what the child wrote until it ended or the deadline passed.

    Failed when no interpreter can be started. A line that was cut off by the kill is dropped.
    """
    if not sys.executable:
        raise Failed("this Python does not say where its interpreter is; no child can be started.")
    command = [sys.executable, "-I", "-S", "-c", _START, _ROOT]
    data = json.dumps(job).encode("ascii")
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            close_fds=True,
        )
    except OSError as error:
        raise Failed(f"no child process could be started: {error.strerror}.") from None
    _live.add(child)
    was_killed = False
    try:
        try:
            output, _ = child.communicate(data, timeout=deadline_seconds)
        except subprocess.TimeoutExpired:
            was_killed = True
            child.kill()
            output, _ = child.communicate()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        _live.discard(child)
    return Answer(messages=tuple(_decoded(output)), was_killed=was_killed)


def end_children() -> None:
    """Kill every child that still runs; for a server that is told to stop."""
    for child in list(_live):
        child.kill()


def source_uri(path: str) -> str:
    """Return the SQLite URI by which a child reads a file and leaves nothing beside it."""
    # Without `mode=ro` an absent file would be made by looking for it.
    return f"{file_uri(path, immutable=not is_in_use(path))}&mode=ro"


def _decoded(output: bytes) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = []
    for line in output.split(b"\n"):
        if not line:
            continue
        try:
            message = json.loads(line)
        except ValueError:
            continue  # the last line of a child that was killed while writing
        if isinstance(message, dict):
            messages.append(message)
    return messages
