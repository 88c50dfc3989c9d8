"""mem0's real library of the package registry, behind a small REST server of ours.

It stands in a virtual environment of its own, which `OPENMEM_TEST_MEM0` names (180 MB).
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fakes.installation import free_port
from tests.fakes.model_server import model

PLACE = Path(os.environ.get("OPENMEM_TEST_MEM0", "/nowhere"))
KEY = "real-mem0-key-0123456789"
needs_mem0 = pytest.mark.skipif(
    not (PLACE / "bin/python").exists(),
    reason="OPENMEM_TEST_MEM0 names no environment with it (2026-11-30); run when asked",
)
_SERVER = Path(__file__).with_name("mem0_over_library.py")
_START_SECONDS = 90.0


@contextmanager
def real_mem0() -> Iterator[str]:
    """A running server; yields its address."""
    folder = Path(tempfile.mkdtemp(prefix="mem0-", dir="/tmp"))
    port = free_port()
    with model() as address:
        environ = {"PATH": f"{PLACE}/bin:/usr/bin:/bin", "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
        log = open(folder / "server.log", "ab")  # noqa: SIM115  closed below, kept by the child
        process = subprocess.Popen(
            [str(PLACE / "bin/python"), "-P", str(_SERVER), str(port), str(folder), address, KEY],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not _is_well(port):
                said = (folder / "server.log").read_text(errors="replace")[-3000:]
                assert process.poll() is None and time.monotonic() < deadline, said
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def _is_well(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/auth/setup-status")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
