"""A model's answer in each wire format: its events as they come, its pieces once they are whole.

Idea: `event` takes a stream's events, `whole` an answer that came at once; either way the same
pieces and counts stand here afterwards.
Invariant: a piece counts only once the stream said that it is whole; an answer, once it ended.
Trap: servers that speak Chat differ: some send no `[DONE]`, some send usage in the last chunk of a
choice and some in one without choices.
Source: the two vendors' API references; what Claude Code, Codex and OpenCode take.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openmem.context.formats.view import Wire
from openmem.context.proxy.recording.usage import Usage
from openmem.context.trim.clearing import EDIT, NOTHING_CLEARED, Cleared
from openmem.context.trim.limits import overflow_in

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class Form(Protocol):
    """An answer that is being read. `note`: a fault that the provider reported, "" for none;
    `overflow`: see `limits.overflow_in`; `cleared`: what it left out of the prompt."""

    usage: Usage
    is_complete: bool
    note: str
    overflow: int | None
    cleared: Cleared

    def event(self, event: dict[str, Any]) -> None:
        """Take one event of a stream."""
        ...

    def whole(self, message: dict[str, Any]) -> None:
        """Take an answer that came at once."""
        ...

    def blocks(self) -> list[dict[str, Any]]:
        """Return the pieces that are whole, in order."""
        ...


def _cleared(report: object, otherwise: Cleared) -> Cleared:
    """Return what a report of applied edits says was cleared of tool uses."""
    edits = report.get("applied_edits") if isinstance(report, Mapping) else None
    for edit in edits if isinstance(edits, list) else ():
        if isinstance(edit, Mapping) and edit.get("type") == EDIT:
            uses, tokens = edit.get("cleared_tool_uses"), edit.get("cleared_input_tokens")
            if isinstance(uses, int) and isinstance(tokens, int) and uses > 0 and tokens >= 0:
                return Cleared(uses=uses, tokens=tokens)
    return otherwise


@dataclass(slots=True)
class _Open:
    block: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)


class MessagesForm:
    """An answer of the Messages API: content blocks."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.is_complete = False
        self.note = ""
        self.overflow: int | None = None
        self.cleared = NOTHING_CLEARED
        self._blocks: dict[int, dict[str, Any]] = {}
        self._open: dict[int, _Open] = {}

    def whole(self, message: dict[str, Any]) -> None:
        content = message.get("content")
        if isinstance(content, list):
            found = [block for block in content if isinstance(block, dict)]
            self._blocks = dict(enumerate(found))
        self.usage = self.usage.updated(message.get("usage"))
        self.cleared = _cleared(message.get("context_management"), self.cleared)
        self.is_complete = True

    def blocks(self) -> list[dict[str, Any]]:
        return [self._blocks[index] for index in sorted(self._blocks)]

    def event(self, event: dict[str, Any]) -> None:
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            message = event.get("message")
            if isinstance(message, dict):
                self.usage = self.usage.updated(message.get("usage"))
        elif kind == "message_delta":
            self.usage = self.usage.updated(event.get("usage"))
            self.cleared = _cleared(event.get("context_management"), self.cleared)
        elif kind == "message_stop":
            self.is_complete = True
        elif kind == "error":
            self.note, self.overflow = _fault(event.get("error"))
        elif not isinstance(index, int):
            return
        elif kind == "content_block_start":
            block = event.get("content_block")
            if isinstance(block, dict):
                self._open[index] = _Open(block)
        elif kind == "content_block_delta":
            self._delta(index, event.get("delta"))
        elif kind == "content_block_stop":
            self._stop(index)

    def _delta(self, index: int, delta: object) -> None:
        state = self._open.get(index)
        if state is None or not isinstance(delta, dict):
            return
        kind = delta.get("type")
        if kind == "input_json_delta":
            name, piece = "input", delta.get("partial_json")
        elif kind in _DELTAS:
            name, piece = _DELTAS[kind][0], delta.get(_DELTAS[kind][1])
        else:
            return
        if isinstance(piece, str):
            state.pieces.setdefault(name, []).append(piece)

    def _stop(self, index: int) -> None:
        state = self._open.pop(index, None)
        if state is None:
            return
        block = dict(state.block)
        for name, pieces in state.pieces.items():
            text = "".join(pieces)
            if name != "input":
                start = block.get(name)
                block[name] = (start if isinstance(start, str) else "") + text
                continue
            try:
                block["input"] = json.loads(text) if text.strip() else {}
            except ValueError:
                block["input"] = text  # cut short by max_tokens; the client sends back its own
        self._blocks[index] = block


