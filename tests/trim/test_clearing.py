"""The provider's own clearing: where its edit goes into a body, and what never changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openmem.bench.context.clearing import Applied, Reading, applied, as_seen
from openmem.context.trim.clearing import EDIT, Clearing, with_clearing

CLEARING = Clearing(trigger=100_000, keep=3, at_least=25_000)
KEEP = '{"type":"clear_thinking_20251015","keep":"all"}'
OURS = CLEARING.edit().decode()
SPOKEN = '{"role":"user","content":"say \\"context_management\\":{\\"edits\\":[]} 1e400"}'


def body(field: str, *, before: str = "", after: str = "") -> bytes:
    return (
        f'{before}{{"model":"m", "messages" : [{SPOKEN}],\n"context_management": {field}'
        f',"n":12345678901234567890123}}{after}'
    ).encode()


@pytest.mark.parametrize(
    ("field", "made"),
    [
        (f'{{"edits":[{KEEP}]}}', f'{{"edits":[{KEEP},{OURS}]}}'),
        (f'{{ "edits" : [ {KEEP} ] , "x":1}}', f'{{ "edits" : [ {KEEP} ,{OURS}] , "x":1}}'),
        ('{"x":"\\\\\\"","edits":[]}', f'{{"x":"\\\\\\"","edits":[{OURS}]}}'),
        ('{"edits":[ ]}', f'{{"edits":[ {OURS}]}}'),
    ],
)
def test_the_edit_is_one_insertion_behind_the_clients_own(field: str, made: str) -> None:
    """Issue 4, part 8: prefix and messages untouched, byte for byte."""
    for before, after in (("", ""), (" \n", "\n")):
        sent = body(field, before=before, after=after)
        assert with_clearing(sent, CLEARING) == body(made, before=before, after=after)


@pytest.mark.parametrize(
    "field",
    [
        f'{{"edits":[{KEEP},{OURS}]}}',
        '{"edits":[{"type":"clear_tool_uses_20250919"}]}',
        '{"edits":[{"type":"compact_20260112"}]}',
        '{"edits":[{"type":7}]}',
        '{"edits":{}}',
        '{"edits":["x"]}',
        "{}",
        "null",
        "[]",
        f'{{"edits":[{KEEP}],"edits":[]}}',
        '{"edits":[],"edits":[]}',
        '{"edits":[], "edits" : [] }',
    ],
)
def test_where_the_client_clears_itself_or_does_what_we_do_not_know_nothing_is_added(
    field: str,
) -> None:
    """Issue 4, part 8: never twice, only for request profiles where it is legal."""
    assert with_clearing(body(field), CLEARING) is None


@pytest.mark.parametrize(
    "sent",
    [
        b'{"messages":[{"role":"user","content":"\\"context_management\\":{\\"edits\\":[]}"}]}',
        b'{"messages":[],"metadata":{"context_management":{"edits":[]}}}',
        b'{"context_management":{"edits":[]},"context_management":{"edits":[]}}',
        b'{"context_management":{"edits":[]},"model":"a","model":"b"}',
        b'{"context_management":{"edits":[]}',
        b'{"context_management":{"edits":[]}}{}',
        b'{"messages":["\\ud83d"],"context_management":{"edits":[]}}',
        b'["context_management"]',
        b'"context_management"',
        b"",
        b"\xff" + b'"context_management"',
    ],
)
def test_a_body_that_is_not_plainly_a_managed_request_goes_untouched(sent: bytes) -> None:
    """Issue 4, bad input."""
    assert with_clearing(sent, CLEARING) is None


def _request(results: int, size: int, *, keep: int = 3, at_least: int = 0) -> dict[str, Any]:
    edit = {
        "type": EDIT,
        "trigger": {"type": "input_tokens", "value": 1_000},
        "keep": {"type": "tool_uses", "value": keep},
        "clear_at_least": {"type": "input_tokens", "value": at_least},
    }
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(results):
        name = f"t{number}"
        messages += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": name, "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": name, "content": f"{number:04d}" * size}
                ],
            },
        ]
    return {"messages": messages, "context_management": {"edits": [edit]}}


def _applied(request: dict[str, Any], reading: Reading) -> Applied:
    def measure(block: Any) -> int:
        return len(json.dumps(block))

    return applied(request, head_tokens=100, measure=measure, reading=reading)


def test_the_simulation_keeps_the_newest_and_clears_only_when_it_is_worth_it() -> None:
    """The vendor's page on context editing: trigger, keep, clear_at_least."""
    for reading in ("batches", "each"):
        assert _applied(_request(2, 20), reading).gone == frozenset()  # type: ignore[arg-type]
        assert _applied(_request(3, 200), reading).gone == frozenset()  # type: ignore[arg-type]
        none = _applied(_request(6, 200, at_least=9_000), reading)  # type: ignore[arg-type]
        assert none.report() == {"applied_edits": []}
    request = _request(6, 200)
    what = _applied(request, "each")
    assert what.gone == {"t0", "t1", "t2"}
    seen = as_seen(request, what)
    assert [len(str(m["content"])) > 500 for m in seen["messages"][2::2]] == [False] * 3 + [
        True
    ] * 3
    assert len(json.dumps(request)) - len(json.dumps(seen)) == what.tokens


def test_a_clearing_in_batches_lasts_and_one_of_each_request_moves() -> None:
    """Both readings of "subsequent requests can reuse the newly cached prefix"."""
    batches = [
        len(_applied(_request(n, 200, at_least=1_500), "batches").gone) for n in range(1, 14)
    ]
    each = [len(_applied(_request(n, 200, at_least=1_500), "each").gone) for n in range(1, 14)]
    assert sorted(batches) == batches and len(set(batches)) < len(set(each))
    assert each[-4:] == [7, 8, 9, 10]
