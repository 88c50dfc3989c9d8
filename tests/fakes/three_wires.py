"""One conversation, written down in each of the three wire formats.

A conversation is a list of moves; `body_in(wire, moves)` gives the request that a client of that
format would send for it, ids and framing as that format has them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
Piece = str | bytes  # text, or an image's bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A word of the client's own: what it tells the model beside the person."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a person said."""

    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the model. `calls`: (tool, input); `results`: one for each call."""

    think: str = ""
    say: Sequence[str] = ()
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    results: Sequence[Sequence[Piece]] = field(default=())


Move = System | Said | Step
WIRES = ("messages", "responses", "chat")


def body_in(wire: str, moves: Sequence[Move], **fields: Any) -> bytes:
    """Return the request of a client of this format."""
    made = {"messages": _messages, "responses": _responses, "chat": _chat}[wire](moves)
    key = "input" if wire == "responses" else "messages"
    whole = {"model": "m", "stream": False, "tools": [{"name": "t"}], key: made, **fields}
    return json.dumps(whole).encode()


def _url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _messages(moves: Sequence[Move]) -> list[dict[str, Any]]:
    def part(piece: Piece) -> dict[str, Any]:
        if isinstance(piece, str):
            return {"type": "text", "text": piece}
        data = base64.b64encode(piece).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"type": "image", "source": source}

    out: list[dict[str, Any]] = []
    number = 0
    for move in moves:
        if isinstance(move, System):
            out.append({"role": "system", "content": move.text})
        elif isinstance(move, Said):
            out.append({"role": "user", "content": [part(piece) for piece in move.pieces]})
        else:
            blocks: list[dict[str, Any]] = []
            if move.think:
                blocks.append({"type": "thinking", "thinking": move.think, "signature": "c2ln"})
            blocks += [part(text) for text in move.say]
            ids = [f"toolu_{number + at}" for at in range(len(move.calls))]
            number += len(ids)
            for call, (name, given) in zip(ids, move.calls, strict=True):
                blocks.append({"type": "tool_use", "id": call, "name": name, "input": given})
            out.append({"role": "assistant", "content": blocks})
            if move.results:
                results = [
                    {
                        "type": "tool_result",
                        "tool_use_id": call,
                        "content": [part(p) for p in given],
                    }
                    for call, given in zip(ids, move.results, strict=True)
                ]
                out.append({"role": "user", "content": results})
    return out


def _responses(moves: Sequence[Move]) -> list[dict[str, Any]]:
    def part(piece: Piece, kind: str = "input_text") -> dict[str, Any]:
        if isinstance(piece, str):
            return {"type": kind, "text": piece}
        return {"type": "input_image", "image_url": _url(piece)}

    out: list[dict[str, Any]] = []
    for move in moves:
        if isinstance(move, System):
            out.append({"type": "message", "role": "developer", "content": [part(move.text)]})
        elif isinstance(move, Said):
            content = [part(piece) for piece in move.pieces]
            out.append({"type": "message", "role": "user", "content": content})
        else:
            if move.think:
                summary = [{"type": "summary_text", "text": move.think}]
                out.append(
                    {"type": "reasoning", "id": f"rs_{len(out)}", "summary": summary,
                     "content": None, "encrypted_content": f"c2VjcmV0{len(out)}"}
                )  # fmt: skip
            if move.say:
                content = [part(text, "output_text") for text in move.say]
                out.append(
                    {"type": "message", "id": f"msg_{len(out)}", "role": "assistant",
                     "status": "completed", "content": content}
                )  # fmt: skip
            ids = [f"call_{len(out) + at}" for at in range(len(move.calls))]
            for call, (name, given) in zip(ids, move.calls, strict=True):
                place, _, last = name.rpartition("__")
                item = {"type": "function_call", "call_id": call, "id": f"fc_{call}", "name": last,
                        "arguments": json.dumps(given), "status": "completed"}  # fmt: skip
                out.append({**item, "namespace": place} if place else item)
            for call, result in zip(ids, move.results, strict=bool(move.results)):
                is_text = len(result) == 1 and isinstance(result[0], str)
                output: Any = result[0] if is_text else [part(piece) for piece in result]
                out.append({"type": "function_call_output", "call_id": call, "output": output})
    return out


def _chat(moves: Sequence[Move]) -> list[dict[str, Any]]:
    def part(piece: Piece) -> dict[str, Any]:
        if isinstance(piece, str):
            return {"type": "text", "text": piece}
        return {"type": "image_url", "image_url": {"url": _url(piece)}}

    def content(pieces: Sequence[Piece]) -> Any:
        if len(pieces) == 1 and isinstance(pieces[0], str):
            return pieces[0]
        return [part(piece) for piece in pieces]

    out: list[dict[str, Any]] = []
    for move in moves:
        if isinstance(move, System):
            out.append({"role": "system", "content": move.text})
        elif isinstance(move, Said):
            out.append({"role": "user", "content": content(move.pieces)})
        else:
            message: dict[str, Any] = {"role": "assistant", "content": content(move.say) or None}
            if move.think:
                message["reasoning_content"] = move.think
            ids = [f"chatcall{len(out)}_{at}" for at in range(len(move.calls))]
            if ids:
                message["tool_calls"] = [
                    {"id": call, "type": "function",
                     "function": {"name": name, "arguments": json.dumps(given, indent=1)}}
                    for call, (name, given) in zip(ids, move.calls, strict=True)
                ]  # fmt: skip
            out.append(message)
            for call, result in zip(ids, move.results, strict=bool(move.results)):
                out.append({"role": "tool", "tool_call_id": call, "content": content(result)})
    return out
