"""One request through a proxy of its own, found by search, and removed: does the whole chain work?

Idea: a second, temporary proxy with a state folder of its own beside the real one (same disk, same
permissions, same interpreter) in front of a loopback upstream of ours. Invariant: no request leaves
the machine and nothing reaches the real store; whatever happens, process and folder are gone
afterwards. Trap: the upstream is ours by construction, never one that a request could choose.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openmem.base.errors import OpenmemError
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from openmem.host.launch import clean_environment, command_of
from openmem.host.record import read_record
from openmem.setup.own_files import policy_text

_START_SECONDS = 20.0
_SEEN_SECONDS = 5.0
_ENDED_SECONDS = 5.0
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class SmokeFailed(OpenmemError):
    """The chain does not work here; the message names the link that broke."""

    code = "smoke-test-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """What the test saw. `seconds`: for all of it."""

    seconds: float


def smoke_test(paths: Paths) -> Smoke:
    """Record one request, find it by search, remove it. SmokeFailed names the broken link."""
    began = time.monotonic()
    ensure_private_dir(paths.state_dir)
    folder = tempfile.mkdtemp(prefix=".smoke-", dir=paths.state_dir)
    try:
        own = Paths({**paths.environ, "OPENMEM_STATE_DIR": folder, "OPENMEM_CONFIG_DIR": folder})
        _write_policy(own)
        word = "smoke" + secrets.token_hex(8)
        with _upstream() as upstream, _proxy(own, upstream) as port:
            _request(port, word)
            _find(own, word)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Smoke(seconds=time.monotonic() - began)


def _write_policy(own: Paths) -> None:
    text = policy_text(store_git=True, store_other=True).decode()
    with open(own.policy_file, "w", encoding="utf-8") as file:
        file.write(text.replace("[defaults.unregistered]\nstore = false", _STORED))


_STORED = "[defaults.unregistered]\nstore = true"


class _Answer(BaseHTTPRequestHandler):
    """A model that always says the same."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        message = {
            "id": "msg_smoke",
            "type": "message",
            "role": "assistant",
            "model": "smoke",
            "content": [{"type": "text", "text": "recorded"}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        body = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def _upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _proxy(own: Paths, upstream: str) -> Iterator[int]:
    """Run the temporary proxy; yields its port once it serves."""
    environ = clean_environment(own.environ)
    for name in _PROXY_VARIABLES:
        environ.pop(name, None)
        environ.pop(name.lower(), None)
    environ.pop("OPENMEM_PROXY_PORT", None)
    command = command_of("openmem.__main__", "proxy", "run", "--port", "0", "--upstream", upstream)
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield _serving_port(own, process)
    finally:
        _end(process)


def _serving_port(own: Paths, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        record = read_record(own)
        if record is not None and record.worker_pid:
            return record.port
        if process.poll() is not None:
            raise SmokeFailed(f"the temporary proxy ended at once ({process.returncode}).")
        time.sleep(0.02)
    raise SmokeFailed(f"the temporary proxy did not serve within {_START_SECONDS:.0f} s.")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_ENDED_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a group of its own, so worker and supervisor
        process.wait()


def _request(port: int, word: str) -> None:
    body = {
        "model": "smoke",
        "max_tokens": 16,
        "messages": [{"role": "user", "content": f"openmem asks itself: {word}"}],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
    try:
        connection.request(
            "POST",
            "/v1/messages",
            json.dumps(body),
            {"content-type": "application/json", "x-claude-code-session-id": word},
        )
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise SmokeFailed(f"the temporary proxy did not answer ({type(error).__name__}).") from None
    finally:
        connection.close()
    if response.status != 200 or b"recorded" not in text:
        raise SmokeFailed(f"the answer did not come back through the proxy ({response.status}).")


def _find(own: Paths, word: str) -> None:
    """Wait until the request is found; it is stored before its answer's last byte goes out."""
    deadline = time.monotonic() + _SEEN_SECONDS
    while True:
        page = search(own, Query(text=word, roles=("user",)), Scope(all_workspaces=True))
        if page.total_matches:
            return
        if time.monotonic() >= deadline:
            raise SmokeFailed("the request was answered and not recorded.")
        time.sleep(0.05)
