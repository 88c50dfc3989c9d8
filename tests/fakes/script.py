"""What the fake model says next: steps given from Python, or written into the prompt.

A prompt carries its own script, `@@play [{"say": "done"}]`, because a real agent starts the
requests and a test has no other hand on them. The step is chosen by the request alone: the
number of assistant messages after the newest user text that holds a script. So a retry gets the
same answer, and a sub-agent whose task text holds a script plays that one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

MARK = "@@play "


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of the model."""

    name: str
    input: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One answer of the model.

    `say`, `think`: text, None for none · `calls`: tool calls, several run in parallel · `usage`:
    overrides reported counts · `delay_seconds`: before the first byte · `gap_seconds`: between two
    events · `pieces`: how many deltas a text is cut into · `fault`: a name from `faults.py` ·
    `cut_after`: events sent before the connection drops · `redacted`: thinking as a closed block.
    """

    say: str | None = None
    think: str | None = None
    calls: tuple[Call, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    delay_seconds: float = 0.0
    gap_seconds: float = 0.0
    pieces: int = 2
    fault: str = ""
    cut_after: int | None = None
    redacted: bool = False
    stop_reason: str = ""


def step_of(raw: dict[str, Any]) -> Step:
    """Return the step that a JSON object describes; TypeError on a key that no step has."""
    values = dict(raw)
    calls = [values.pop("call")] if "call" in values else values.pop("calls", [])
    return Step(calls=tuple(Call(**call) for call in calls), **values)


def steps_in(text: str) -> list[Step] | None:
    """Return the script written in a text, None when it holds none that parses."""
    start = text.find(MARK)  # the first: a later one stands inside its JSON, for a sub-agent
    if start < 0:
        return None
    try:
        raw, _ = json.JSONDecoder().raw_decode(text[start + len(MARK) :].lstrip())
        return [step_of(one) for one in raw]
    except (ValueError, TypeError):
        return None


def play(prompt: str, *steps: dict[str, Any]) -> str:
    """Return a prompt that carries its own script."""
    return f"{prompt} {MARK}{json.dumps(list(steps))}"


def texts_of(message: dict[str, Any]) -> list[str]:
    """Return the plain text blocks of a message; tool results do not count."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [b.get("text", "") for b in content if isinstance(b, dict) and b.get("type") == "text"]


def next_step(messages: list[dict[str, Any]], *, otherwise: Step) -> Step:
    """Return the step that a request's own messages ask for."""
    steps: list[Step] | None = None
    answered = 0
    for message in messages:
        if message.get("role") == "assistant":
            answered += 1
        elif message.get("role") == "user":
            for text in texts_of(message):
                found = steps_in(text)
                if found is not None:
                    steps, answered = found, 0
    if steps is None:
        return otherwise
    return steps[answered] if answered < len(steps) else Step(say="(script ended)")
