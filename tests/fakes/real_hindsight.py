"""The real Hindsight server of the package registry, with its own database and its mock model.

It stands in a virtual environment of its own, which `OPENMEM_TEST_HINDSIGHT` names: it has more
than a gigabyte. Its database refuses to be run by root, so it is run as `nobody` then.
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

from tests.fakes.embeddings import embeddings
from tests.fakes.installation import free_port

PLACE = Path(os.environ.get("OPENMEM_TEST_HINDSIGHT", "/nowhere"))
KEY = "real-key-0123456789"
needs_hindsight = pytest.mark.skipif(
    not (PLACE / "bin/hindsight-api").exists() and "CI" not in os.environ,
    reason="OPENMEM_TEST_HINDSIGHT names no environment with it (2026-11-30); bash .ci/run does",
)
_START_SECONDS = 150.0


class RealHindsight:
    """One server that can be killed and started again on the same database."""

    def __init__(self, folder: Path, vectors: str) -> None:
        self._folder = folder
        self._vectors = vectors
        self._database = free_port()
        self._name = f"t{os.getpid()}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start_database(self) -> None:
        self._pg0("start", "--name", self._name, "-p", str(self._database), *_ACCOUNT)

    def stop_database(self) -> None:
        self._pg0("stop", "--name", self._name)

    def start(self) -> None:
        """Start the server and wait until it is well."""
        user = "hindsight"
        environ = {
            "PATH": f"{PLACE}/bin:/usr/bin:/bin",
            "HOME": str(self._folder),
            "HINDSIGHT_API_HOST": "127.0.0.1",
            "HINDSIGHT_API_PORT": str(self.port),
            "HINDSIGHT_API_WORKER_ID": "openmem",
            "HINDSIGHT_API_DATABASE_URL": (
                f"postgresql://{user}:{user}@127.0.0.1:{self._database}/{user}"
            ),
            "HINDSIGHT_API_LLM_PROVIDER": "mock",
            "HINDSIGHT_API_RERANKER_PROVIDER": "rrf",
            "HINDSIGHT_API_EMBEDDINGS_PROVIDER": "openai",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY": "x",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_MODEL": "fake",
            "HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL": self._vectors,
            "HINDSIGHT_API_TENANT_EXTENSION": (
                "hindsight_api.extensions.builtin.tenant:ApiKeyTenantExtension"
            ),
            "HINDSIGHT_API_TENANT_API_KEY": KEY,
            "HF_HUB_OFFLINE": "1",
        }
        log = open(self._folder / "server.log", "ab")  # noqa: SIM115  closed below, kept by the child
        self._process = subprocess.Popen(
            [str(PLACE / "bin/hindsight-api")],
            env=environ,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_well():
            ended = self._process.poll() is not None
            assert not ended and time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(0.3)

    def end(self, number: signal.Signals) -> None:
        """End the server with all that it started."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    def log(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")

    def _is_well(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def _pg0(self, *words: str) -> None:
        (program,) = (PLACE / "lib").glob("python3*/site-packages/pg0/bin/pg0")
        home = self._folder / "database"
        home.mkdir(exist_ok=True)
        argv = [str(program), *words]
        if os.getuid() == 0:
            os.chown(home, 65534, 65534)
            argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)}
        done = subprocess.run(
            argv, env=environ, cwd=home, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr


_ACCOUNT = ("-u", "hindsight", "-P", "hindsight", "-n", "hindsight")


@contextmanager
def real_hindsight() -> Iterator[RealHindsight]:
    """A running server; database and processes are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hindsight-", dir="/tmp"))
    folder.chmod(0o755)  # another user's database lies below it
    with embeddings() as vectors:
        server = RealHindsight(folder, vectors)
        try:
            server.start_database()
            try:
                server.start()
                yield server
            finally:
                server.end(signal.SIGTERM)
                server.stop_database()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
