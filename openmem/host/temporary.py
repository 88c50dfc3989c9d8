"""A proxy for one moment: a worker without supervisor, on any free port.

Idea: setup's smoke test sends one request through a proxy that nobody else talks to, in front of
an upstream that setup chose. Invariant: it takes neither lock nor control socket, so the running
proxy does not notice; it ends with the block, and with its owner however that one ends.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from openmem.base.errors import Failed
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.host.crew import Worker, start_worker
from openmem.host.hold import bind, port_of
from openmem.host.launch import clean_environment
from openmem.host.record import HOST

START_SECONDS = 20.0
END_SECONDS = 8.0
FINISH_SECONDS = 5


@contextmanager
def temporary_proxy(paths: Paths, environ: Mapping[str, str], upstream: str) -> Iterator[str]:
    """Yield the address of a recording proxy whose bare path goes to `upstream`.

    Failed when it does not come up. What it records stands in the store like anything else.
    """
    ensure_private_dir(paths.logs_dir)
    listen_fd = bind(0)
    try:
        worker = start_worker(
            clean_environment(environ),
            {"manager": "temporary", "upstream": upstream},
            listen_fd=listen_fd,
            is_plain=False,
            keeps_stderr=False,
        )
        address = f"http://{HOST}:{port_of(listen_fd)}"
    finally:
        os.close(listen_fd)
    try:
        if not _hears(worker, "ready", START_SECONDS):
            raise Failed("a temporary proxy did not start.", hint=f"Its log: {paths.logs_dir}")
        yield address
    finally:
        worker.channel.send(f"finish {FINISH_SECONDS}")
        if not _hears(worker, "", END_SECONDS):
            worker.kill()
        worker.channel.close()
        os.waitpid(worker.pid, 0)


def _hears(worker: Worker, word: str, seconds: float) -> bool:
    """Return whether the worker says `word` in time; "" waits for its end."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([worker.channel.descriptor], [], [], left)[0]:
            return False
        lines = worker.channel.receive()
        if lines is None:
            return not word
        if word and any(line.split(" ")[0] == word for line in lines):
            return True
    return False
