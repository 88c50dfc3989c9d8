"""The shape rules and the cache of the strict fake server."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.strict.cache import PromptCache
from tests.fakes.strict.legality import first_fault

Body = dict[str, Any]
MARKED = {"cache_control": {"type": "ephemeral"}}


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def _use(tool_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_id, "name": "Bash", "input": {}}


def _result(tool_id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": "out"}


def _user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def _assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def _system(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": content, **more}


THOUGHT = {"type": "thinking", "thinking": "", "signature": "x"}
EFFORT = {"output_config": {"effort": "low"}}


def _legal() -> Body:
    return {
        "model": "claude-opus-5-5",
        "tools": [{"name": "Bash"}, {"name": "Late", "defer_loading": True}],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "messages": [
            _user(_text("one")),
            _system("environment", **EFFORT),
            _assistant(THOUGHT, _use("a"), _use("b")),
            _user(_result("a"), _result("b")),
            _system("tokens left"),
            _assistant(_text("done")),
            _user(_text("two", **MARKED)),
            _system([], **EFFORT),
        ],
    }


def test_what_claude_code_sends_is_legal() -> None:
    """newest-models facts, 2.2: system messages after prompts and tool results, effort alone."""
    assert first_fault(_legal()) is None


def _with(*messages: dict[str, Any]) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        body["messages"] = list(messages)

    return change


def _five_markers(body: Body) -> None:
    body["system"] = [_text(str(n), **MARKED) for n in range(4)]


def _edits_turned(body: Body) -> None:
    edits = body["context_management"]["edits"]
    edits.insert(0, {"type": "clear_tool_uses_20250919"})


def _loop_without_thinking(body: Body) -> None:
    body["thinking"] = {"type": "enabled", "budget_tokens": 1000}
    body["messages"] = [
        _user(_text("one")),
        _assistant(_use("a")),
        _user(_result("a")),
        _assistant(THOUGHT, _use("b")),
        _user(_result("b")),
    ]


ILLEGAL: dict[str, tuple[Callable[[Body], None], str]] = {
    "no messages": (_with(), "at least one message"),
    "assistant first": (_with(_assistant(_text("x")), _user(_text("y"))), "first message"),
    "assistant last": (_with(_user(_text("x")), _assistant(_text("y"))), "prefill"),
    "system first": (_with(_system("x"), _user(_text("y"))), "must follow a user"),
    "system before user": (
        _with(_user(_text("x")), _system("n"), _user(_text("y"))),
        "must precede an assistant",
    ),
    "system after assistant": (
        _with(_user(_text("x")), _assistant(_text("y")), _system("n"), _user(_text("z"))),
        "must follow a user",
    ),
    "system between use and result": (
        _with(_user(_text("x")), _assistant(_use("a")), _system("n"), _user(_result("a"))),
        "must follow a user",
    ),
    "effort next to content is judged as one group": (
        _with(_user(_text("x")), _system([], **EFFORT), _system("n"), _user(_text("y"))),
        "must precede an assistant",
    ),
    "system without anything": (_with(_user(_text("x")), _system([])), "must have content"),
    "use without result": (
        _with(_user(_text("x")), _assistant(_use("a"), _use("b")), _user(_result("a"))),
        "without `tool_result`",
    ),
    "use never answered": (
        _with(_user(_text("x")), _assistant(_use("a")), _user(_text("y"))),
        "without `tool_result`",
    ),
    "result without use": (_with(_user(_result("a"))), "unexpected `tool_use_id`"),
    "result twice": (
        _with(_user(_text("x")), _assistant(_use("a")), _user(_result("a"), _result("a"))),
        "unexpected `tool_use_id`",
    ),
    "one id twice": (
        _with(_user(_text("x")), _assistant(_use("a"), _use("a")), _user(_result("a"))),
        "must be unique",
    ),
    "empty text": (_with(_user(_text(""))), "must be non-empty"),
    "blank text": (_with(_user(_text(" \n"))), "must be non-empty"),
    "empty content": (_with(_user()), "non-empty content"),
    "five markers": (_five_markers, "maximum of 4"),
    "marker on thinking": (
        _with(_user(_text("x")), _assistant({**THOUGHT, **MARKED}, _text("y")), _user(_text("z"))),
        "thinking.cache_control: Extra inputs",
    ),
    "unknown tool reference": (
        _with(
            _user(_text("x")),
            _assistant(_use("a")),
            _user({**_result("a"), "content": [{"type": "tool_reference", "tool_name": "No"}]}),
        ),
        "not found in available tools",
    ),
    "loop begins without thinking": (_loop_without_thinking, "Expected `thinking`"),
    "clear_thinking second": (_edits_turned, "must be the first edit"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_request_is_refused(name: str) -> None:
    """newest-models facts, 1.5 and 5.5."""
    change, words = ILLEGAL[name]
    body = _legal()
    change(body)
    refusal = first_fault(body)
    assert refusal is not None
    assert words in refusal.message


def test_a_known_reference_and_an_adaptive_loop_are_legal() -> None:
    """newest-models facts, 1.4: with adaptive thinking a turn need not begin with thinking."""
    body = _legal()
    _loop_without_thinking(body)
    body["thinking"] = {"type": "adaptive"}
    reference = {"type": "tool_reference", "tool_name": "Late"}
    body["messages"][-1] = _user({**_result("b"), "content": [reference]})
    assert first_fault(body) is None


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _long(turns: int) -> Body:
    body: Body = {"model": "m", "system": [_text("s" * 4000, **MARKED)], "messages": []}
    for turn in range(turns):
        body["messages"] += [_user(_text(f"{turn} " + "u" * 4000)), _assistant(_text("a" * 400))]
    body["messages"].append(_user(_text("end", **MARKED)))
    return body


def _account(cache: PromptCache, body: Body) -> tuple[int, int, int]:
    usage = cache.account(body, dropped=frozenset())
    read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    return read, written, usage["input_tokens"]


def test_a_grown_conversation_reads_what_it_wrote() -> None:
    """newest-models facts, 1.6: appended content reads the whole earlier prefix."""
    cache = PromptCache(_Clock())
    read, written, uncached = _account(cache, _long(2))
    assert read == 0 and written > 3000 and uncached == 0
    longer = _long(2)
    del longer["messages"][-1]["content"][0]["cache_control"]
    longer["messages"] += [_assistant(_text("ok")), _user(_text("more", **MARKED))]
    again, new, _ = _account(cache, longer)
    assert again == written
    assert 0 < new < 60


def test_an_edited_first_message_reads_only_the_system() -> None:
    """newest-models facts, 1.6: editing the first message."""
    cache = PromptCache(_Clock())
    _account(cache, _long(2))
    edited = _long(2)
    edited["messages"][0]["content"][0]["text"] += "!"
    read, written, _ = _account(cache, edited)
    assert 900 < read < 1100
    assert written > 2000


def test_an_entry_ends_with_its_life_and_a_read_renews_it() -> None:
    """newest-models facts, 1.6: 5 minutes, a read refreshes."""
    clock = _Clock()
    cache = PromptCache(clock)
    _account(cache, _long(1))
    for _ in range(3):
        clock.now += 200
        assert _account(cache, _long(1))[0] > 0
    clock.now += 301
    assert _account(cache, _long(1))[0] == 0


def test_the_lookback_ends_after_twenty_blocks() -> None:
    """newest-models facts, 1.6: lookback 20 blocks."""
    for added, reads_all in ((18, True), (30, False)):
        cache = PromptCache(_Clock())
        body = _long(1)
        written = _account(cache, body)[1]
        grown = copy.deepcopy(body)
        del grown["messages"][-1]["content"][0]["cache_control"]
        grown["messages"].append(_assistant(*[_text(str(n)) for n in range(added)]))
        grown["messages"].append(_user(_text("end", **MARKED)))
        assert (_account(cache, grown)[0] == written) is reads_all


@pytest.mark.parametrize(
    "change",
    [
        {"thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "low"}},
        {"tools": [{"name": "New"}]},
        {"model": "n"},
    ],
)
def test_a_setting_that_restarts_the_cache_does(change: dict[str, Any]) -> None:
    """newest-models facts, 1.2 and 1.6: thinking type, effort, tools, model."""
    cache = PromptCache(_Clock())
    written = _account(cache, _long(1))[1]
    read = _account(cache, {**_long(1), **change})[0]
    assert read < written
    deferred = {**_long(1), "tools": [{"name": "Later", "defer_loading": True}]}
    assert _account(cache, deferred)[0] == written
