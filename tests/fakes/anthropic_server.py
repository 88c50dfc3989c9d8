"""A fake Anthropic API on loopback: scripted answers, exact records, faults on demand.

The idea: real clients and our proxy talk to it as to the real service, and a test then compares
bytes. The invariant: what `records` holds is what came over the socket; nothing is normalised.
With `rules` it also refuses what the newest models refuse (package `strict`). Its words and shapes
follow documentation and captures; not verified against the live API.

A base URL may carry a run's name, `/r/<run>`, so that one server serves many sessions.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tests.fakes.faults import CONNECTION_FAULTS, NAMED, Refusal
from tests.fakes.records import Record, write_record
from tests.fakes.script import Step, next_step
from tests.fakes.sse import encoder, events_of
from tests.fakes.wire import HttpServer, Reply, Request

MODELS = (
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-1",
    "claude-opus-4-6",
    "claude-opus-4-5",
    "claude-sonnet-4-5",
)
_RUN = re.compile(r"^/r/([A-Za-z0-9._-]+)(/.*)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What rules found in a request they let pass. `usage`: input counts, None for a guess;
    `context_management`: what edits did, None where none was asked for."""

    transformations: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    note: Any = None


class Rules(Protocol):
    """The strict part: judges requests, and signs the thinking of the answers."""

    def judge(self, request: Request, body: dict[str, Any], *, run: str) -> Refusal | Accepted: ...

    def finish(
        self, body: dict[str, Any], accepted: Accepted, content: list[dict[str, Any]]
    ) -> list[dict[str, Any]]: ...


