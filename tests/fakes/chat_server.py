"""A fake Chat Completions API on loopback: streamed answers, scripts and records as the others.

A request without tools is an errand of the agent's own (a title, a summary) and gets a plain text,
whatever script its prompt repeats. Strict part: a tool call without its result, or the reverse, is
a 400, as servers of this form answer.
"""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

from tests.fakes.records import Record
from tests.fakes.script import Step, next_step
from tests.fakes.wire import HttpServer, Reply, Request


class FakeChat:
    """The server. `refusals`: texts of the 400s so far."""

    def __init__(self, *, port: int = 0) -> None:
        self.otherwise = Step(say="Understood.")
        self.records: list[Record] = []
        self.refusals: list[str] = []
        self._ids = itertools.count(1)
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self.http = HttpServer(self._handle, port)

    def __enter__(self) -> FakeChat:
        self.http.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.http.stop()

    @property
    def url(self) -> str:
        return self.http.url

    @property
    def asked(self) -> list[Record]:
        """What was asked with tools: the conversation, not the agent's own errands."""
        return [r for r in self.records if r.request.body and r.json.get("tools")]

    def _handle(self, request: Request, reply: Reply) -> None:
        endpoint = request.path.rstrip("/").rsplit("/", 1)[-1]
        with self._lock:
            keep = Record(
                run="default", number=len(self.records) + 1, endpoint=endpoint, request=request
            )
            self.records.append(keep)
        if endpoint != "completions" or request.method != "POST":
            keep.status = self._refuse(reply, "Not found", status=404)
        else:
            keep.status = self._answer(json.loads(request.plain_body), reply)

    def _answer(self, body: dict[str, Any], reply: Reply) -> int:
        messages = body["messages"]
        fault = _pairing_fault(messages)
        if fault:
            self.refusals.append(fault)
            return self._refuse(reply, fault)
        step = Step(say="A short text about it.")
        if body.get("tools"):
            step = next_step(messages, otherwise=self.otherwise)
        if step.fault:
            return self._refuse(reply, "The server is overloaded.", status=int(step.fault[:3]))
        if step.delay_seconds:
            self._is_over.wait(step.delay_seconds)
        prompt_tokens = len(json.dumps(body)) // 4
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 7, **step.usage}
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        head = {
            "id": f"chatcmpl-{next(self._ids)}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": body.get("model"),
        }
        reply.start(200, [("content-type", "text/event-stream; charset=utf-8")])
        for delta, reason in self._deltas(step):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            reply.chunk(_line({**head, "choices": [choice]}))
        reply.chunk(_line({**head, "choices": [], "usage": usage}))
        reply.chunk(b"data: [DONE]\n\n")
        reply.end()
        return 200

    def _deltas(self, step: Step) -> list[tuple[dict[str, Any], str | None]]:
        deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant"}, None)]
        if step.think is not None:
            deltas.append(({"reasoning_content": step.think}, None))
        if step.say is not None:
            half = len(step.say) // 2
            deltas += [({"content": part}, None) for part in (step.say[:half], step.say[half:])]
        for at, call in enumerate(step.calls):
            function = {"name": call.name, "arguments": json.dumps(call.input)}
            one = {"index": at, "id": f"call_{next(self._ids)}", "type": "function"}
            deltas.append(({"tool_calls": [{**one, "function": function}]}, None))
        deltas.append(({}, "tool_calls" if step.calls else "stop"))
        return deltas

    def _refuse(self, reply: Reply, text: str, *, status: int = 400) -> int:
        error = {"message": text, "type": "invalid_request_error", "code": None}
        head = [("content-type", "application/json")]
        reply.whole(status, head, json.dumps({"error": error}).encode())
        return status


def _line(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _pairing_fault(messages: list[dict[str, Any]]) -> str:
    """Return what is wrong with the calls and results of a request, "" when they match."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "messages with role 'tool' must follow a message with 'tool_calls'."
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool_call_ids without response: {', '.join(open_calls)}"
        open_calls = [str(call["id"]) for call in message.get("tool_calls") or []]
    return f"tool_call_ids without response: {', '.join(open_calls)}" if open_calls else ""
