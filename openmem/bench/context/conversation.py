"""One thread as Claude Code keeps and sends it: the whole history, every time.

Observed of 2.1.332 with the newest models (newest-models facts, section 2): three system blocks of
which the first differs in each request; what surrounds the first prompt in one system message
behind it; one cache marker in the messages, on the last block of the last message; a message of
one text goes as a list while it is the newest and as a string afterwards. Written out once per
message and form, because a history of megabytes is sent hundreds of times.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
Block = dict[str, Any]
_MARK = {"type": "ephemeral"}
MODEL = "claude-opus-5-5"
WINDOW_NOTE = "You are a coding agent. You work with tools and keep to what you are told."
_GUIDE = "Read before you write. Say what you did in one sentence. Keep every value exact. " * 30


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(slots=True)
class Thread:
    """The history of one thread. `tools`: as declared; `agent_id`: of a sub-agent, else "".

    `as_blocks`: every text is sent as a list and a second marker is set, which is how a client of
    another version sends the same history after a resume.
    """

    session_id: str
    folder: str
    tools: list[Block]
    agent_id: str = ""
    start_text: str = ""
    as_blocks: bool = False
    messages: list[Message] = field(default_factory=list)
    _written: list[str] = field(default_factory=list)
    _sent: int = 0

    def say(self, prompt: str) -> None:
        """Begin a turn."""
        content = [text_block(prompt)]
        if self.messages:
            self.messages.append({"role": "user", "content": content})
            return
        head = text_block("Git status at the start: branch main, clean.")
        self.messages.append({"role": "user", "content": [head, *content]})
        surroundings = f"# Environment\n - Primary working directory: {self.folder}\n"
        said = "\n\n".join(part for part in (self.start_text, surroundings) if part)
        self.messages.append(
            {
                "role": "system",
                "content": [text_block(said)],
                "output_config": {"effort": "medium"},
            }
        )

    def answer(self, content: list[Block]) -> None:
        """Take in a reply."""
        self.messages.append({"role": "assistant", "content": content})

    def results(self, results: list[tuple[str, str]]) -> None:
        """Answer the open tool calls: (id, text)."""
        content = [
            {"type": "tool_result", "tool_use_id": name, "content": text} for name, text in results
        ]
        self.messages.append({"role": "user", "content": content})

    def rewrite(self, messages: list[Message]) -> None:
        """Go on from another history."""
        self.messages = messages
        self._written = []

    def resume(self, *, as_blocks: bool) -> None:
        """Send the same history in another form from now on."""
        self.as_blocks = as_blocks
        self._written = []

    def body(self) -> bytes:
        """Return the next request."""
        self._sent += 1
        last = len(self.messages) - 1
        for message in self.messages[len(self._written) : last]:
            self._written.append(compact(self._old(message)))
        parts = self._written[:last]
        if self.as_blocks and last >= 2 and self.messages[last - 2]["role"] == "user":
            parts[last - 2] = compact(_marked(self.messages[last - 2]))
        parts.append(compact(_marked(self.messages[last])))
        sub = " cc_is_subagent=true;" if self.agent_id else ""
        frame = {
            "model": MODEL,
            "max_tokens": 32000,
            "system": [
                text_block(
                    f"x-anthropic-billing-header: cc_version=2.1.332.{self._sent:03x};{sub}"
                ),
                {**text_block(WINDOW_NOTE), "cache_control": _MARK},
                {**text_block(_GUIDE), "cache_control": _MARK},
            ],
            "tools": self.tools,
            "thinking": {"type": "adaptive", "display": "omitted"},
            "output_config": {"effort": "medium"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "metadata": {"user_id": compact({"session_id": self.session_id})},
            "stream": True,
        }
        return f'{compact(frame)[:-1]},"messages":[{",".join(parts)}]}}'.encode()

    def _old(self, message: Message) -> Message:
        content = message["content"]
        if self.as_blocks or message["role"] != "user" or len(content) != 1:
            return message
        if content[0]["type"] != "text":
            return message
        return {**message, "content": content[0]["text"]}


def _marked(message: Message) -> Message:
    *rest, last = message["content"]
    return {**message, "content": [*rest, {**last, "cache_control": _MARK}]}


def without_thinking(messages: list[Message]) -> list[Message]:
    """Return a history as the client heals it: no thinking is left."""
    healed = []
    for message in messages:
        content = [entry for entry in message["content"] if entry["type"] != "thinking"]
        if content:
            healed.append({**message, "content": content})
    return healed
