"""A client that behaves on the wire as Codex does, for driving the proxy and a trim.

It resends its whole input each time, ids included; tells permissions and environment before the
first prompt and again when they change; puts hook contexts into developer messages, between a call
and its output too; asks for a summary without tools. Written from the observed behaviour in the
newest-models facts, section 3, and the agents' facts, 3.3 and 3.4; texts are made up.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

Item = dict[str, Any]
NEWEST, OLDER = "gpt-6.2-sol", "gpt-5.1-codex"
SUMMARY_HEAD = (
    "Another language model started to solve this problem and produced a summary of its thinking "
    "process. Here is the summary:\n"
)
SUMMARY_PROMPT = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM."
)


def environment(folder: str, *, date: str = "2026-11-30") -> str:
    return (
        f"<environment_context>\n  <cwd>{folder}</cwd>\n  <shell>bash</shell>\n"
        f"  <current_date>{date}</current_date>\n</environment_context>"
    )


@dataclass(slots=True)
class CodexConversation:
    """One thread of one session. `parent`: the session's own thread, for a sub-agent.

    `is_remote`: the provider compacts, as the built-in one does, into one closed item.
    """

    sid: str = "0c0de000-0000-4000-8000-000000000001"
    folder: str = "/work/app"
    model: str = NEWEST
    parent: str = ""
    prompt: str = "You are an engineer who works with the tools given. " * 40
    items: list[Item] = field(default_factory=list)
    permissions: str = "read-only"
    is_remote: bool = False
    window: int = 0
    _ids: Any = field(default_factory=lambda: itertools.count(1))
    _calls: list[str] = field(default_factory=list)

    # --- what stands in the input

    def _message(self, role: str, *texts: str) -> Item:
        content = [{"type": "input_text", "text": text} for text in texts]
        return {
            "type": "message",
            "id": f"msg_{self.sid[-4:]}{next(self._ids):08d}",
            "role": role,
            "content": content,
        }

    def _tell_permissions(self) -> None:
        text = (
            f"<permissions instructions>\nsandbox {self.permissions}\n</permissions instructions>"
        )
        self.items.append(self._message("developer", text))

    def _begin(self) -> None:
        if self.model == NEWEST:
            tools = [{"type": "namespace", "name": "functions", "tools": ["exec"]}]
            self.items.append(
                {"type": "additional_tools", "id": f"at_{next(self._ids)}", "role": "developer",
                 "tools": tools}
            )  # fmt: skip
        self.items.append(self._message("developer", self.prompt))
        self._tell_permissions()
        self.items.append(self._message("user", environment(self.folder)))

    def say(self, prompt: str, *, context: str = "") -> None:
        """Begin a turn with what the person types. `context`: of a hook, behind the prompt."""
        if not self.items:
            self._begin()
        self.items.append(self._message("user", prompt))
        if context:
            self.items.append(self._message("developer", context))

    def answer(self, output: list[Item]) -> None:
        """Take a reply's items into the history as Codex resends them."""
        for item in output:
            kept = {key: value for key, value in item.items() if value is not None}
            if kept["type"] == "reasoning":
                kept["content"] = None
            if kept["type"].endswith("_call"):
                self._calls.append(str(kept["call_id"]))
            self.items.append(kept)

    def results(self, outputs: list[str], *, context: str = "") -> None:
        """Answer the open calls, in order. `context`: of a hook, before the outputs."""
        if context:
            self.items.append(self._message("developer", context))
        for call, output in zip(self._calls, outputs, strict=True):
            self.items.append(
                {"type": "function_call_output", "id": f"fco_{next(self._ids):08d}",
                 "call_id": call, "output": f"Process exited with code 0\nOutput:\n{output}"}
            )  # fmt: skip
        self._calls.clear()

    def change_sandbox(self, permissions: str) -> None:
        """Told before the next prompt, as developer and environment messages."""
        self.permissions = permissions
        self._tell_permissions()
        self.items.append(self._message("user", environment(self.folder, date="2026-12-01")))

    def change_effort(self, effort: str) -> None:
        """The built-in provider's way: an item that stays in place."""
        self.items.append({"type": "configuration_update", "reasoning": {"effort": effort}})

    def compact(self, summary: str) -> None:
        """Go on from a summary: prompts kept word for word, then surroundings, then the summary."""
        said = [item for item in self.items if _is_prompt(item)]
        head = [item for item in self.items if item["type"] == "additional_tools"][:1]
        base = next(item for item in self.items if item.get("role") == "developer"
                    and item["type"] == "message")  # fmt: skip
        self.window += 1
        if self.is_remote:
            self.items = [*head, base]
            self._tell_permissions()
            self.items += [self._message("user", environment(self.folder)), *said]
            closed = {"type": "compaction", "id": f"cmp_{next(self._ids)}"}
            self.items.append({**closed, "encrypted_content": summary})
            return
        self.items = [*head, base, *said[:-1]]
        self._tell_permissions()
        self.items.append(self._message("user", environment(self.folder)))
        self.items += [said[-1], self._message("user", SUMMARY_HEAD + summary)]

    # --- what is sent

    def body(self, *, is_compaction: bool = False) -> dict[str, Any]:
        items = [*self.items]
        if is_compaction and self.is_remote:
            items.append({"type": "compaction_trigger"})
        elif is_compaction:
            content = [{"type": "input_text", "text": SUMMARY_PROMPT}]
            items.append({"type": "message", "role": "user", "content": content})
        value: dict[str, Any] = {
            "model": self.model,
            "stream": True,
            "input": items,
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "reasoning": {"summary": "auto"},
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": self.parent or self.sid,
        }
        if self.model != NEWEST:
            value["tools"] = [] if is_compaction else [{"type": "function", "name": "exec_command"}]
        return value

    def bytes(self, *, is_compaction: bool = False) -> bytes:
        value = self.body(is_compaction=is_compaction)
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def headers(self, kind: str = "turn") -> list[tuple[str, str]]:
        """Return the headers that tell whose request it is."""
        told: dict[str, Any] = {
            "session_id": self.parent or self.sid,
            "thread_id": self.sid,
            "window_number": self.window,
            "request_kind": kind,
            "thread_source": "subagent" if self.parent else "user",
        }
        found = [
            ("content-type", "application/json"),
            ("session-id", self.parent or self.sid),
            ("thread-id", self.sid),
            ("x-client-request-id", self.sid),
            ("x-codex-window-id", f"{self.sid}:{self.window}"),
            ("user-agent", "codex_exec/0.171.0 (Debian 12.0.0; x86_64) dumb"),
        ]
        if self.parent:
            told["subagent_kind"] = "thread_spawn"
            found += [("x-codex-parent-thread-id", self.parent)]
            found += [("x-openai-subagent", "collab_spawn")]
        return [*found, ("x-codex-turn-metadata", json.dumps(told))]


def _is_prompt(item: Item) -> bool:
    if item.get("role") != "user":
        return False
    text = str(item["content"][0]["text"])
    return not text.startswith(("<environment_context>", SUMMARY_HEAD))


def output_of(stream: bytes) -> list[Item]:
    """Return the items of a streamed reply."""
    items = []
    for line in stream.decode().split("\n"):
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            if event["type"] == "response.output_item.done":
                items.append(event["item"])
    return items
