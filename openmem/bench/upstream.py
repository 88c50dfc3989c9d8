"""The upstream of a bench: answers every request with one small message, streamed, at once.

Run as a process, `python -m openmem.bench.upstream`; it prints its port and ends when its standard
input closes, so that it cannot outlive the bench. It is fast rather than faithful: the answer is
one block of bytes, the body is counted and forgotten. With `slowly` in the query it streams events
a few milliseconds apart instead, each with the time it was sent at.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

EVENTS = 40
SLOW_EVENTS = 250
SLOW_GAP_SECONDS = 0.004


def _event(name: str, **data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def _stream() -> bytes:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message: dict[str, object] = {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    parts = [
        _event("message_start", message=message),
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(
            _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "word "})
            for _ in range(EVENTS)
        ),
        _event("content_block_stop", index=0),
        _event(
            "message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={**usage, "output_tokens": EVENTS},
        ),
        _event("message_stop"),
    ]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return HEAD + chunks + b"0\r\n\r\n"


HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_bench\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
ANSWER = _stream()


class _Connection(asyncio.Protocol):
    """Counts a request's body off and answers; keeps the connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left = -1  # body bytes still to come, -1 while in a head
        self._slowly = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._left >= 0:
            if len(data) < self._left:
                self._left -= len(data)
                return
            self._buffer += data[self._left :]
            self._answer()
        else:
            self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            size = _length(bytes(self._buffer[:end]))
            self._slowly = b"slowly" in self._buffer[: self._buffer.find(b"\r\n")]
            have = len(self._buffer) - end - 4
            if have < size:
                self._buffer.clear()
                self._left = size - have
                return
            del self._buffer[: end + 4 + size]
            self._answer()

    def _answer(self) -> None:
        self._left = -1
        assert self._transport is not None
        if self._slowly:
            self._transport.write(HEAD)
            self._tick(SLOW_EVENTS)
        else:
            self._transport.write(ANSWER)

    def _tick(self, left: int) -> None:
        """Send one timed event and plan the next. The clock is the machine's, not the process's."""
        assert self._transport is not None
        if left == 0:
            self._transport.write(b"0\r\n\r\n")
            return
        data = b'event: ping\ndata: {"type":"ping","at":%.6f}\n\n' % time.perf_counter()
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))
        asyncio.get_running_loop().call_later(SLOW_GAP_SECONDS, self._tick, left - 1)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve())
