"""Session files of real agents as the streams of requests that they once were.

What a file does not tell (system prompt, tools, effort) is made up; order, texts, calls and
results are the files' own. For sessions that a client plays again: `real_sessions`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.session_files import FOLDER, objects

_MODEL = {"messages": "claude-opus-5-5", "responses": "gpt-6.2-sol", "chat": "m"}
Item = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One session. `states`: the history at each request, by how it grows: (items kept, added)."""

    name: str
    wire: str
    steps: list[tuple[int, list[Item]]]

    def requests(self) -> Iterator[bytes]:
        """Yield each request's body."""
        history: list[Item] = []
        written: list[str] = []
        key = "input" if self.wire == "responses" else "messages"
        frame = {"model": _MODEL[self.wire], "max_tokens": 32000}
        if self.wire == "messages":
            frame["thinking"] = {"type": "adaptive"}  # type: ignore[assignment]
        head = json.dumps(frame)[:-1]
        for kept, added in self.steps:
            history = [*history[:kept], *added]
            del written[kept:]
            written += [json.dumps(item, ensure_ascii=False) for item in added]
            if history:
                body = f'{head},"{key}":[{",".join(written)}]}}'
                yield body.encode("utf-8", "surrogatepass")


def streams() -> list[Stream]:
    """Return all sessions that hold at least two requests."""
    made = [_claude(path) for path in sorted(FOLDER.glob("claude-code/*.jsonl"))]
    made += [_codex(path) for path in sorted(FOLDER.glob("codex/*.jsonl"))]
    made += [_opencode(path) for path in sorted(FOLDER.glob("opencode/*.json"))]
    return [stream for stream in made if len(stream.steps) > 1]


def _claude(path: Path) -> Stream:
    """A request goes before each answer; blocks of one answer stand on lines of their own."""
    steps: list[tuple[int, list[Item]]] = []
    waiting: list[Item] = []
    count, newest, opened = 0, "", set[str]()
    answer: Item | None = None
    for record in objects(path):
        message = record.get("message")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        content = message.get("content")
        if record.get("isMeta") or record.get("isSidechain") or not content:
            continue
        if record.get("isCompactSummary"):
            count, waiting, answer, opened = 0, [], None, set()
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if record["type"] == "assistant":
            blocks = [b for b in blocks if b.get("type") != "thinking" or b.get("signature")]
            if not blocks:
                continue
            opened.update(b["id"] for b in blocks if b.get("type") == "tool_use")
            if answer is not None and message.get("id") == newest:
                answer["content"] += blocks
                continue
            if waiting and waiting[-1]["role"] == "user" and not opened - _called(blocks):
                steps.append((count, waiting))
                count, waiting = count + len(waiting), []
            newest, answer = str(message.get("id")), {"role": "assistant", "content": blocks}
            waiting.append(answer)
            continue
        results = {b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"}
        if not results <= opened or (opened and not results):
            continue  # of a call that another branch made, or said between a call and its result
        opened -= results
        answer = None
        if waiting and waiting[-1]["role"] == "user":
            waiting[-1]["content"] += blocks
        else:
            waiting.append({"role": "user", "content": list(blocks)})
    return Stream(name=path.name, wire="messages", steps=steps)


def _called(blocks: list[Item]) -> set[str]:
    return {block["id"] for block in blocks if block.get("type") == "tool_use"}


def _codex(path: Path) -> Stream:
    steps: list[tuple[int, list[Item]]] = []
    waiting: list[Item] = []
    count, opened = 0, set[str]()
    for record in objects(path):
        item = record.get("payload")
        if record.get("type") == "compacted" and isinstance(item, dict):
            history = item.get("replacement_history")
            if isinstance(history, list):
                count, waiting, opened = 0, list(history), set()
            continue
        if record.get("type") != "response_item" or not isinstance(item, dict):
            continue
        kind = str(item.get("type", ""))
        is_output = kind.endswith("_output")
        call = str(item.get("call_id", ""))
        if is_output and call not in opened:
            continue
        by_model = kind.endswith("_call") or kind == "reasoning" or item.get("role") == "assistant"
        said = waiting[-1] if waiting else {}
        asks = str(said.get("type", "")).endswith("_output") or said.get("role") == "user"
        if by_model and asks and not opened:
            steps.append((count, waiting))
            count, waiting = count + len(waiting), []
        if kind in ("function_call", "custom_tool_call"):
            opened.add(call)
        if is_output:
            opened.discard(call)
        waiting.append(item)
    return Stream(name=path.name, wire="responses", steps=steps)


def _opencode(path: Path) -> Stream:
    steps: list[tuple[int, list[Item]]] = []
    waiting: list[Item] = [{"role": "system", "content": "You are an engineer."}]
    count = 0
    for message in json.loads(path.read_text(encoding="utf-8")).get("messages", []):
        parts = message["parts"]
        text = "\n".join(p["text"] for p in parts if p["type"] == "text" and p.get("text"))
        if message["info"]["role"] == "user":
            if text:
                waiting.append({"role": "user", "content": text})
            continue
        if waiting and waiting[-1]["role"] in ("user", "tool"):
            steps.append((count, waiting))
            count, waiting = count + len(waiting), []
        tools = [p for p in parts if p["type"] == "tool" and p["state"]["status"] == "completed"]
        answer: Item = {"role": "assistant", "content": text or None}
        if tools:
            answer["tool_calls"] = [
                {"id": p["callID"], "type": "function",
                 "function": {"name": p["tool"], "arguments": json.dumps(p["state"]["input"])}}
                for p in tools
            ]  # fmt: skip
        if text or tools:
            waiting.append(answer)
        for part in tools:
            output = str(part["state"].get("output", ""))
            waiting.append({"role": "tool", "tool_call_id": part["callID"], "content": output})
    return Stream(name=path.name, wire="chat", steps=steps)
