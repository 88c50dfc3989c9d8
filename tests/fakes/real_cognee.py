"""The real Cognee server of the package registry, offline, with a model of our own.

It stands in a virtual environment of its own, which `OPENMEM_TEST_COGNEE` names (1.3 GB).
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

from openmem.memory.providers.server import OWN_USER
from tests.fakes.embeddings import DIMENSIONS
from tests.fakes.installation import free_port
from tests.fakes.model_server import model

PLACE = Path(os.environ.get("OPENMEM_TEST_COGNEE", "/nowhere"))
PASSWORD = "real-password-0123456789"
needs_cognee = pytest.mark.skipif(
    not (PLACE / "bin/python").exists(),
    reason="OPENMEM_TEST_COGNEE names no environment with it (2026-11-30); run when asked",
)
_START_SECONDS = 240.0


@contextmanager
def real_cognee() -> Iterator[str]:
    """A running server with accounts on; yields its address."""
    folder = Path(tempfile.mkdtemp(prefix="cognee-", dir="/tmp"))
    port = free_port()
    with model() as address:
        log = open(folder / "server.log", "ab")  # noqa: SIM115  closed below, kept by the child
        process = subprocess.Popen(
            [str(PLACE / "bin/python"), "-m", "cognee.api.client"],
            env=_environ(folder, address, port),
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
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its workers
            shutil.rmtree(folder, ignore_errors=True)


def _environ(folder: Path, address: str, port: int) -> dict[str, str]:
    (tokens,) = PLACE.glob("lib/python3*/site-packages/litellm/litellm_core_utils/tokenizers")
    return {
        "PATH": f"{PLACE}/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "SYSTEM_ROOT_DIRECTORY": str(folder / "system"),
        "DATA_ROOT_DIRECTORY": str(folder / "data"),
        "CACHE_ROOT_DIRECTORY": str(folder / "cache"),
        "COGNEE_LOGS_DIR": str(folder / "logs"),
        "LLM_PROVIDER": "openai",
        "LLM_MODEL": "openai/gpt-4o-mini",
        "LLM_ENDPOINT": address,
        "LLM_API_KEY": "x",
        "EMBEDDING_PROVIDER": "openai_compatible",
        "EMBEDDING_MODEL": "text-embedding-3-small",
        "EMBEDDING_ENDPOINT": address,
        "EMBEDDING_API_KEY": "x",
        "EMBEDDING_DIMENSIONS": str(DIMENSIONS),
        "TELEMETRY_DISABLED": "1",
        "DEFAULT_USER_EMAIL": OWN_USER,
        "DEFAULT_USER_PASSWORD": PASSWORD,
        "FASTAPI_USERS_JWT_SECRET": "real-secret-0123456789abcdef-0123456789",
        "ALLOW_HTTP_REQUESTS": "false",
        "HTTP_API_HOST": "127.0.0.1",
        "HTTP_API_PORT": str(port),
        "COGNEE_SKIP_CONNECTION_TEST": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "TIKTOKEN_CACHE_DIR": str(tokens),
        "HF_HUB_OFFLINE": "1",
        "ENV": "local",
    }


def _is_well(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
