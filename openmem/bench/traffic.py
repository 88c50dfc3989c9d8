"""Made-up conversations of a wanted size, that grow by one exchange as a real session does."""

from __future__ import annotations

import json
import random
from typing import Any

_WORDS = (
    *("socket", "retry", "column", "parser", "buffer", "review", "branch", "deploy", "figure"),
    *("margin", "thread", "policy", "window", "ledger", "signal", "update", "before", "after"),
    *("while", "return", "import", "assert", "yields", "raises", "between", "index", "thread"),
)


def _line(chance: random.Random) -> str:
    words = chance.choices(_WORDS, k=chance.randint(3, 12))
    indent = " " * (4 * chance.randint(0, 3))
    return f"{indent}{words[0]}_{chance.randrange(10_000)} = {' '.join(words[1:])}"


def _text(chance: random.Random, size: int) -> str:
    lines: list[str] = []
    while size > 0:
        lines.append(_line(chance))
        size -= len(lines[-1]) + 1
    return "\n".join(lines)


class Conversation:
    """A session's requests: `body()` is the next one, `grow()` adds an exchange and a prompt.

    `folder`: named in the environment text, so that the policy can place the session.
    """

    def __init__(self, session_id: str, *, size_bytes: int, folder: str, seed: int = 7) -> None:
        self.session_id = session_id
        self._chance = random.Random(seed)
        self._calls = 0
        environment = f"# Environment\n - Primary working directory: {folder}\n"
        first = [{"type": "text", "text": "Begin."}]
        self._messages: list[dict[str, Any]] = [
            {"role": "user", "content": first},
            {"role": "system", "content": environment},
        ]
        self._frame: dict[str, Any] = {
            "model": "claude-opus-5-5",
            "max_tokens": 4096,
            "stream": True,
            "system": [{"type": "text", "text": "You help with code. " * 20}],
            "metadata": {"user_id": json.dumps({"session_id": session_id})},
        }
        self._sizes = len(json.dumps(self._messages))
        while self._sizes < size_bytes - 700:
            self._exchange(min(2_000, max(150, size_bytes - self._sizes)))
        self.grow()

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self._sizes += len(json.dumps(message)) + 2

    def _exchange(self, size: int) -> None:
        """One tool round. `size`: rough bytes of its result."""
        self._calls += 1
        tool_id = f"toolu_{self._calls:024d}"
        call = {
            "type": "tool_use",
            "id": tool_id,
            "name": "Bash",
            "input": {"command": _line(self._chance).strip()},
        }
        note = {"type": "text", "text": _text(self._chance, 80)}
        self._add({"role": "assistant", "content": [note, call]})
        result = {
            "type": "tool_result",
            "tool_use_id": tool_id,
            "content": _text(self._chance, max(40, size - 400)),
        }
        self._add({"role": "user", "content": [result]})

    def grow(self) -> None:
        """Add an answer and the next prompt, the new content of one request."""
        text = _text(self._chance, 120)
        self._add({"role": "assistant", "content": [{"type": "text", "text": text}]})
        self._add({"role": "user", "content": _text(self._chance, 60)})

    def body(self) -> bytes:
        """Return the request as the agent would send it now."""
        body = {**self._frame, "messages": self._messages}
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
