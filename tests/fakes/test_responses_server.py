"""The fake Responses API: reasoning bound to its prefix, pairs of calls and outputs, the window."""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.responses_server import FakeResponses
from tests.fakes.script import play

Body = dict[str, Any]


def _post(server: FakeResponses, body: Body) -> tuple[int, dict[str, Any]]:
    client = http.client.HTTPConnection("127.0.0.1", server.http.port, timeout=10)
    try:
        client.request("POST", "/v1/responses", json.dumps(body))
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        client.close()


def _user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _developer(text: str) -> dict[str, Any]:
    return {**_user(text), "role": "developer"}


def _begun(server: FakeResponses, model: str = "gpt-6.2-sol") -> Body:
    """A conversation with a finished tool round, its reasoning, and a new prompt."""
    call = {"name": "exec_command", "input": {"cmd": "ls"}}
    prompt = play("go", {"think": "a", "call": call}, {"think": "b", "say": "done"})
    body: Body = {"model": model, "input": [_developer("base"), _user(prompt)]}
    for _ in range(2):
        status, response = _post(server, body)
        assert status == 200
        body["input"] += response["output"]
        last = response["output"][-1]
        if last["type"] == "function_call":
            output = {"type": "function_call_output", "call_id": last["call_id"], "output": "x"}
            body["input"].append(output)
    body["input"].append(_user("next"))
    return body


def _edit_first(body: Body) -> None:
    body["input"][0] = _developer("another base")


def _add_tools(body: Body) -> None:
    body["tools"] = [{"type": "function", "name": "new"}]


def _set_format(body: Body) -> None:
    body["text"] = {"format": {"type": "json_object"}}


@pytest.mark.parametrize("change", [_edit_first, _add_tools, _set_format])
def test_reasoning_after_a_changed_prefix_is_dropped_and_reported(
    change: Callable[[Body], None],
) -> None:
    """newest-models facts, 3 and 5.8: no error; listed in input_transformations."""
    with FakeResponses() as server:
        body = _begun(server)
        change(body)
        status, response = _post(server, body)
        reasoning = [item["id"] for item in body["input"] if item["type"] == "reasoning"]
    assert status == 200 and len(reasoning) == 2
    assert [t["item_id"] for t in response["input_transformations"]] == reasoning
    assert server.dropped == reasoning


def test_appending_and_other_settings_keep_reasoning() -> None:
    """newest-models facts, 3: append developer messages; effort and verbosity may change."""
    with FakeResponses() as server:
        body = _begun(server)
        body["input"].append({"type": "configuration_update", "reasoning": {"effort": "low"}})
        body |= {"reasoning": {"effort": "high"}, "text": {"verbosity": "low"}}
        body["instructions"] = "for this turn"
        assert _post(server, body)[1]["input_transformations"] == []
        older = _begun(server, "gpt-5.1-codex")
        older["instructions"] = "changed"
        assert len(_post(server, older)[1]["input_transformations"]) == 2


def test_a_call_is_never_without_its_output_nor_the_reverse() -> None:
    """newest-models facts, 5.8: orphan call or output: 400."""
    with FakeResponses() as server:
        body = _begun(server)
        for kind, words in (
            ("function_call", "No tool call found"),
            ("function_call_output", "No tool output found"),
        ):
            cut = copy.deepcopy(body)
            cut["input"] = [item for item in cut["input"] if item["type"] != kind]
            status, answer = _post(server, cut)
            assert status == 400 and words in answer["error"]["message"]
        assert _post(server, body)[0] == 200


def test_too_much_input_is_named_by_its_code() -> None:
    """newest-models facts, 5.8: context_length_exceeded."""
    with FakeResponses(window_tokens=100) as server:
        status, answer = _post(server, {"model": "m", "input": "x" * 1000})
        assert (status, answer["error"]["code"]) == (400, "context_length_exceeded")
        assert _post(server, {"model": "m", "input": "x"})[0] == 200


def test_a_stream_ends_with_the_whole_response() -> None:
    """Responses API, streaming: items are added, filled, done; completed holds all."""
    call = {"name": "mcp__openmem/recall", "input": {}}
    with FakeResponses() as server:
        client = http.client.HTTPConnection("127.0.0.1", server.http.port, timeout=10)
        prompt = play("go", {"think": "a", "say": "b", "call": call})
        body = {"model": "m", "stream": True, "input": [_user(prompt)]}
        client.request("POST", "/v1/responses", json.dumps(body))
        lines = client.getresponse().read().split(b"\n")
        client.close()
    events = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert output[2]["namespace"] == "mcp__openmem"
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert done == output