class FakeAnthropic:
    """The server. Use as a context manager; `url` is its base, `url_of(run)` a run's.

    `script`: gives a step for a body, or None to let the prompt decide · `faults`: by run and
    request number (messages and token counts are numbered together) · `encoding`: compresses
    streams when the client accepts it.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        rules: Rules | None = None,
        script: Callable[[str, dict[str, Any]], Step | None] | None = None,
        log: str = "",
        encoding: str = "",
    ) -> None:
        self.rules = rules
        self.script = script
        self.log = log
        self.encoding = encoding
        self.otherwise = Step(say="Understood.")
        self.faults: dict[tuple[str, int], str | Refusal] = {}
        self.records: list[Record] = []
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ids = 0
        self.http = HttpServer(self._handle, port)

    def __enter__(self) -> FakeAnthropic:
        self.http.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.stop()

    @property
    def port(self) -> int:
        return self.http.port

    @property
    def url(self) -> str:
        return self.http.url

    def url_of(self, run: str) -> str:
        return f"{self.url}/r/{run}"

    def of(self, run: str, endpoint: str = "messages") -> list[Record]:
        """Return a run's requests to one endpoint, in order of arrival."""
        with self._lock:
            return [r for r in self.records if r.run == run and r.endpoint == endpoint]

    # --- one request

    def _fresh(self, prefix: str) -> str:
        with self._lock:
            self._ids += 1
            return f"{prefix}{self._ids:024x}"

    def _handle(self, request: Request, reply: Reply) -> None:
        found = _RUN.match(request.path)
        run, path = (found[1], found[2] or "/") if found else ("default", request.path)
        endpoint = _endpoint(path)
        with self._lock:
            number = self._numbers.get(run, 0)
            if endpoint in ("messages", "count_tokens"):
                number = self._numbers[run] = number + 1
        keep = Record(run=run, number=number, endpoint=endpoint, request=request)
        with self._lock:
            self.records.append(keep)
            position = len(self.records)
        try:
            keep.status = self._answer(keep, reply)
        finally:
            if self.log:
                write_record(self.log, position, keep)

    def _answer(self, keep: Record, reply: Reply) -> int:
        if keep.endpoint == "models":
            return self._json(
                reply, 200, {"data": [_model(one) for one in MODELS], "has_more": False}
            )
        if keep.endpoint == "root":
            return self._json(reply, 200, {"ok": True})
        if keep.endpoint == "other" or keep.request.method != "POST":
            return self._refuse(
                reply, Refusal(status=404, kind="not_found_error", message="Not found")
            )
        try:
            body = json.loads(keep.request.plain_body)
        except ValueError:
            text = "The request body is not valid JSON"
            return self._refuse(
                reply, Refusal(status=400, kind="invalid_request_error", message=text)
            )
        planned = self.faults.get((keep.run, keep.number))
        if isinstance(planned, Refusal):
            return self._refuse(reply, planned)
        step = (self.script(keep.run, body) if self.script else None) or next_step(
            body.get("messages") or [], otherwise=self.otherwise
        )
        fault = planned or step.fault
        if fault and fault not in CONNECTION_FAULTS:
            return self._refuse(reply, NAMED[fault])
        accepted: Refusal | Accepted = Accepted()
        if self.rules is not None:
            accepted = self.rules.judge(keep.request, body, run=keep.run)
            if isinstance(accepted, Refusal):
                return self._refuse(reply, accepted)
        if keep.endpoint == "count_tokens":
            return self._json(reply, 200, {"input_tokens": len(keep.request.plain_body) // 4})
        if step.delay_seconds:
            time.sleep(step.delay_seconds)
        if fault == "no-answer":
            reply.cut()
        message = self._message(body, step, accepted, len(keep.request.plain_body))
        if not body.get("stream"):
            return self._json(reply, 200, message)
        self._stream(keep.request, reply, message, step, fault)
        return 200

    def _message(
        self, body: dict[str, Any], step: Step, accepted: Accepted, size: int
    ) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if step.think is not None and step.redacted:
            content.append({"type": "redacted_thinking", "data": f"fake:{step.think}"})
        elif step.think is not None:
            shown = (body.get("thinking") or {}).get("display") != "omitted"
            content.append(
                {
                    "type": "thinking",
                    "thinking": step.think if shown else "",
                    "signature": "c2lnbmVkIGJ5IGEgZmFrZQ==",
                }
            )
        if step.say is not None:
            content.append({"type": "text", "text": step.say})
        for call in step.calls:
            tool_id = self._fresh("toolu_")
            content.append(
                {"type": "tool_use", "id": tool_id, "name": call.name, "input": call.input}
            )
        if self.rules is not None:
            content = self.rules.finish(body, accepted, content)
        usage: dict[str, Any] = accepted.usage or {
            "input_tokens": max(1, size // 4),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        written = len(json.dumps(content)) // 4
        message = {
            "id": self._fresh("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": step.stop_reason or ("tool_use" if step.calls else "end_turn"),
            "stop_sequence": None,
            "usage": {**usage, "output_tokens": written, **step.usage},
        }
        if accepted.transformations is not None:
            message["input_transformations"] = accepted.transformations
        if accepted.context_management is not None:
            message["context_management"] = accepted.context_management
        return message

    def _stream(
        self, request: Request, reply: Reply, message: dict[str, Any], step: Step, fault: str
    ) -> None:
        wanted = request.header("accept-encoding")
        encoding = self.encoding if self.encoding and self.encoding in wanted else ""
        headers = [
            ("content-type", "text/event-stream; charset=utf-8"),
            ("cache-control", "no-cache"),
        ]
        headers += [("content-encoding", encoding)] if encoding else []
        feed, finish = encoder(encoding)
        reply.start(200, [*headers, ("request-id", self._fresh("req_"))])
        cut_after = 3 if fault == "cut-stream" and step.cut_after is None else step.cut_after
        for index, data in enumerate(events_of(message, pieces=step.pieces)):
            if cut_after is not None and index >= cut_after:
                reply.cut()
            if fault == "cut-in-event" and index == 4:
                reply.chunk(feed(data[: len(data) // 2]))
                reply.cut()
            reply.chunk(feed(data))
            if step.gap_seconds:
                time.sleep(step.gap_seconds)
        reply.chunk(finish())
        reply.end()

    def _json(self, reply: Reply, status: int, value: dict[str, Any]) -> int:
        data = json.dumps(value, separators=(",", ":")).encode()
        reply.whole(
            status,
            [("content-type", "application/json"), ("request-id", self._fresh("req_"))],
            data,
        )
        return status

    def _refuse(self, reply: Reply, refusal: Refusal) -> int:
        request_id = self._fresh("req_")
        headers = [("content-type", "application/json"), ("request-id", request_id)]
        data = json.dumps(refusal.body(request_id)).encode()
        reply.whole(refusal.status, [*headers, *refusal.headers], data)
        return refusal.status


def _endpoint(path: str) -> str:
    trimmed = path.rstrip("/")
    for tail, name in (
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", "count_tokens"),
        ("/v1/models", "models"),
    ):
        if trimmed.endswith(tail):
            return name
    return "root" if trimmed == "" else "other"


def _model(name: str) -> dict[str, Any]:
    made = "2026-01-01T00:00:00Z"
    return {"type": "model", "id": name, "display_name": name, "created_at": made}
