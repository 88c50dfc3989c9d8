"""The prefix check of the strict fake server, request against request."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.anthropic_server import Accepted
from tests.fakes.faults import BINDING_BETA, MISMATCH_HEADER, Refusal
from tests.fakes.strict.rules import Account, StrictRules
from tests.fakes.wire import Request

Body = dict[str, Any]


def _request(*betas: str, path: str = "/v1/messages") -> Request:
    headers = (("anthropic-beta", ",".join(betas)),)
    return Request(method="POST", target=path, headers=headers, head=b"", body=b"")


def _body(model: str = "claude-opus-5-5") -> Body:
    return {
        "model": model,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=1.abc;"},
            {"type": "text", "text": "Be useful.", "cache_control": {"type": "ephemeral"}},
        ],
        "tools": [
            {"name": "Bash", "input_schema": {"type": "object"}},
            {"name": "Read", "input_schema": {"type": "object"}},
        ],
        "thinking": {"type": "adaptive"},
        "messages": [{"role": "user", "content": "one"}],
    }


def _think() -> dict[str, Any]:
    return {"type": "thinking", "thinking": "", "signature": ""}


def _say(
    rules: StrictRules, body: Body, *content: dict[str, Any], betas: tuple[str, ...] = ()
) -> None:
    """Send a request and append the model's answer to it."""
    verdict = rules.judge(_request(*betas), body, run="r")
    assert isinstance(verdict, Accepted), verdict
    answer = rules.finish(body, verdict, list(content))
    body["messages"].append({"role": "assistant", "content": answer})


def _ask(body: Body, text: str) -> None:
    body["messages"].append({"role": "user", "content": text})


def _conversation(rules: StrictRules, model: str = "claude-opus-5-5", turns: int = 3) -> Body:
    """A history of turns, each with thinking, that ends in a prompt."""
    body = _body(model)
    for turn in range(turns):
        _say(rules, body, _think(), {"type": "text", "text": f"answer {turn}"})
        _ask(body, f"prompt {turn}")
    return body


def _verdict(rules: StrictRules, body: Body, *betas: str, path: str = "/v1/messages") -> Any:
    return rules.judge(_request(*betas, path=path), body, run="r")


def _append(body: Body) -> None:
    body["messages"] += [
        {"role": "system", "content": "A note."},
    ]


def _move_markers(body: Body) -> None:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            for block in message["content"]:
                block.pop("cache_control", None)
    body["system"][1].pop("cache_control")
    last = body["messages"][-1]
    last["content"] = [
        {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
    ]


def _flip_strings(body: Body) -> None:
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]


def _other_settings(body: Body) -> None:
    body["max_tokens"] = 5
    body["output_config"] = {"effort": "low"}
    body["tool_choice"] = {"type": "none"}
    body["metadata"] = {"user_id": "x"}
    body["thinking"]["display"] = "omitted"


def _new_deferred_tool(body: Body) -> None:
    body["tools"].insert(0, {"name": "New", "input_schema": {}, "defer_loading": True})


def _tools_turned(body: Body) -> None:
    body["tools"].reverse()


def _new_attribution(body: Body) -> None:
    body["system"][0]["text"] = "x-anthropic-billing-header: cc_version=1.fff;"


def _without_thinking_at(*turns: int) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        answers = [m for m in body["messages"] if m["role"] == "assistant"]
        for turn in turns:
            answers[turn]["content"] = [b for b in answers[turn]["content"] if b["type"] == "text"]

    return change


def _summary_edited(body: Body) -> None:
    body["messages"][1]["content"][0]["thinking"] = "something else"


HARMLESS = {
    "append": _append,
    "markers": _move_markers,
    "strings": _flip_strings,
    "settings": _other_settings,
    "deferred tool": _new_deferred_tool,
    "tool order": _tools_turned,
    "attribution": _new_attribution,
    "thinking off the front": _without_thinking_at(0),
    "thinking off the end": _without_thinking_at(2),
    "all thinking off": _without_thinking_at(0, 1, 2),
    "summary text": _summary_edited,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_keeps_thinking_valid(name: str) -> None:
    """newest-models facts, 1.2: the rows marked valid."""
    rules = StrictRules()
    body = _conversation(rules)
    HARMLESS[name](body)
    assert isinstance(_verdict(rules, body), Accepted)


def _edit(path: list[Any], value: Any) -> Callable[[Body], None]:
    def change(body: Body) -> None:
        at: Any = body
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


def _drop_first_turn(body: Body) -> None:
    del body["messages"][:2]


def _split_first(body: Body) -> None:
    body["messages"][0]["content"] = [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "x"},
    ]


