"""The made-up conversations of the benches: legal, of the wanted size, growing at the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openmem.bench.proxy import SIZES
from openmem.bench.traffic import Conversation
from tests.fakes.strict.legality import first_fault


def _conversation(size: int, folder: str = "/home/dev/project") -> Conversation:
    return Conversation("s", size_bytes=size, folder=folder)


@pytest.mark.parametrize(("name", "size", "limit"), SIZES)
def test_a_conversation_has_the_wanted_size_and_is_legal(
    name: str, size: int, limit: float
) -> None:
    """Issue 2, "Show it": 10 KB, 300 KB, 3 MB; the service would take them."""
    body = _conversation(size).body()
    assert 0.85 * size < len(body) < 1.25 * size
    assert first_fault(json.loads(body)) is None
    assert limit > 1


def test_growing_only_appends() -> None:
    """Ours: each sample must be a resent history with one new exchange."""
    conversation = _conversation(10_000)
    before: dict[str, Any] = json.loads(conversation.body())
    conversation.grow()
    after: dict[str, Any] = json.loads(conversation.body())
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert len(after["messages"]) == len(before["messages"]) + 2
    assert {**after, "messages": 0} == {**before, "messages": 0}


def test_the_same_arguments_give_the_same_bytes() -> None:
    """Ours: two runs of a bench measure the same work."""
    assert _conversation(10_000).body() == _conversation(10_000).body()
    assert _conversation(10_000, "/home/dev/other").body() != _conversation(10_000).body()
