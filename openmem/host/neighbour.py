"""Who else has the port: another openmem, or a program that we know nothing of.

Idea: a worker answers one small path with the mark of its state folder. Invariant: one bounded
request to the loopback address; whatever answers is read as data. Trap: a program that accepts
and says nothing must not hold us up.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time

from openmem.host.record import HOST

PING_PATH = "/.openmem/ping"
_LIMIT_BYTES = 16384
_SECONDS = 1.0


def installation_mark(state_dir: str) -> str:
    """Return what tells two state folders apart without naming them."""
    return hashlib.sha256(os.fsencode(os.path.realpath(state_dir))).hexdigest()[:16]


def foreign_at(port: int, state_dir: str) -> str:
    """Return the version of another state folder's openmem at `port`, "" for any other program."""
    answer = _ping(port)
    version, mark = answer.get("openmem"), answer.get("installation")
    if isinstance(version, str) and mark != installation_mark(state_dir):
        return version
    return ""


def _ping(port: int) -> dict[str, object]:
    request = f"GET {PING_PATH} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n"
    deadline = time.monotonic() + _SECONDS
    data = b""
    try:
        with socket.create_connection((HOST, port), _SECONDS) as connection:
            connection.sendall(request.encode())
            while len(data) < _LIMIT_BYTES and time.monotonic() < deadline:
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                part = connection.recv(4096)
                if not part:
                    break
                data += part
        value = json.loads(data.partition(b"\r\n\r\n")[2])
    except (OSError, ValueError):
        return {}  # not HTTP, not ours, or silent: somebody else's
    return value if isinstance(value, dict) else {}