def _reused_deferred_reference(body: Body) -> None:
    body["tools"].append({"name": "New", "input_schema": {}})


BREAKING = {
    "first message edited": (_edit(["messages", 0, "content"], "uno"), "messages.0.content.0"),
    "later message edited": (_edit(["messages", 2, "content"], "x"), "messages.2.content.0"),
    "block added": (_split_first, "messages.0.content.1"),
    "turn dropped": (_drop_first_turn, "messages.0.content.0"),
    "system text": (_edit(["system", 1, "text"], "Be brief."), "system.0"),
    "tool renamed": (_edit(["tools", 0, "name"], "Shell"), "tools"),
    "tool added": (_reused_deferred_reference, "tools"),
}


@pytest.mark.parametrize("name", BREAKING)
def test_a_changed_prefix_is_refused_with_its_place(name: str) -> None:
    """newest-models facts, 1.2 and 1.3: the rows marked invalid, and the exact words."""
    change, place = BREAKING[name]
    rules = StrictRules()
    body = _conversation(rules)
    change(body)
    refusal = _verdict(rules, body)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 400
    assert "The block is bound to a different conversation." in refusal.message
    assert f"first at `{place}`" in refusal.message
    assert BINDING_BETA in refusal.message
    assert dict(refusal.headers)[MISMATCH_HEADER].endswith(";kind=signature_mismatch")


def test_counting_tokens_runs_the_same_check() -> None:
    """newest-models facts, 1.3: token counting gives the same 400."""
    rules = StrictRules()
    body = _conversation(rules)
    body["messages"][0]["content"] = "uno"
    assert isinstance(_verdict(rules, body, path="/v1/messages/count_tokens"), Refusal)


def test_thinking_cannot_leave_the_middle_nor_come_back() -> None:
    """newest-models facts, 1.2: a gap or a re-inserted block makes the later ones invalid."""
    rules = StrictRules()
    body = _conversation(rules)
    gap = copy.deepcopy(body)
    _without_thinking_at(1)(gap)
    assert isinstance(_verdict(rules, gap), Refusal)
    away = copy.deepcopy(body)
    _without_thinking_at(2)(away)
    _say(rules, away, _think(), {"type": "text", "text": "made while it was away"})
    _ask(away, "next")
    assert isinstance(_verdict(rules, away), Accepted)
    away["messages"][5] = body["messages"][5]
    assert isinstance(_verdict(rules, away), Refusal)


@pytest.mark.parametrize("signature", ["", "bm90IG91cnM=", "not base64"])
def test_a_broken_signature_is_refused_whatever_is_set(signature: str) -> None:
    """newest-models facts, 1.2: 400 always, drop_block does not help."""
    rules = StrictRules()
    body = _conversation(rules)
    body["messages"][1]["content"][0]["signature"] = signature
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    refusal = _verdict(rules, body, BINDING_BETA)
    assert isinstance(refusal, Refusal)
    assert refusal.message == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_an_old_account_lets_stale_thinking_pass_and_says_so_when_asked() -> None:
    """newest-models facts, 1.1 and 5.3: opus-5-5 on an older account."""
    rules = StrictRules(Account(age="old"))
    body = _conversation(rules)
    body["messages"][0]["content"] = "uno"
    quiet = _verdict(rules, body)
    assert isinstance(quiet, Accepted)
    assert quiet.transformations is None
    told = _verdict(rules, body, BINDING_BETA)
    assert isinstance(told, Accepted) and told.transformations is not None
    assert {t["type"] for t in told.transformations} == {"thinking_mismatch_allowed"}


def test_setting_the_behaviour_opts_an_old_account_in() -> None:
    """newest-models facts, 1.3: setting it opts an older account into enforcement."""
    rules = StrictRules(Account(age="old"))
    body = _conversation(rules)
    body["messages"][0]["content"] = "uno"
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "error"}
    refusal = _verdict(rules, body, BINDING_BETA)
    assert isinstance(refusal, Refusal)
    assert BINDING_BETA not in refusal.message


