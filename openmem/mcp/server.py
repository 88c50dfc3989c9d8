"""The life of the server: read, answer, run tools beside it, stop.

Everything but a tool's work is answered on the reading thread, at once and in order. A tool runs
on a thread of its own, so that a ping, another call or a cancellation is not kept waiting.
Ends: when the client closes its side (calls that run are answered first), when the parent is
gone, on SIGTERM and SIGINT.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from openmem import __version__
from openmem.mcp import protocol
from openmem.mcp.protocol import Json, Request, RpcError
from openmem.mcp.tools import INSTRUCTIONS, Toolbox
from openmem.mcp.wire import TooLong, claim_streams, read_lines

SERVER_INFO: Json = {"name": "openmem", "version": __version__}
_CALLS_AT_ONCE = 4
_LAST_CALLS_SECONDS = 10.0

Send = Callable[[Json], None]


class Server:
    """Answers messages; `send` gets each outgoing one and may be called from several threads."""

    def __init__(self, toolbox: Toolbox, send: Send) -> None:
        self._toolbox = toolbox
        self._send = send
        self._lock = threading.Lock()
        self._running: dict[int | str, Request] = {}
        self._threads: set[threading.Thread] = set()
        self._slots = threading.BoundedSemaphore(_CALLS_AT_ONCE)
        self._subscriptions: set[int | str] = set()

    def handle_line(self, line: bytes | TooLong) -> None:
        """Answer what one line holds: a message, or an array of messages."""
        if isinstance(line, TooLong):
            self._send(_failure(None, RpcError(protocol.PARSE_ERROR, "the line is too long")))
            return
        if not line.strip():
            return
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            self._send(_failure(None, RpcError(protocol.PARSE_ERROR, "the line is not JSON")))
            return
        if isinstance(value, list):
            self._handle_batch(value)
        else:
            self._handle(value, self._send)

    def finish(self, timeout_seconds: float) -> None:
        """Wait until the calls that run are answered."""
        deadline = time.monotonic() + timeout_seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def _handle_batch(self, values: list[object]) -> None:
        """Answer an array (protocol 2025-03-26) with one array, once all of it is done."""
        if not values:
            self._send(_failure(None, RpcError(protocol.INVALID_REQUEST, "an empty batch")))
            return
        batch = _Batch(len(values), self._send_batch)
        for value in values:
            self._handle(value, batch.add, batch.skip)

    def _send_batch(self, answers: list[Json]) -> None:
        self._send(answers)  # type: ignore[arg-type]  # an array of messages is a message too

    def _handle(self, value: object, send: Send, skip: Callable[[], None] | None = None) -> None:
        """Answer one message by `send`; `skip` is called instead when there is no answer."""
        skip = skip or _nothing
        identity = protocol.identity_of(value)
        try:
            request = protocol.decode_message(value)
            if request is None or request.id is None:
                if request is not None:
                    self._notice(request)
                skip()
            elif request.method == "tools/call":
                request.check_envelope()
                self._start_call(request, send, skip)
            elif request.method == "subscriptions/listen" and request.is_enveloped:
                request.check_envelope()
                self._subscriptions.add(request.id)
                self._send(protocol.acknowledged(request))
                skip()
            else:
                send(protocol.response(request, self._answer(request), SERVER_INFO))
        except RpcError as error:
            send(_failure(identity, error))

    def _answer(self, request: Request) -> Json:
        request.check_envelope()
        method = request.method
        if method == "initialize":
            return protocol.initialize_result(request.params, SERVER_INFO, INSTRUCTIONS)
        if method == "server/discover":
            if not request.is_enveloped:
                key = protocol.VERSION_KEY
                raise RpcError(protocol.INVALID_PARAMS, f"_meta[{key!r}] is missing")
            return protocol.discover_result(INSTRUCTIONS)
        if method == "ping":
            return {}
        if method == "tools/list":
            if request.params.get("cursor") is not None:
                raise RpcError(protocol.INVALID_PARAMS, "there is no further page")
            return protocol.tools_result(self._toolbox.listed(), is_enveloped=request.is_enveloped)
        raise RpcError(protocol.METHOD_NOT_FOUND, "Method not found", method[:100])

    def _notice(self, notification: Request) -> None:
        """Take note of a cancellation; no other notification asks anything of us."""
        if notification.method != "notifications/cancelled":
            return
        identity = notification.params.get("requestId")
        if isinstance(identity, int | str):
            with self._lock:
                self._running.pop(identity, None)
                self._subscriptions.discard(identity)

    def _start_call(self, request: Request, send: Send, skip: Callable[[], None]) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str) or not self._toolbox.knows(name):
            raise RpcError(protocol.INVALID_PARAMS, f"Unknown tool: {str(name)[:100]}")
        if arguments is not None and not isinstance(arguments, dict):
            raise RpcError(protocol.INVALID_PARAMS, "arguments is not an object")
        assert request.id is not None
        with self._lock:
            if request.id in self._running:
                raise RpcError(protocol.INVALID_REQUEST, "a request with this id is running")
            self._running[request.id] = request
        thread = threading.Thread(
            target=self._call, args=(request, name, arguments or {}, send, skip), daemon=True
        )
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _call(
        self, request: Request, name: str, arguments: Json, send: Send, skip: Callable[[], None]
    ) -> None:
        content: list[Json] = []
        is_error = False
        try:
            with self._slots:
                if self._is_wanted(request):
                    content, is_error = self._toolbox.call(name, arguments, request.meta)
            # What was cancelled meanwhile must not be answered.
            if self._is_wanted(request, and_forget=True):
                result = protocol.call_result(content, is_error=is_error)
                send(protocol.response(request, result, SERVER_INFO))
            else:
                skip()
        except BrokenPipeError:
            _stop()  # nobody reads any more
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _is_wanted(self, request: Request, *, and_forget: bool = False) -> bool:
        """Return whether a call was not cancelled; its id may be in use again by another."""
        assert request.id is not None
        with self._lock:
            is_wanted = self._running.get(request.id) is request
            if is_wanted and and_forget:
                del self._running[request.id]
        return is_wanted


class _Batch:
    """Collects the answers of a batch and sends them once every message was dealt with."""

    def __init__(self, size: int, send: Callable[[list[Json]], None]) -> None:
        self._left, self._send = size, send
        self._answers: list[Json] = []
        self._lock = threading.Lock()

    def add(self, answer: Json) -> None:
        self._count(answer)

    def skip(self) -> None:
        self._count(None)

    def _count(self, answer: Json | None) -> None:
        with self._lock:
            if answer is not None:
                self._answers.append(answer)
            self._left -= 1
            is_done = self._left == 0 and bool(self._answers)
        if is_done:
            self._send(self._answers)


def serve(toolbox: Toolbox) -> int:
    """Serve standard input until it ends; return the exit status."""
    source, writer = claim_streams()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    server = Server(toolbox, writer.write)
    parent = os.getppid()

    def end_when_orphaned() -> None:
        # Another process may hold the pipe open after the agent died; then no end ever comes.
        if os.getppid() != parent:
            _stop()

    try:
        for line in read_lines(source, end_when_orphaned):
            server.handle_line(line)
        server.finish(_LAST_CALLS_SECONDS)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the client is gone: there is nobody to tell
    _stop()
    return 0


def _stop(*_signal: object) -> None:
    """End the process with its children; threads that still work have nobody to answer to."""
    process = sys.modules.get("openmem.context.sandbox.process")
    if process is not None:
        process.end_children()
    os._exit(0)


def _failure(identity: int | str | None, error: RpcError) -> Json:
    return protocol.error_response(identity, error)


def _nothing() -> None:
    pass
