"""Whole sessions of Codex through the real proxy before the strict fake service."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from openmem.base.paths import Paths
from openmem.context.overview import overview
from openmem.context.proxy.settings import ProxySettings
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from openmem.context.store.reader import open_session
from openmem.context.trim.limits import TrimSettings
from tests.fakes.codex_conversation import CodexConversation, output_of
from tests.fakes.proxied import write_policy
from tests.fakes.responses_server import FakeResponses
from tests.fakes.running_proxy import RunningProxy, ask
from tests.fakes.script import play

TARGET = "/a/codex/responses"
SETTINGS = TrimSettings(soft_tokens=6_000, hard_tokens=9_000, compress_tokens=1_500)
POINTER = "[openmem: session_id="


class Bench:
    """A client, our proxy and the strict service; `packed`: bodies go out as zstd."""

    def __init__(self, paths: Paths, port: int, service: FakeResponses, folder: str) -> None:
        self.paths, self.port, self.service = paths, port, service
        self.client = CodexConversation(folder=folder)
        self.packed = False

    def send(self, kind: str = "turn") -> int:
        body = self.client.bytes(is_compaction=kind == "compaction")
        headers = self.client.headers(kind)
        if self.packed:
            body = zstandard.compress(body)
            headers.append(("content-encoding", "zstd"))
        answer = ask(self.port, "POST", TARGET, headers=headers, body=body)
        if kind == "turn" and answer.status == 200:
            self.client.answer(output_of(answer.body))
        return answer.status

    def turn(self, prompt: str, sizes: list[int]) -> None:
        steps: list[dict[str, Any]] = [
            {"think": "hm", "call": {"name": "exec_command", "input": {"cmd": f"do {n}"}}}
            for n in sizes
        ]
        steps.append({"think": "so", "say": f"done with {prompt[:20]}"})
        self.client.say(play(prompt, *steps))
        for number, size in enumerate(sizes):
            assert self.send() == 200
            self.client.results([f"{prompt} output {number}\n" + "line of text\n" * (size // 13)])
        assert self.send() == 200

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [record.json for record in self.service.records]


@pytest.fixture
def bench(home: Path, tmp_path: Path) -> Iterator[Bench]:
    paths, folder = Paths(os.environ), tmp_path / "work"
    folder.mkdir()
    write_policy(paths, allowed=str(folder))
    with FakeResponses() as service:
        settings = ProxySettings(paths=paths, routes={"codex": service.url}, trim=SETTINGS)
        with RunningProxy(settings) as proxy:
            yield Bench(paths, proxy.port, service, str(folder))


@pytest.mark.parametrize("packed", [False, True])
def test_a_long_session_of_codex_is_trimmed_kept_whole_and_never_refused(
    bench: Bench, packed: bool
) -> None:
    """Brief: the proxy trims `…/responses` too, zstd bodies as well; 0 refusals."""
    bench.packed = packed
    bench.turn("the staging database is heron-42", [900])
    for number in range(12):
        bench.turn(f"task {number}", [1500, 1500])
    assert bench.service.refusals == [] and bench.service.dropped == []
    last = json.dumps(bench.bodies[-1]["input"])
    assert POINTER in last and "heron-42" in last and "task 3 output 1" not in last
    sid = bench.client.sid
    query = Query(text="task 3 output 1", session_id=sid, in_context=False)
    page = search(bench.paths, query, Scope(all_workspaces=True))
    assert page.hits and not page.hits[0].in_context
    (summary,) = overview(bench.paths).sessions
    assert summary.trims >= 2
    with open_session(bench.paths, sid) as reader:
        kinds = [event.kind for event in reader.events()]
        texts = [row.text for row in reader.rows()]
    assert "fail_open" not in kinds
    assert sum("task 3 output 1" in text for text in texts) == 1
    sent = [record.request for record in bench.service.records]
    trimmed = [request for request in sent if POINTER.encode() in request.plain_body]
    assert trimmed and not any(request.header("content-encoding") for request in trimmed)


def test_a_summary_of_a_trimmed_session_is_asked_over_what_is_in_context(bench: Bench) -> None:
    """Ours: Codex's own compaction request follows the cut; in full it could be refused."""
    for number in range(10):
        bench.turn(f"task {number}", [1500, 1500])
    assert bench.send("compaction") == 200
    asked = json.dumps(bench.bodies[-1]["input"])
    assert POINTER in asked and "task 3 output 1" not in asked
    bench.client.compact("Ten tasks are done.")
    bench.turn("and then", [900])
    last = json.dumps(bench.bodies[-1]["input"])
    assert POINTER not in last and "Ten tasks are done." in last
    assert bench.service.refusals == []
    with open_session(bench.paths, bench.client.sid) as reader:
        kinds = [event.kind for event in reader.events()]
    # A history that the client itself rewrote is no fault of ours.
    assert "compaction" in kinds and "fail_open" not in kinds


