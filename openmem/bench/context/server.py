"""The provider on loopback: an Anthropic Messages endpoint that streams. Lives in this process.

`Upstream.ask` is the client's end of the same wire: one kept-alive connection to a port, ours or
the proxy's, with the events of a reply read back into blocks.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from openmem.base.errors import Failed
from openmem.bench.context.provider import Answered, Provider, Refused

NUMBER_HEADER = "x-bench-request"
AGENT_HEADER = "x-claude-code-agent-id"
_TIMEOUT_SECONDS = 120.0


class Upstream:
    """The provider's server. Use as a context manager; `port` is of loopback."""

    def __init__(self, provider: Provider) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = provider
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Upstream:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the provider keeps its own log."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, _Server)
        provider = self.server.provider
        try:
            answered = provider.serve(
                body,
                number=int(self.headers.get(NUMBER_HEADER, "0")),
                thread=self.headers.get(AGENT_HEADER, ""),
            )
        except Refused as refusal:
            error = {"type": "invalid_request_error", "message": str(refusal)}
            self._send(400, "application/json", _json({"type": "error", "error": error}))
            return
        except Exception as fault:
            provider.faults.append(f"{type(fault).__name__}: {fault}")
            raise
        self._send(200, "text/event-stream", b"".join(_events(answered)))

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _event(name: str, **data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json({"type": name, **data}))


def _events(answered: Answered) -> list[bytes]:
    blocks, used = answered.blocks, answered.used
    usage = {
        "input_tokens": used.uncached,
        "cache_read_input_tokens": used.read,
        "cache_creation_input_tokens": used.written,
        "output_tokens": 1,
    }
    message: dict[str, object] = {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "usage": usage,
    }
    events = [_event("message_start", message=message)]
    for index, block in enumerate(blocks):
        start, delta = _split(block)
        events.append(_event("content_block_start", index=index, content_block=start))
        events.append(_event("content_block_delta", index=index, delta=delta))
        events.append(_event("content_block_stop", index=index))
    has_call = any(block["type"] == "tool_use" for block in blocks)
    reason = {"stop_reason": "tool_use" if has_call else "end_turn"}
    output = {"output_tokens": sum(len(_json(block)) for block in blocks) // 3}
    applied = answered.applied.report()
    events.append(_event("message_delta", delta=reason, usage=output, context_management=applied))
    events.append(_event("message_stop"))
    return events


def _split(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a block as a stream begins it, and the one delta that completes it."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    if block["type"] == "thinking":
        delta = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, delta
    start = {**block, "input": {}}
    return start, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `error`: of a refusal, then `blocks` is empty. `milliseconds`: whole."""

    blocks: list[dict[str, Any]]
    prompt_tokens: int = 0
    error: str = ""
    milliseconds: float = 0.0


@dataclass(slots=True)
class Line:
    """A kept-alive connection to a port. `path`: where requests go."""

    port: int
    path: str = "/v1/messages?beta=true"
    _connection: http.client.HTTPConnection | None = field(default=None)

    def ask(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a request and return its answer. Failed on anything but a reply or a refusal."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self.port, timeout=_TIMEOUT_SECONDS
            )
        begun = time.perf_counter()
        self._connection.request(
            "POST",
            self.path,
            body,
            {
                "content-type": "application/json",
                "anthropic-version": "2023-06-01",
                "x-api-key": "made-up",
                **headers,
            },
        )
        response = self._connection.getresponse()
        data = response.read()
        milliseconds = (time.perf_counter() - begun) * 1000
        if response.status == 400:
            message = str(json.loads(data)["error"]["message"])
            return Answer(blocks=[], error=message, milliseconds=milliseconds)
        if response.status != 200:
            raise Failed(f"a request of the bench was answered {response.status}: {data[:300]!r}")
        blocks, tokens = _read(data)
        return Answer(blocks=blocks, prompt_tokens=tokens, milliseconds=milliseconds)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(data: bytes) -> tuple[list[dict[str, Any]], int]:
    blocks: list[dict[str, Any]] = []
    tokens = 0
    for line in data.split(b"\n"):
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line[6:])
        if event["type"] == "message_start":
            usage = event["message"]["usage"]
            names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            tokens = sum(usage[name] for name in names)
        elif event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            _complete(blocks[-1], event["delta"])
    return blocks, tokens


def _complete(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    if delta["type"] == "text_delta":
        block["text"] += delta["text"]
    elif delta["type"] == "signature_delta":
        block["signature"] = delta["signature"]
    elif delta["type"] == "input_json_delta":
        block["input"] = json.loads(delta["partial_json"])
