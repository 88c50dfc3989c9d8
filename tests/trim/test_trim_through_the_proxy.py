"""Whole sessions through the real proxy before the strict fake service: kept, trimmed, accepted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.overview import overview
from openmem.context.proxy.settings import ProxySettings
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from openmem.context.session import request_trim
from openmem.context.store.reader import open_session
from openmem.context.trim.limits import TrimSettings
from openmem.mcp.get_answer import answer_get
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude_conversation import ClaudeConversation
from tests.fakes.faults import NAMED
from tests.fakes.proxied import TARGET, register, write_policy
from tests.fakes.running_proxy import RunningProxy, ask
from tests.fakes.script import play
from tests.fakes.strict.rules import Account, StrictRules

SID = "0a0a0a0a-trim"
SETTINGS = TrimSettings(soft_tokens=6_000, hard_tokens=9_000, compress_tokens=1_500)


@pytest.fixture
def paths(home: Path, tmp_path: Path) -> Paths:
    made = Paths(os.environ)
    folder = tmp_path / "work"
    folder.mkdir()
    write_policy(made, allowed=str(folder))
    register(made, SID, str(folder))
    return made


class Bench:
    """A client, our proxy and the strict service. `bodies`: what the service got, decoded."""

    def __init__(self, paths: Paths, proxy: RunningProxy, fake: FakeAnthropic) -> None:
        self.paths, self.proxy, self.fake = paths, proxy, fake
        self.client = ClaudeConversation()
        self.statuses: list[int] = []

    def send(self, *, sid: str = SID) -> dict[str, Any]:
        headers = [
            ("content-type", "application/json"),
            ("x-claude-code-session-id", sid),
            ("anthropic-beta", "interleaved-thinking-2025-05-14"),
        ]
        body = {**self.client.body(), "stream": False}
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        answer = ask(self.proxy.port, "POST", TARGET, headers=headers, body=raw)
        self.statuses.append(answer.status)
        message: dict[str, Any] = json.loads(answer.body)
        if answer.status == 200:
            self.client.answer(message["content"])
        return message

    def turn(self, prompt: str, sizes: list[int]) -> None:
        steps: list[dict[str, Any]] = [
            {"think": "hm", "call": {"name": "Bash", "input": {"command": f"do {n}"}}}
            for n in sizes
        ]
        steps.append({"think": "so", "say": f"done with {prompt[:20]}"})
        self.client.say(play(prompt, *steps))
        for number, size in enumerate(sizes):
            self.send()
            self.client.results([f"{prompt} output {number}\n" + "line of text\n" * (size // 13)])
        self.send()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [record.json for record in self.fake.of("t")]


@pytest.fixture
def bench(paths: Paths) -> Iterator[Bench]:
    rules = StrictRules(Account())
    with FakeAnthropic(rules=rules) as fake:
        settings = ProxySettings(
            paths=paths, routes={"claude-code": fake.url_of("t")}, trim=SETTINGS
        )
        with RunningProxy(settings) as proxy:
            yield Bench(paths, proxy, fake)


def text_of(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def test_a_long_session_is_trimmed_kept_whole_and_never_refused(bench: Bench) -> None:
    """Design, section 7; issue, Show it."""
    bench.turn("the staging database is heron-42", [900])
    for number in range(12):
        bench.turn(f"task {number}", [1500, 1500])
    assert set(bench.statuses) == {200}
    trimmed = [body for body in bench.bodies if "[openmem: session_id=" in text_of(body)]
    assert trimmed and "heron-42" in text_of(bench.bodies[-1])  # the first turn stays
    assert "task 3 output 1" not in text_of(bench.bodies[-1])
    page = search(
        bench.paths,
        Query(text="task 3 output 1", session_id=SID, in_context=False),
        Scope(all_workspaces=True),
    )
    assert page.hits and not page.hits[0].in_context
    (summary,) = overview(bench.paths).sessions
    assert summary.trims >= 2
    with open_session(bench.paths, SID) as reader:
        kinds = {event.kind for event in reader.events()}
        assert "fail_open" not in kinds and "trim" in kinds
        rows = {row.text.split("\n")[0]: row.in_context for row in reader.rows()}
    assert rows["task 3 output 1"] is False and rows["task 11 output 1"] is True


def test_a_restarted_proxy_sends_the_same_prefix(paths: Paths) -> None:
    """Design, section 7: across restarts too."""
    with FakeAnthropic(rules=StrictRules(Account())) as fake:
        settings = ProxySettings(
            paths=paths, routes={"claude-code": fake.url_of("t")}, trim=SETTINGS
        )
        with RunningProxy(settings) as proxy:
            bench = Bench(paths, proxy, fake)
            for number in range(20):
                bench.turn(f"task {number}", [1500, 1500])
                counts = [len(body["messages"]) for body in bench.bodies[-4:]]
                if number and counts[1] < counts[0]:
                    break  # this turn began with a cut: the next one does not
        with RunningProxy(settings) as proxy:
            bench.proxy = proxy
            bench.client.say("and now")
            bench.send()
        assert set(bench.statuses) == {200}
        before, after = bench.bodies[-2]["messages"], bench.bodies[-1]["messages"]
        assert any("[openmem: session_id=" in json.dumps(m) for m in after)
        assert [m["role"] for m in after[: len(before)]] == [m["role"] for m in before]


def test_a_person_may_ask_for_a_trim(bench: Bench) -> None:
    """Issue: `/smart-compact` trims on the next request."""
    for number in range(4):
        bench.turn(f"task {number}", [900, 900])
    assert not any("[openmem: session_id=" in text_of(body) for body in bench.bodies)
    request_trim(bench.paths, SID)
    bench.turn("go on", [])
    assert "[openmem: session_id=" in text_of(bench.bodies[-1])
    assert not os.path.exists(f"{bench.paths.sessions_dir}/{SID}.force")


def test_an_untrimmed_request_keeps_its_bytes(bench: Bench) -> None:
    """Design, section 7."""
    bench.client.say("hello")
    raw = bench.client.bytes()
    ask(
        bench.proxy.port,
        "POST",
        TARGET,
        headers=[("x-claude-code-session-id", SID)],
        body=raw,
    )
    assert bench.fake.of("t")[-1].request.body == raw


def test_a_shortened_result_is_fetched_whole(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Context store contract: a shortened tool result in full, by the id that it names."""
    with FakeAnthropic(rules=StrictRules(Account())) as fake:
        settings = ProxySettings(
            paths=paths,
            routes={"claude-code": fake.url_of("t")},
            trim=TrimSettings(soft_tokens=40_000, compress_tokens=400),
        )
        with RunningProxy(settings) as proxy:
            bench = Bench(paths, proxy, fake)
            bench.turn("old", [9000])
            bench.turn("first", [9000, 50, 50, 50])
            request_trim(paths, SID, keep_turns=2)
            bench.turn("then", [])
    assert set(bench.statuses) == {200}
    (named,) = text_of(bench.bodies[-1]).split('smart_compact_get(id=\\"')[1:]
    short = next(
        block["content"]
        for message in bench.bodies[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result" and "left out" in block["content"]
    )
    assert len(short) < 1000 < 9000
    folder = tmp_path / "work"
    monkeypatch.chdir(folder)
    environ = {**os.environ, "CLAUDE_PROJECT_DIR": str(folder), "CLAUDE_CODE_SESSION_ID": SID}
    got = answer_get(environ, {"id": named.partition('\\"')[0]}, {})
    assert isinstance(got, str)
    assert got.partition("\n")[2] == "first output 0\n" + "line of text\n" * (9000 // 13)


def test_a_refusal_of_a_body_of_ours_does_not_tell_the_client_our_indices(bench: Bench) -> None:
    """Decision table: remove the header, then the client strips everything; else leave it."""
    header = "anthropic-thinking-prefix-mismatch"

    def refused() -> dict[str, str]:
        body = {**bench.client.body(), "stream": False}
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = [("content-type", "application/json"), ("x-claude-code-session-id", SID)]
        answer = ask(bench.proxy.port, "POST", TARGET, headers=headers, body=raw)
        assert answer.status == 400
        return {name.lower(): value for name, value in answer.headers}

    bench.client.say("hello")
    bench.fake.faults["t", 1] = NAMED["binding"]
    assert header in refused()  # the client's own request: as the provider said it
    bench.client.messages.clear()
    for number in range(12):
        bench.turn(f"task {number}", [1500, 1500])
    assert "[openmem: session_id=" in text_of(bench.bodies[-1])
    bench.client.say("and now")
    at = len(bench.fake.of("t"))
    bench.fake.faults["t", at + 1] = NAMED["binding"]
    bench.fake.faults["t", at + 2] = NAMED["binding"]  # the repaired one, too
    assert header not in refused()
    assert len(bench.fake.of("t")) == at + 2