def test_a_restarted_proxy_sends_the_same_prefix_to_codexs_service(
    home: Path, tmp_path: Path
) -> None:
    """Design, section 7: across restarts too."""
    paths, folder = Paths(os.environ), tmp_path / "work"
    folder.mkdir()
    write_policy(paths, allowed=str(folder))
    with FakeResponses() as service:
        settings = ProxySettings(paths=paths, routes={"codex": service.url}, trim=SETTINGS)
        with RunningProxy(settings) as proxy:
            bench = Bench(paths, proxy.port, service, str(folder))
            for number in range(20):
                bench.turn(f"task {number}", [1500, 1500])
                counts = [len(body["input"]) for body in bench.bodies[-4:]]
                if number and counts[1] < counts[0]:
                    break  # this turn began with a cut: the next one does not
        with RunningProxy(settings) as proxy:
            bench.port = proxy.port
            bench.client.say("and now")
            assert bench.send() == 200
    before, after = bench.bodies[-2]["input"], bench.bodies[-1]["input"]
    assert POINTER in json.dumps(after) and after[: len(before)] == before
    assert service.dropped == []


def test_a_call_that_wants_its_reasoning_back_gets_it(bench: Bench) -> None:
    """Decision table, profile R: "keep calls only after a test"; our own request, so our repair."""
    bench.service.wants_reasoning = True
    bench.turn("one long task", [1500] * 30)  # trimmed inside its own loop
    assert bench.service.refusals, "nothing was refused, so nothing was repaired"
    statuses = {record.status for record in bench.service.records}
    assert statuses == {200, 400}
    assert POINTER in json.dumps(bench.bodies[-1]["input"])
    with open_session(bench.paths, bench.client.sid) as reader:
        faults = [e for e in reader.events() if e.kind == "fail_open"]
    assert {e.values["error"] for e in faults} == {"BindingRefused"}
    assert len(faults) == len(bench.service.refusals)


def test_at_a_proven_limit_codex_is_told_in_the_providers_words(bench: Bench) -> None:
    """Issue 4 part 5: an error body in the provider's own shape, so that the agent compacts."""
    headers = bench.client.headers()
    bench.client.say("x" * 30_000)

    def refuse(request: Any, reply: Any) -> None:
        error = {"message": "maximum context length is 6000 tokens", "code": "x", "type": "y"}
        body = json.dumps({"error": error}).encode()
        reply.whole(400, [("content-type", "application/json")], body)

    bench.service.http._handle = refuse
    body = bench.client.bytes()
    first = ask(bench.port, "POST", TARGET, headers=headers, body=body)
    assert b"maximum context length" in first.body  # passed through as it came
    second = ask(bench.port, "POST", TARGET, headers=headers, body=body)
    error = json.loads(second.body)["error"]
    assert (second.status, error["code"]) == (400, "context_length_exceeded")
    assert error["message"].startswith("prompt is too long")
