"""Asking the running proxy: one JSON line out, one JSON line back, over a Unix socket.

Idea: the socket stands in a folder that only this user may enter, so whoever answers is ours.
Invariant: a call has one deadline for connect, send and answer together, and never starts
anything. Trap: in the fallback place (`/tmp`) somebody else may have made the folder first; a
folder that is not ours, or is open to others, is as good as no proxy.
Source: docs/reference/supervision.md, "Control socket".
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping

from openmem.base.errors import OpenmemError
from openmem.base.io import is_private_folder
from openmem.base.paths import Paths

ANSWER_LIMIT_BYTES = 8 << 20
REQUEST_LIMIT_BYTES = 4 << 20


class ControlError(OpenmemError):
    """The proxy did not answer, or answered something that is not its protocol."""

    code = "proxy-unreachable"


def call(paths: Paths, request: Mapping[str, object], timeout: float) -> dict[str, object]:
    """Return the proxy's answer. `timeout`: seconds for everything. ControlError when none comes.

    An answer with `"ok": false` is returned, not raised: the caller knows what it asked for.
    """
    answer, descriptors = _exchange(paths, request, timeout)
    for descriptor in descriptors:
        os.close(descriptor)  # nobody asked for one
    return answer


def adopt(paths: Paths, timeout: float) -> tuple[dict[str, object], tuple[int, int]] | None:
    """Return a worker without supervisor: its answer, its listening socket, our end of its line.

    None when no worker answers, or the one that does has a supervisor.
    """
    try:
        answer, descriptors = _exchange(paths, {"op": "adopt"}, timeout)
    except ControlError:
        return None
    if answer.get("ok") is True and len(descriptors) == 2:
        return answer, (descriptors[0], descriptors[1])
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def _exchange(
    paths: Paths, request: Mapping[str, object], timeout: float
) -> tuple[dict[str, object], list[int]]:
    path = paths.control_socket
    if not is_private_folder(os.path.dirname(path)):
        raise ControlError("no proxy of this user is running.")
    deadline = time.monotonic() + timeout
    descriptors: list[int] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(timeout)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            data = _read_line(connection, deadline, descriptors)
        except OSError as error:
            _close_all(descriptors)
            reason = error.strerror or "timed out"
            raise ControlError(f"the proxy does not answer ({reason}).") from None
    try:
        answer = json.loads(data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        _close_all(descriptors)
        raise ControlError("the proxy's answer was cut short.")
    return answer, descriptors


def _read_line(connection: socket.socket, deadline: float, descriptors: list[int]) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < ANSWER_LIMIT_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        chunk, received, _flags, _address = socket.recv_fds(connection, 1 << 16, 4)
        for descriptor in received:
            os.set_inheritable(descriptor, False)
        descriptors += received
        if not chunk:
            break
        data += chunk
    return data


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
