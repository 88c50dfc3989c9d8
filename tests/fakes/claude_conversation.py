"""A client that behaves on the wire as Claude Code does, in both shapes, for driving a trim.

It keeps the whole history, resends it each time, moves its one cache marker to the last block of
the last content-carrying message, flips the formerly last message between list and string, and
heals itself when a thinking block is refused. Written from the observed behaviour in the
newest-models facts, section 2; texts are made up.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

NEWEST = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1")
OLDER = ("claude-sonnet-4-5", "claude-sonnet-4-6", "claude-opus-4-5")
KEEP_THINKING = {"type": "clear_thinking_20251015", "keep": "all"}
_MARK = {"type": "ephemeral"}


def reminder(text: str) -> dict[str, Any]:
    return {"type": "text", "text": f"<system-reminder>\n{text}\n</system-reminder>"}


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@dataclass(slots=True)
class ClaudeConversation:
    """One session's client. `messages`: as the client keeps them, without markers;
    `manages_context`: it sends `context_management`, for which it needs the beta."""

    model: str = "claude-opus-5-5"
    system: str = "You are a careful engineer. " * 40
    messages: list[dict[str, Any]] = field(default_factory=list)
    tools: list[str] = field(default_factory=lambda: ["Bash", "Read", "Edit"])
    effort: str = "medium"
    manages_context: bool = False
    heals: int = 0
    _calls: int = 0

    @property
    def is_newest(self) -> bool:
        return self.model in NEWEST

    def say(self, prompt: str, *, context: str = "") -> None:
        """Begin a turn with what the person types."""
        first = not self.messages
        head = [block(f"git status: clean, branch main, {len(self.system)}")] if first else []
        surroundings = "Primary working directory: /home/dev/site\nToday is Monday."
        if self.is_newest:
            self.messages.append({"role": "user", "content": [*head, block(prompt)]})
            said = [surroundings] if first else []
            said += [context] if context else []
            if said:
                message: dict[str, Any] = {"role": "system", "content": [block("\n\n".join(said))]}
                if first:
                    message["output_config"] = {"effort": self.effort}
                self.messages.append(message)
        else:
            said_blocks = [reminder(surroundings)] if first else []
            said_blocks += [reminder(context)] if context else []
            self.messages.append({"role": "user", "content": [*head, *said_blocks, block(prompt)]})

    def notify(self, text: str) -> None:
        """A sub-agent's end, which comes as a user message that no user wrote."""
        self.messages.append(
            {"role": "user", "content": [block(f"[SYSTEM NOTIFICATION - NOT USER INPUT]\n{text}")]}
        )

    def change_effort(self, effort: str) -> None:
        """On the newest models: settings without content, behind the prompt."""
        self.effort = effort
        if self.is_newest:
            self.messages.append(
                {"role": "system", "content": [], "output_config": {"effort": effort}}
            )

    def add_tool(self, name: str) -> None:
        """A server that was added before a resume: a tool behind the prompt."""
        self.tools.append(name)
        if self.is_newest:
            self.messages.append(
                {
                    "role": "system",
                    "content": [
                        block(f"The tool {name} is available."),
                        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}},
                    ],
                }
            )

    def answer(self, content: list[dict[str, Any]]) -> None:
        """Take in the model's reply."""
        self.messages.append({"role": "assistant", "content": copy.deepcopy(content)})

    def call(self, *inputs: str) -> list[dict[str, Any]]:
        """Return calls of the shell for a scripted model's reply."""
        return self.use(*(("Bash", {"command": text}) for text in inputs))

    def use(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Return tool calls for a scripted model's reply: (tool, input)."""
        found: list[dict[str, Any]] = []
        for name, given in calls:
            self._calls += 1
            number = f"toolu_{self._calls:05d}"
            found.append({"type": "tool_use", "id": number, "name": name, "input": given})
        return found

    def results(self, outputs: list[str], *, budget: bool = False) -> None:
        """Answer the open calls; a tool's hook or token reminder may follow."""
        opened = [
            entry["id"] for entry in self.messages[-1]["content"] if entry["type"] == "tool_use"
        ]
        content: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": name, "content": text}
            for name, text in zip(opened, outputs, strict=True)
        ]
        if budget and not self.is_newest:
            content.append(reminder("<total_tokens>123456 tokens left</total_tokens>"))
        self.messages.append({"role": "user", "content": content})
        if budget and self.is_newest:
            self.messages.append(
                {"role": "system", "content": [block("<total_tokens>123456 left</total_tokens>")]}
            )

    def compact(self, summary: str) -> None:
        """The agent's own compaction: a summary, then the last reply with its old thinking."""
        last = next(m for m in reversed(self.messages) if m["role"] == "assistant")
        self.messages = [
            {
                "role": "user",
                "content": [block(f"This session is being continued from before. {summary}")],
            },
            last,
        ]

    def heal(self) -> None:
        """What the client does after a refused thinking block: leave out all of it for good."""
        self.heals += 1
        for message in self.messages:
            if message["role"] == "assistant":
                message["content"] = [
                    entry for entry in message["content"] if entry["type"] != "thinking"
                ]
        self.messages = [m for m in self.messages if m["content"] or m["role"] == "system"]

    def body(self) -> dict[str, Any]:
        """Return the next request."""
        messages = copy.deepcopy(self.messages)
        for message in messages[:-1]:
            content = message["content"]
            if message["role"] == "user" and len(content) == 1 and content[0]["type"] == "text":
                message["content"] = content[0]["text"]  # only the newest goes as a list
        marked = next(m for m in reversed(messages) if m["content"])
        if isinstance(marked["content"], str):
            marked["content"] = [block(marked["content"])]
        if marked["content"][-1]["type"] != "thinking":
            marked["content"][-1]["cache_control"] = _MARK
        if self.model == "claude-fable-5-1" and marked["role"] == "system":
            marked["content"].append(block("First privately list what you need next."))
        thinking: dict[str, Any] = {"type": "adaptive", "display": "omitted"}
        if self.model in OLDER:
            thinking = {"type": "enabled", "budget_tokens": 31999}
        return {
            "model": self.model,
            "max_tokens": 32000,
            "system": [
                block(f"x-anthropic-billing-header: cc_version=2.1.332.{len(messages):03x};"),
                {**block("You are a coding agent."), "cache_control": _MARK},
                {**block(self.system), "cache_control": _MARK},
            ],
            "tools": [
                {
                    "name": name,
                    "description": "A tool.",
                    "input_schema": {"type": "object", "properties": {}},
                    **({"defer_loading": True} if name.startswith("late_") else {}),
                }
                for name in self.tools
            ],
            "messages": messages,
            "thinking": thinking,
            **({"context_management": {"edits": [KEEP_THINKING]}} if self.manages_context else {}),
            "stream": True,
        }

    def bytes(self) -> bytes:
        """Return the next request as the client serialises it."""
        return json.dumps(self.body(), ensure_ascii=False, separators=(",", ":")).encode()
