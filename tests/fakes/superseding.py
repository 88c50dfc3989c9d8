"""Conversations in which later calls make earlier ones worthless, and a trim over them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openmem.base.paths import Paths
from openmem.context.trim.items import WireFormat
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.trimmer import Ask, Trimmer, View
from openmem.context.trim.wire.chat import ChatFormat
from openmem.context.trim.wire.messages import MessagesFormat
from openmem.context.trim.wire.responses import ResponsesFormat
from tests.fakes.three_wires import Move, Said, Step, body_in

KEY = b"k" * 32
SID = "5e5510n0-0000-4000-8000-000000000001"
FORMS: Mapping[str, WireFormat] = {
    "messages": MessagesFormat(),
    "responses": ResponsesFormat(),
    "chat": ChatFormat(),
}


class Rows:
    """A store that holds every body, or none. `asked`: what it was asked for, in order."""

    def __init__(self, *, holds: bool = True) -> None:
        self.holds = holds
        self.asked: list[tuple[int, str, int]] = []

    def find(self, sid: str, parts: Sequence[tuple[int, str, int]]) -> Sequence[int]:
        self.asked += parts
        return [1000 + 10 * item + place if self.holds else 0 for item, _, place in parts]


def trimmer(home: Path, rows: Rows | None = None, **settings: Any) -> Trimmer:
    chosen = {"superseded": True, "keep_steps": 1, "compress_tokens": 0, **settings}
    return Trimmer(
        Paths(os.environ),
        KEY,
        TrimSettings(**chosen),
        {},
        count_masked=lambda sid, numbers: 0,
        find_rows=(rows or Rows()).find,
    )


def step(tool: str, given: dict[str, Any], result: str, *, think: str = "") -> Step:
    return Step(think=think, calls=[(tool, given)], results=[[result]])


def work(*steps: Move) -> list[Move]:
    """Return a session: a turn that goes, a turn with these steps, one more step, a prompt."""
    return [
        Said(pieces=["the first task"]),
        step("Bash", {"command": "make"}, "built\n" * 3000),
        Step(say=["done"]),
        Said(pieces=["the second task"]),
        *steps,
        step("Bash", {"command": "true"}, "ok"),
        Step(say=["done, too"]),
        Said(pieces=["and now?"]),
    ]


def view_of(trim: Trimmer, wire: str, moves: Sequence[Move], **fields: Any) -> View:
    """Return the view that a person's wish for a trim makes, two turns kept."""
    body = body_in(wire, moves, **fields)
    ask = Ask(sid=SID, body=body, force=True, keep_turns=2, now=1.0)
    return trim.view(FORMS[wire], ask)


def calls_in(wire: str, body: bytes | None) -> list[tuple[str, Any, str]]:
    """Return (tool, arguments, result) of a body's calls, in order."""
    assert body is not None
    value = json.loads(body)
    found: list[list[Any]] = []
    by_id: dict[str, list[Any]] = {}

    def called(name: str, call_id: str, given: Any) -> None:
        found.append([name, given, ""])
        by_id[call_id] = found[-1]

    for item in value.get("messages") or value["input"]:
        for block in item["content"] if isinstance(item.get("content"), list) else []:
            if block["type"] == "tool_use":
                called(block["name"], block["id"], block["input"])
            elif block["type"] == "tool_result":
                by_id[block["tool_use_id"]][2] = _text(block["content"])
        for call in item.get("tool_calls", []):
            given = json.loads(call["function"]["arguments"])
            called(call["function"]["name"], call["id"], given)
        if item.get("role") == "tool":
            by_id[item["tool_call_id"]][2] = _text(item["content"])
        if item.get("type") == "function_call":
            called(item["name"], item["call_id"], json.loads(item["arguments"]))
        elif item.get("type") == "custom_tool_call":
            called(item["name"], item["call_id"], item["input"])
        elif str(item.get("type", "")).endswith("_call_output"):
            by_id[item["call_id"]][2] = _text(item["output"])
    return [(name, given, result) for name, given, result in found]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)
