"""Our own check of a trimmed body, held against the strict rules, which share no code with it."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from openmem.context.trim.legality import first_fault
from tests.fakes.claude_conversation import ClaudeConversation, block
from tests.fakes.strict.legality import first_fault as strict_fault


def conversation(model: str = "claude-opus-5-5") -> dict[str, Any]:
    client = ClaudeConversation(model=model)
    client.say("first")
    client.answer([{"type": "thinking", "thinking": "", "signature": "s"}, *client.call("a", "b")])
    client.results(["one", "two"], budget=True)
    client.answer([block("done")])
    client.say("second", context="a hook")
    client.answer([{"type": "thinking", "thinking": "", "signature": "s"}, *client.call("c")])
    client.results(["three"])
    return client.body()


def faults(body: dict[str, Any]) -> tuple[bool, bool]:
    return bool(first_fault(json.dumps(body).encode())), strict_fault(body) is not None


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5"])
def test_what_a_client_sends_is_legal(model: str) -> None:
    """Decision table: check every trimmed body before sending."""
    assert faults(conversation(model)) == (False, False)


BROKEN = {
    "assistant first": lambda m: m.pop(0),
    "result without its call": lambda m: m.pop(2),
    "call without its result": lambda m: m.pop(3),
    "system before the user's": lambda m: m.insert(5, m.pop(1)),
    "empty text": lambda m: m[0].update(content=[block("")]),
    "empty message": lambda m: m[0].update(content=[]),
    "ends with the assistant": lambda m: m.append({"role": "assistant", "content": [block("x")]}),
    "unknown role": lambda m: m[0].update(role="tool"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_body_is_told(name: str) -> None:
    """Newest-models facts, 5.5."""
    body = conversation()
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [block(message["content"])]
    BROKEN[name](body["messages"])
    assert faults(body) == (True, True)


def test_too_many_markers_and_a_bare_loop_are_told() -> None:
    """Newest-models facts, 1.6 and 1.4."""
    body = conversation()
    for tool in body["tools"]:
        tool["cache_control"] = {"type": "ephemeral"}
    assert faults(body) == (True, True)
    body = conversation("claude-sonnet-4-5")
    for message in body["messages"]:
        if message["role"] == "assistant":
            message["content"] = [b for b in message["content"] if b["type"] != "thinking"]
    assert faults(body) == (True, True)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_that_the_strict_rules_refuse_passes_ours(seed: int) -> None:
    """Property: the two were written from the same page, apart. Ours also refuses a user's text
    between a call and its result, which the provider may or may not merge."""
    source = random.Random(seed)
    body = copy.deepcopy(conversation(source.choice(["claude-opus-5-5", "claude-sonnet-4-5"])))
    messages = body["messages"]
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(messages))
        if source.random() < 0.5 and len(messages) > 1:
            messages.pop(at)
        else:
            messages.insert(at, messages.pop(source.randrange(len(messages))))
    ours, strict = faults(body)
    assert ours or not strict