class ResponsesForm:
    """An answer of the Responses API: output items, each sent whole when it is done."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.is_complete = False
        self.note = ""
        self.overflow: int | None = None
        self.cleared = NOTHING_CLEARED
        self._items: dict[int, dict[str, Any]] = {}

    def whole(self, message: dict[str, Any]) -> None:
        self._ended(message)
        self.is_complete = True

    def blocks(self) -> list[dict[str, Any]]:
        return [self._items[index] for index in sorted(self._items)]

    def event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "response.output_item.done":
            index, item = event.get("output_index"), event.get("item")
            if isinstance(item, dict):
                self._items[index if isinstance(index, int) else len(self._items)] = item
        elif kind in ("response.completed", "response.incomplete"):
            self._ended(event.get("response"))
            self.is_complete = True
        elif kind == "response.failed":
            response = event.get("response")
            self._ended(response)
            self.note, self.overflow = _fault(
                response.get("error") if isinstance(response, dict) else None
            )
        elif kind == "error":
            self.note, self.overflow = _fault(event.get("error", event))

    def _ended(self, response: object) -> None:
        if not isinstance(response, dict):
            return
        self.usage = self.usage.updated_by_openai(response.get("usage"))
        output = response.get("output")
        found = [item for item in output if isinstance(item, dict)] if output else []
        if found and not self._items:
            self._items = dict(enumerate(found))


class ChatForm:
    """An answer of the Chat Completions API: one message, put together from its deltas."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.is_complete = False
        self.note = ""
        self.overflow: int | None = None
        self.cleared = NOTHING_CLEARED
        self._message: dict[str, Any] | None = None
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def whole(self, message: dict[str, Any]) -> None:
        choice = _first_choice(message)
        found = choice.get("message")
        self._message = found if isinstance(found, dict) else None
        self.usage = self.usage.updated_by_openai(message.get("usage"))
        self.is_complete = True

    def blocks(self) -> list[dict[str, Any]]:
        if self._message is not None:
            return [{"role": "assistant", **self._message}]
        if not self.is_complete:
            return []  # a call or a text that broke off is not whole
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message |= {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._call(index) for index in sorted(self._calls)]
        return [message] if len(message) > 2 or message["content"] else []

    def _call(self, index: int) -> dict[str, Any]:
        call = self._calls[index]
        arguments = "".join(call["arguments"])
        return {"id": call["id"], "function": {"name": call["name"], "arguments": arguments}}

    def event(self, event: dict[str, Any]) -> None:
        if event.get("error"):
            self.note, self.overflow = _fault(event["error"])
        self.usage = self.usage.updated_by_openai(event.get("usage"))
        choice = _first_choice(event)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta)
        if choice.get("finish_reason"):
            self.is_complete = True

    def _delta(self, delta: dict[str, Any]) -> None:
        for name in ("content", "refusal", *_REASONING):
            if isinstance(delta.get(name), str):
                self._texts.setdefault(name, []).append(delta[name])
        calls = delta.get("tool_calls")
        for place, piece in enumerate(calls if isinstance(calls, list) else []):
            if not isinstance(piece, dict):
                continue
            index = piece.get("index")
            call = self._calls.setdefault(
                index if isinstance(index, int) else place,
                {"id": "", "name": "", "arguments": []},
            )
            function = piece.get("function")
            function = function if isinstance(function, dict) else {}
            for name, value in (("id", piece.get("id")), ("name", function.get("name"))):
                if isinstance(value, str) and value:
                    call[name] = value
            if isinstance(function.get("arguments"), str):
                call["arguments"].append(function["arguments"])


def _first_choice(event: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that a client goes on from; others are alternatives to it."""
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            return choice
    return {}


def _fault(error: object) -> tuple[str, int | None]:
    """Return the name of a fault, never its words, and what they say of the model's window."""
    told = error if isinstance(error, Mapping) else {}
    name = told.get("code") or told.get("type")
    return f"error-event:{name}"[:80], overflow_in(f"{name}: {told.get('message')}")


FORMS: Mapping[Wire, Callable[[], Form]] = {
    "messages": MessagesForm,
    "responses": ResponsesForm,
    "chat": ChatForm,
}
