"""The wire between the proxy and its recorder process: length, kind, job number, payload.

Both ends are of one version and one machine; a frame is never larger than `LARGEST`, and a stream
that breaks this is a fault of ours, not data of somebody else's.
"""

from __future__ import annotations

import struct
from typing import Protocol

HEAD = struct.Struct("!IBQ")
LARGEST = 1 << 24

SETTINGS = 0  # JSON: what the recorder needs to know, once
OPEN = 1  # JSON: headers and route of a request that is to be recorded
BODY = 2  # bytes of the request's body as sent
SENT = 3  # the body is whole; JSON: size and CRC of what the proxy sent instead of it by itself
HEAD_SEEN = 4  # JSON: status, content type and encoding of the response
DATA = 5  # bytes of the response as sent
END = 6  # JSON: how the response ended
LATE = 7  # the response did not wait any longer for this job
DROP = 8  # JSON: the request was not sent here whole; why
FAULT = 9  # JSON: headers of a request that could not be recorded, and why
VIEW = 10  # the body is whole, and the proxy waits for what is to be sent instead of it
REPAIR = 11  # a word of `sent.py`: what our form of a request was refused for; the proxy waits


class Source(Protocol):
    """Where frames are read from; `read` waits for all it is asked for, less only at the end."""

    def read(self, size: int, /) -> bytes: ...


def frame(kind: int, job: int, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return HEAD.pack(len(payload), kind, job) + payload


def read_frame(file: Source) -> tuple[int, int, bytes] | None:
    """Return (kind, job, payload) of the next frame, None at the end. ValueError on a bad one.

    A proxy that was killed while answers to it were under way leaves a reset, not an end; what it
    had sent before comes first, so the reset is the end.
    """
    try:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        size, kind, job = HEAD.unpack(head)
        if size > LARGEST:
            raise ValueError("frame larger than any we send")
        payload = file.read(size) if size else b""
    except OSError:
        return None
    return (kind, job, payload) if len(payload) == size else None
