"""Real sessions as conversations, for a client and a strict service that play them again.

Only what was said is taken; thinking is signed anew by the strict service, since the files' own
signatures are of another one. What a service would refuse in any case is mended: a call whose
result is missing goes, and the reverse. For the requests as they once were: `transcript_streams`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.session_files import objects

Block = dict[str, Any]


@dataclass(slots=True)
class Turn:
    """One answer and what led to it. `said`: blocks of the user's messages before it, in order;
    `begins_anew`: the client's history was replaced before."""

    said: list[list[Block]] = field(default_factory=list)
    reply: list[Block] = field(default_factory=list)
    thinks: bool = False
    begins_anew: bool = False


def _plain(block: Any) -> Block | None:
    """Return a block as a client sends it, None for what no request may hold."""
    if not isinstance(block, dict):
        return None
    if block.get("type") == "text":
        is_said = bool(str(block.get("text", "")).strip())
        return {"type": "text", "text": block["text"]} if is_said else None
    if block.get("type") == "tool_use":
        return {key: block[key] for key in ("type", "id", "name", "input") if key in block}
    if block.get("type") == "tool_result":
        kept = {key: block[key] for key in ("type", "tool_use_id", "content") if key in block}
        if isinstance(kept.get("content"), list):
            # The tools of the session are not declared here, so they cannot be referred to.
            found = [b for b in kept["content"] if isinstance(b, dict)]
            found = [b for b in found if b.get("type") in ("text", "image")]
            kept["content"] = [b for b in found if b["type"] != "text" or _plain(b)]
        return kept
    return block if block.get("type") in ("image", "document") else None


def claude_turns(path: Path) -> list[Turn]:
    """Return the answers of a Claude Code transcript's main thread."""
    turns: list[Turn] = []
    waiting = Turn()
    last_id = ""
    for entry in objects(path):
        message = entry.get("message")
        if entry.get("isSidechain") or not isinstance(message, dict):
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found = [b for b in map(_plain, blocks or []) if b is not None]
        if entry.get("type") == "user":
            if entry.get("isCompactSummary"):
                waiting = Turn(begins_anew=True)
            if found:
                waiting.said.append(found)
            last_id = ""
        elif entry.get("type") == "assistant":
            thinks = any(b.get("type") == "thinking" for b in blocks or [])
            if turns and last_id and last_id == message.get("id") and not waiting.said:
                turns[-1].reply += found
                turns[-1].thinks = turns[-1].thinks or thinks
                continue
            last_id = str(message.get("id", ""))
            waiting.reply, waiting.thinks = found, thinks
            turns.append(waiting)
            waiting = Turn()
    return _mended([turn for turn in turns if turn.reply])


def opencode_turns(path: Path) -> list[Turn]:
    """Return the answers of an exported session of OpenCode, in the same form."""
    turns: list[Turn] = []
    waiting = Turn()
    for message in json.loads(path.read_text())["messages"]:
        parts = message["parts"]
        texts = [{"type": "text", "text": p["text"]} for p in parts if p.get("text")
                 and p["type"] == "text"]  # fmt: skip
        if message["info"]["role"] == "user":
            waiting.said += [texts] if texts else []
            continue
        # Some of the files' ids were made unknown, so each call gets one of its own.
        calls = [(f"c{len(turns)}_{n}", p) for n, p in enumerate(parts) if p["type"] == "tool"]
        reply: list[Block] = [
            *texts,
            *(
                {
                    "type": "tool_use",
                    "id": name,
                    "name": p["tool"],
                    "input": p["state"].get("input") or {},
                }
                for name, p in calls
            ),
        ]
        if not reply:
            continue
        waiting.reply = reply
        waiting.thinks = any(p["type"] == "reasoning" for p in parts)
        turns.append(waiting)
        waiting = Turn()
        results = [
            {
                "type": "tool_result",
                "tool_use_id": name,
                "content": str(p["state"].get("output") or p["state"].get("error") or "-"),
            }
            for name, p in calls
        ]
        waiting.said += [results] if results else []
    return _mended(turns)


def _mended(turns: list[Turn]) -> list[Turn]:
    """Return the turns with every call answered at once, each in one message, and nothing else."""
    mended: list[Turn] = []
    for turn in turns:
        blocks = [block for said in turn.said for block in said]
        results = {b["tool_use_id"]: b for b in blocks if b["type"] == "tool_result"}
        others = [b for b in blocks if b["type"] != "tool_result"]
        asked: list[str] = []
        if mended and not turn.begins_anew:
            last = mended[-1]
            asked = [b["id"] for b in last.reply if b["type"] == "tool_use"]
            answered = [name for name in asked if name in results]
            if len(answered) < len(asked):
                kept = [b for b in last.reply if b.get("id", "") in ("", *answered)]
                last.reply = kept or [{"type": "text", "text": "(broken off)"}]
            asked = answered
        said: list[list[Block]] = []
        if asked:
            said.append([*(results[name] for name in asked), *others])
        elif others:
            said.append(others)
        elif not said:
            said.append([{"type": "text", "text": "(goes on)"}])
        mended.append(
            Turn(said=said, reply=turn.reply, thinks=turn.thinks, begins_anew=turn.begins_anew)
        )
    _number_calls(mended)
    if mended:
        last = mended[-1]
        last.reply = [b for b in last.reply if b["type"] != "tool_use"] or [
            {"type": "text", "text": "Done."}
        ]
    return mended


def _number_calls(turns: list[Turn]) -> None:
    """Give every call an id of its own: some of the files' were made unknown."""
    names: dict[str, str] = {}
    for number, turn in enumerate(turns):
        for said in turn.said:
            for block in said:
                if block["type"] == "tool_result":
                    block["tool_use_id"] = names[block["tool_use_id"]]
        calls = [block for block in turn.reply if block["type"] == "tool_use"]
        names = {block["id"]: f"toolu_{number}_{at}" for at, block in enumerate(calls)}
        for at, block in enumerate(calls):
            block["id"] = f"toolu_{number}_{at}"


def codex_items(path: Path) -> Iterator[tuple[list[Block], list[Block], bool]]:
    """Yield for each call of a Codex session (new input items, output items, begins anew)."""
    new: list[Block] = []
    output: list[Block] = []
    anew = False
    for entry in objects(path):
        payload = entry.get("payload")
        if not isinstance(payload, dict):
            continue
        if entry.get("type") == "compacted":
            if output:
                yield new, output, anew
            new, output, anew = list(payload.get("replacement_history") or []), [], True
            continue
        if entry.get("type") != "response_item":
            continue
        item = {k: v for k, v in payload.items() if v is not None}
        kind = str(item.get("type"))
        by_model = kind in ("reasoning", "function_call", "custom_tool_call") or (
            kind == "message" and item.get("role") == "assistant"
        )
        if kind not in ("message", "reasoning", "function_call", "custom_tool_call") and (
            not kind.endswith("_output")
        ):
            continue
        if by_model:
            output.append(item)
            continue
        if output:
            yield new, output, anew
            new, output, anew = [], [], False
        new.append(item)
    if output:
        yield new, output, anew
