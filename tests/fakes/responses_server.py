"""A fake OpenAI Responses API on loopback, with the newest models' handling of reasoning.

The same scripts and records as the fake Anthropic server. Strict parts, after newest-models facts
sections 3 and 5.8: reasoning made before the earlier input, tools or text format changed is dropped
and reported, never refused; a call without output, or the reverse, is a 400; too much input is
`context_length_exceeded`. A request that ends with `compaction_trigger` gets one compaction item.
Not verified against the live API.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.fakes.records import Record
from tests.fakes.script import Step, next_step
from tests.fakes.sse import event
from tests.fakes.strict.reasoning import (
    CALLS,
    Item,
    items_of,
    pairing_fault,
    prefix_of,
    seal,
    stale_reasoning,
)
from tests.fakes.wire import HttpServer, Reply, Request


def _as_messages(items: list[Item]) -> list[dict[str, Any]]:
    """The input as the script reader wants it: one assistant message for each answer."""
    messages: list[dict[str, Any]] = []
    for item in items:
        kind, role = item["type"], item.get("role")
        if kind == "message" and role == "user":
            content = item.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            blocks = [{"type": "text", "text": str(part.get("text", ""))} for part in parts]
            messages.append({"role": "user", "content": blocks})
        elif kind in CALLS or (kind == "message" and role == "assistant"):
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant"})
        elif kind.endswith("_output"):
            messages.append({"role": "tool"})
    return messages


class FakeResponses:
    """The server. `window_tokens`: input beyond it is refused, counted as a quarter of bytes.

    `script`: gives a step for an input, or None to let the prompt decide; `wants_reasoning`: a
    call without the reasoning that led to it is refused, as users report of some models.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        window_tokens: int = 1_000_000,
        wants_reasoning: bool = False,
    ) -> None:
        self.window_tokens = window_tokens
        self.wants_reasoning = wants_reasoning
        self._reasoned: set[str] = set()  # calls that came with reasoning
        self.otherwise = Step(say="Understood.")
        self.script: Callable[[list[Item]], Step | None] | None = None
        self.records: list[Record] = []
        self.dropped: list[str] = []  # ids of reasoning items left out so far
        self.refusals: list[str] = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self.http = HttpServer(self._handle, port)

    def __enter__(self) -> FakeResponses:
        self.http.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.stop()

    @property
    def url(self) -> str:
        return self.http.url

    def _fresh(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids):032x}"

    def _handle(self, request: Request, reply: Reply) -> None:
        endpoint = request.path.rstrip("/").rsplit("/", 1)[-1]
        with self._lock:
            keep = Record(
                run="default", number=len(self.records) + 1, endpoint=endpoint, request=request
            )
            self.records.append(keep)
        if endpoint == "models":
            keep.status = self._json(reply, 200, {"object": "list", "data": []})
        elif endpoint != "responses" or request.method != "POST":
            keep.status = self._refuse(reply, "Not found", status=404)
        else:
            keep.status = self._respond(json.loads(request.plain_body), reply, request)

    def _respond(self, body: dict[str, Any], reply: Reply, request: Request) -> int:
        items = items_of(body)
        step = (self.script(items) if self.script else None) or next_step(
            _as_messages(items), otherwise=self.otherwise
        )
        fault = pairing_fault(body) or self._bare_call(items)
        if fault:
            return self._refuse(reply, fault)
        tokens = len(request.plain_body) // 4
        if tokens > self.window_tokens or step.fault == "too-long":
            text = "Your input exceeds the context window of this model."
            return self._refuse(reply, text, code="context_length_exceeded")
        if step.fault:
            return self._refuse(reply, "The server is overloaded.", status=int(step.fault[:3]))
        stale = stale_reasoning(body)
        self.dropped += [str(item.get("id")) for item in stale]
        output = self._output(body, items, step)
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": len(json.dumps(output)) // 4,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + len(json.dumps(output)) // 4,
            **step.usage,
        }
        response = {
            "id": self._fresh("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": body.get("model"),
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "output": output,
            "usage": usage,
            "input_transformations": [
                {
                    "type": "reasoning_dropped",
                    "item_id": item.get("id"),
                    "reason": "prefix_mismatch",
                }
                for item in stale
            ],
        }
        if not body.get("stream"):
            return self._json(reply, 200, response)
        reply.start(200, [("content-type", "text/event-stream; charset=utf-8")])
        for data in _events(response):
            reply.chunk(data)
        reply.end()
        return 200

    def _bare_call(self, items: list[Item]) -> str:
        has_reasoning = False
        for item in items if self.wants_reasoning else []:
            kind = item["type"]
            if kind in CALLS and not has_reasoning and item.get("call_id") in self._reasoned:
                return (
                    f"Item '{item.get('id')}' of type '{kind}' was provided without its required "
                    "'reasoning' item."
                )
            said = kind in CALLS or (kind == "message" and item.get("role") == "assistant")
            has_reasoning = kind == "reasoning" or (has_reasoning and said)
        return ""

    def _output(self, body: dict[str, Any], items: list[Item], step: Step) -> list[Item]:
        if items and items[-1]["type"] == "compaction_trigger":
            closed = seal(prefix_of(body, items))
            compacted = {"type": "compaction", "id": self._fresh("cmp")}
            return [{**compacted, "encrypted_content": closed}]
        output: list[Item] = []
        if step.think is not None:
            summary = [{"type": "summary_text", "text": step.think}]
            sealed = seal(prefix_of(body, items))
            output.append(
                {
                    "type": "reasoning",
                    "id": self._fresh("rs"),
                    "summary": summary,
                    "encrypted_content": sealed,
                }
            )
        if step.say is not None:
            content = [{"type": "output_text", "text": step.say, "annotations": []}]
            output.append(
                {
                    "type": "message",
                    "id": self._fresh("msg"),
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            )
        for call in step.calls:
            call_id = self._fresh("call")
            if step.think is not None:
                self._reasoned.add(call_id)
            namespace, _, name = call.name.rpartition("/")
            output.append(
                {
                    "type": "function_call",
                    "id": self._fresh("fc"),
                    "call_id": call_id,
                    "name": name,
                    "arguments": json.dumps(call.input),
                    "status": "completed",
                    **({"namespace": namespace} if namespace else {}),
                }
            )
        return output

    def _json(self, reply: Reply, status: int, value: dict[str, Any]) -> int:
        reply.whole(status, [("content-type", "application/json")], json.dumps(value).encode())
        return status

    def _refuse(self, reply: Reply, text: str, *, status: int = 400, code: str = "") -> int:
        if status == 400:
            self.refusals.append(text)
        error = {
            "message": text,
            "type": "invalid_request_error" if status < 500 else "server_error",
            "param": "input" if status == 400 else None,
            "code": code or None,
        }
        return self._json(reply, status, {"error": error})


def _events(response: dict[str, Any]) -> list[bytes]:
    """Return the events of a finished response in the order in which the API streams them."""
    numbers = itertools.count()

    def send(name: str, **data: Any) -> None:
        parts.append(event(name, {"sequence_number": next(numbers), **data}))

    parts: list[bytes] = []
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    send("response.created", response=opening)
    for at, item in enumerate(response["output"]):
        place = {"item_id": item["id"], "output_index": at}
        emptied = {"message": {"content": []}, "function_call": {"arguments": ""}}
        begun = {**item, **emptied.get(item["type"], {})}
        send("response.output_item.added", output_index=at, item=begun)
        if item["type"] == "message":
            (part,) = item["content"]
            where = {**place, "content_index": 0}
            send("response.content_part.added", **where, part={**part, "text": ""})
            send("response.output_text.delta", **where, delta=part["text"])
            send("response.output_text.done", **where, text=part["text"])
            send("response.content_part.done", **where, part=part)
        elif item["type"] == "function_call":
            send("response.function_call_arguments.delta", **place, delta=item["arguments"])
            send("response.function_call_arguments.done", **place, arguments=item["arguments"])
        send("response.output_item.done", output_index=at, item=item)
    send("response.completed", response=response)
    return parts
