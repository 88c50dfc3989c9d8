"""How much of a prompt is kept where the system prompt is written as messages."""

from __future__ import annotations

import json
from typing import Any

from openmem.context.formats.registry import FORMATS
from openmem.context.proxy.recording.prefix import Thread
from openmem.context.proxy.recording.shape import prompt_of, shape_of
from openmem.context.proxy.recording.usage import Usage

HEAD = {"role": "system", "content": "You help."}
SAID = {"role": "user", "content": "hello"}
REPLY = {"role": "assistant", "content": "hi"}


def busts(*requests: list[dict[str, Any]], **fields: Any) -> list[tuple[str, int]]:
    """Return the cause and the messages kept of each request after the first."""
    thread, found = Thread(), []
    for number, messages in enumerate(requests):
        body = json.dumps({"model": "m", "messages": messages, **fields}).encode()
        view = FORMATS["chat"].split(body)
        known, kept = thread.compare(prompt_of(view, shape_of(view)), float(number))
        thread.remember(known, Usage(input_tokens=10))
        if number:
            found.append((kept.bust, kept.kept_messages))
    return found


def test_a_longer_conversation_keeps_all_of_the_prompt() -> None:
    """Events, `bust`: empty when everything is kept."""
    assert busts([HEAD, SAID], [HEAD, SAID, REPLY, SAID]) == [("", 2)]


def test_another_system_message_is_another_system_prompt() -> None:
    """Events, `bust`: the cause is named as for a prompt outside the messages."""
    other = {"role": "system", "content": "You do not."}
    assert busts([HEAD, SAID], [other, SAID, REPLY, SAID]) == [("system", 0)]


def test_a_history_that_was_rewritten_is_told_from_that() -> None:
    """Events, `bust`: what stands behind the system prompt is the conversation."""
    other = {"role": "user", "content": "hello there"}
    assert busts([HEAD, SAID], [HEAD, other, REPLY]) == [("messages", 1)]


def test_a_system_message_as_text_and_in_parts_is_the_same() -> None:
    """Events: equal in what clients change by themselves."""
    parts = {"role": "system", "content": [{"type": "text", "text": "You help."}]}
    assert busts([HEAD, SAID], [parts, SAID, REPLY]) == [("", 2)]


def test_the_system_prompt_is_counted_once() -> None:
    """Events, `prefix_bytes`: it stands among the messages here."""
    body = json.dumps({"model": "m", "messages": [HEAD, SAID]}).encode()
    view = FORMATS["chat"].split(body)
    thread = Thread()
    known, _ = thread.compare(prompt_of(view, shape_of(view)), 0.0)
    assert known.total_bytes == sum(len(bytes(raw)) for raw in view.messages)
