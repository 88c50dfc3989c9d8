"""The child's side: bind its own hands, read one job, answer in JSON lines, end.

Runs in an interpreter without site-packages and imports only the standard library and the base.
The limits come first, before anything that a model wrote is looked at.
"""

from __future__ import annotations

import json
import resource
import signal
import sys

from openmem.context.sandbox.spoken import say

MEMORY_BYTES = 512 << 20
FILE_BYTES = 1 << 20  # zero would break reading a WAL database: its -shm file is written


def main() -> None:
    """Do the job on standard input. Whatever goes wrong in it is one line of the answer."""
    job = json.loads(sys.stdin.buffer.read())
    set_limits(float(job["deadline"]))
    try:
        if job["kind"] == "sql":
            from openmem.context.sandbox.query_job import run_query

            run_query(job)
        else:
            from openmem.context.sandbox.lines_job import run_lines

            run_lines(job)
    except Exception as error:  # noqa: BLE001  a fault of ours: said by its kind, without content
        say({"error": "fault", "message": type(error).__name__})


def set_limits(deadline_seconds: float) -> None:
    """Limit memory, processor time, file size, open files and processes of this process.

    The timer is for a parent that died: nobody else is left then to end this process.
    """
    processor_seconds = int(deadline_seconds) + 2
    for name, amount in (
        ("RLIMIT_AS", MEMORY_BYTES),
        ("RLIMIT_CPU", processor_seconds),
        ("RLIMIT_FSIZE", FILE_BYTES),
        ("RLIMIT_NOFILE", 32),
        ("RLIMIT_NPROC", 0),
        ("RLIMIT_CORE", 0),
    ):
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        try:
            resource.setrlimit(kind, (amount, amount))
        except (OSError, ValueError):
            pass  # macOS refuses some of these; the heap limit and the parent's kill remain
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, deadline_seconds + 1.0)