def test_drop_block_holds_for_one_request_only() -> None:
    """newest-models facts, 1.3 and 5.4: dropped and listed, never stored by the server."""
    rules = StrictRules()
    body = _conversation(rules)
    body["messages"][2]["content"] = "changed"
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    verdict = _verdict(rules, body, BINDING_BETA)
    assert isinstance(verdict, Accepted) and verdict.transformations is not None
    assert [t["path"] for t in verdict.transformations] == [
        "messages.3.content.0",
        "messages.5.content.0",
    ]
    del body["thinking"]["block_binding"]
    assert isinstance(_verdict(rules, body, BINDING_BETA), Refusal)


def test_block_binding_needs_its_beta() -> None:
    """newest-models facts, 1.3: the field without the header is an unknown input."""
    rules = StrictRules()
    body = _conversation(rules)
    body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    refusal = _verdict(rules, body)
    assert isinstance(refusal, Refusal)
    assert "block_binding: Extra inputs are not permitted" in refusal.message


def test_a_cloud_route_refuses_the_header_itself() -> None:
    """newest-models facts, 5.3."""
    rules = StrictRules(Account(refused_betas=frozenset({BINDING_BETA})))
    body = _conversation(rules)
    refusal = _verdict(rules, body, BINDING_BETA)
    assert isinstance(refusal, Refusal) and BINDING_BETA in refusal.message


def test_thinking_of_another_model_is_dropped_not_refused() -> None:
    """newest-models facts, 1.1 and 5.4: the model binding; haiku's own can be read by others."""
    rules = StrictRules()
    body = _conversation(rules)
    body["model"] = "claude-haiku-5-5"
    verdict = _verdict(rules, body, BINDING_BETA)
    assert isinstance(verdict, Accepted) and verdict.transformations is not None
    assert {t["reason"] for t in verdict.transformations} == {"model_binding_mismatch"}
    haiku = _conversation(rules, "claude-haiku-5-5")
    haiku["model"] = "claude-opus-5-5"
    verdict = _verdict(rules, haiku, BINDING_BETA)
    assert isinstance(verdict, Accepted) and verdict.transformations == []


def test_a_model_without_the_check_uses_stale_thinking_silently() -> None:
    """newest-models facts, 1.1: Opus 5, Sonnet 5 and older."""
    rules = StrictRules()
    body = _conversation(rules, "claude-opus-4-6")
    body["messages"][0]["content"] = "uno"
    verdict = _verdict(rules, body, BINDING_BETA)
    assert isinstance(verdict, Accepted) and verdict.transformations == []


@pytest.mark.parametrize("exempt", [True, False])
def test_the_one_request_nudge_follows_the_switch(exempt: bool) -> None:
    """newest-models facts, 2.3: a second block behind the marker, gone in the next request."""
    rules = StrictRules(Account(nudge_exempt=exempt))
    body = _body("claude-fable-5-1")
    marked = {"type": "text", "text": "tokens left", "cache_control": {"type": "ephemeral"}}
    body["messages"].append(
        {"role": "system", "content": [marked, {"type": "text", "text": "First"}]}
    )
    _say(rules, body, _think(), {"type": "text", "text": "ok"})
    body["messages"][1] = {"role": "system", "content": "tokens left"}
    _ask(body, "next")
    assert isinstance(_verdict(rules, body), Accepted) is exempt


def test_a_deferred_tool_counts_from_its_reference_on() -> None:
    """newest-models facts, 5.1: deferred ones only when referenced."""
    rules = StrictRules()
    body = _body()
    body["tools"].append({"name": "New", "input_schema": {}, "defer_loading": True})
    _say(rules, body, _think(), {"type": "text", "text": "before"})
    _ask(body, "two")
    addition = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "New"}}
    body["messages"].append({"role": "system", "content": [addition]})
    _say(rules, body, _think(), {"type": "text", "text": "after"})
    _ask(body, "three")
    body["tools"][-1]["description"] = "edited"
    refusal = _verdict(rules, body)
    assert isinstance(refusal, Refusal)
    assert refusal.message.startswith("messages.4.content.0")


def test_redacted_thinking_is_bound_too() -> None:
    """newest-models facts, 1.3: recovery takes thinking and redacted_thinking alike."""
    rules = StrictRules()
    body = _body()
    _say(rules, body, {"type": "redacted_thinking", "data": ""}, {"type": "text", "text": "ok"})
    _ask(body, "two")
    assert isinstance(_verdict(rules, json.loads(json.dumps(body))), Accepted)
    body["messages"][0]["content"] = "uno"
    assert isinstance(_verdict(rules, body), Refusal)
