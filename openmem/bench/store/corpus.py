"""Lines and sessions like those of agents: code, logs, a little Chinese. All from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from openmem.context.formats.messages import split_request
from openmem.context.store.model import Incoming

RARE = "quokkafish"
COMMON = "retry"
_CODE = (
    *("socket", "column", "parser", "buffer", "review", "branch", "deploy", "figure", "margin"),
    *("thread", "policy", "window", "ledger", "signal", "update", "before", "after", "while"),
    *("return", "import", "assert", "yields", "raises", "between", "index", "value", "result"),
)
_HAN = "\u8fde\u63a5\u88ab\u62d2\u7edd\u4fee\u526a\u4f1a\u8bdd\u6570\u636e\u5e93\u5931\u8d25"
_ROW_LINES = 22
_EVERY_TENTH = 0.1
_EVERY_SECOND = 0.5


class Corpus:
    """A source of lines. `common`: the share of lines that hold the word COMMON."""

    def __init__(self, seed: int, *, common: float = _EVERY_TENTH) -> None:
        self._chance = random.Random(seed)
        self._common = common

    def line(self) -> str:
        """Return a line of 15 to 90 characters."""
        chance = self._chance
        words = chance.choices(_CODE, k=chance.randint(3, 11))
        if chance.random() < self._common:
            words[-1] = COMMON
        kind = chance.random()
        if kind < 0.7:
            indent = " " * (4 * chance.randint(0, 3))
            return f"{indent}{words[0]}_{chance.randrange(10_000)} = {' '.join(words[1:])}"
        if kind < 0.98:
            second = chance.randrange(86_400)
            return f"2026-11-30 {second:05d} INFO {words[0]}[{chance.randrange(9999)}] " + " ".join(
                words[1:]
            )
        return "".join(chance.choices(_HAN, k=12)) + f" {' '.join(words[1:])}"

    def lines(self, count: int, *, rare_at: tuple[int, ...] = ()) -> list[str]:
        """Return so many lines; those at `rare_at` hold the word RARE."""
        found = [self.line() for _ in range(count)]
        for place in rare_at:
            found[place] += f" {RARE}"
        return found


def rows_of(lines: list[str], row_lines: int = _ROW_LINES) -> list[str]:
    """Return the lines as texts of so many lines each."""
    return [
        "\n".join(lines[start : start + row_lines]) for start in range(0, len(lines), row_lines)
    ]


def incoming_of(texts: list[str], *, agent_id: str = "") -> Incoming:
    """Return one request whose messages say the texts, a person's and a tool's in turns."""
    messages: list[dict[str, object]] = []
    for number, text in enumerate(texts):
        if number % 2 == 0:
            messages.append({"role": "user", "content": text})
            continue
        name = f"toolu_{number}"
        call = {"type": "tool_use", "id": name, "name": "Bash", "input": {"n": number}}
        result = {"type": "tool_result", "tool_use_id": name, "content": text}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [result]})
    body = json.dumps({"model": "claude-opus-5-5", "max_tokens": 100, "messages": messages})
    kind = "sub-agent" if agent_id else "main"
    return Incoming(
        agent="claude-code",
        view=split_request(body.encode()),
        kind=kind,  # type: ignore[arg-type]
        agent_id=agent_id,
    )


def json_lines(texts: list[str]) -> Iterator[str]:
    """Yield the texts as an agent's own log would hold them, one JSON object a line."""
    for number, text in enumerate(texts):
        role = "tool" if number % 2 else "user"
        yield json.dumps({"seq": number, "role": role, "text": text}, ensure_ascii=False) + "\n"
