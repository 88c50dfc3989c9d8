"""The provider's clearing through the real proxy before the strict fake service."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.overview import overview
from openmem.context.prices import load_prices
from openmem.context.proxy.settings import ProxySettings
from openmem.context.report.course import courses_of
from openmem.context.report.timeline import strand_of
from openmem.context.store.reader import open_session
from openmem.context.trim.clearing import EDIT
from openmem.context.trim.limits import TrimSettings
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude_conversation import KEEP_THINKING, ClaudeConversation
from tests.fakes.proxied import TARGET, register, write_policy
from tests.fakes.running_proxy import RunningProxy, ask
from tests.fakes.script import play
from tests.fakes.strict.rules import CONTEXT_BETA, Account, StrictRules

SID = "0c0c0c0c-clear"
CLEARS = TrimSettings(
    soft_tokens=6_000, hard_tokens=9_000, compress_tokens=1_500, clears_tool_uses=True
)
ALONE = replace(CLEARS, is_on=False)


@pytest.fixture
def paths(home: Path, tmp_path: Path) -> Paths:
    made = Paths(os.environ)
    folder = tmp_path / "work"
    folder.mkdir()
    write_policy(made, allowed=str(folder))
    register(made, SID, str(folder))
    return made


class Bench:
    """A client that manages its context, our proxy and the strict service."""

    def __init__(self, paths: Paths, proxy: RunningProxy, fake: FakeAnthropic) -> None:
        self.paths, self.proxy, self.fake = paths, proxy, fake
        self.client = ClaudeConversation(manages_context=True)
        self.statuses: list[int] = []
        self.sent: list[bytes] = []
        self.told: list[Any] = []

    def send(self) -> None:
        headers = [
            ("content-type", "application/json"),
            ("x-claude-code-session-id", SID),
            ("anthropic-beta", f"interleaved-thinking-2025-05-14,{CONTEXT_BETA}"),
        ]
        body = {**self.client.body(), "stream": False}
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        self.sent.append(raw)
        answer = ask(self.proxy.port, "POST", TARGET, headers=headers, body=raw)
        self.statuses.append(answer.status)
        message: dict[str, Any] = json.loads(answer.body)
        self.told.append(message.get("context_management"))
        if answer.status == 200:
            self.client.answer(message["content"])

    def loop(self, prompt: str, sizes: list[int]) -> None:
        steps: list[dict[str, Any]] = [
            {"think": "hm", "call": {"name": "Bash", "input": {"command": f"do {n}"}}}
            for n in range(len(sizes))
        ]
        self.client.say(play(prompt, *steps, {"think": "so", "say": "done"}))
        for number, size in enumerate(sizes):
            self.send()
            self.client.results([f"output {number}\n" + "line of text\n" * (size // 13)])
        self.send()

    @property
    def got(self) -> list[bytes]:
        return [record.request.body for record in self.fake.of("t")]

    def events(self) -> list[Any]:
        with open_session(self.paths, SID) as reader:
            return list(reader.events())


def _settings(paths: Paths, fake: FakeAnthropic, trim: TrimSettings) -> ProxySettings:
    """Return settings that wait for as long as a busy machine needs."""
    return ProxySettings(
        paths=paths,
        routes={"claude-code": fake.url_of("t")},
        trim=trim,
        commit_wait_seconds=30,
        view_wait_seconds=60,
    )


@contextmanager
def bench_with(paths: Paths, trim: TrimSettings, account: Account | None = None) -> Iterator[Bench]:
    with (
        FakeAnthropic(rules=StrictRules(account or Account())) as fake,
        RunningProxy(_settings(paths, fake, trim)) as proxy,
    ):
        yield Bench(paths, proxy, fake)


def _without_our_edit(body: bytes) -> bytes:
    at = body.find(b',{"type":"%s"' % EDIT.encode())
    return body if at < 0 else body[:at] + body[body.index(b"]", at) :]


def test_one_insertion_is_all_that_changes_and_the_service_clears(paths: Paths) -> None:
    """Issue 4, part 8: frees tool results without touching the prefix or the thinking."""
    with bench_with(paths, ALONE) as bench:
        bench.loop("one long task", [2_600] * 30)
        assert set(bench.statuses) == {200}
        assert [_without_our_edit(got) for got in bench.got] == bench.sent
        asked = [json.loads(got)["context_management"]["edits"] for got in bench.got]
        assert asked[0] == [KEEP_THINKING]  # too small to be cleared: left alone
        assert [edit["type"] for edit in asked[-1]] == [KEEP_THINKING["type"], EDIT]
        cleared = [told["applied_edits"] for told in bench.told if told["applied_edits"]]
        assert cleared and cleared[-1][0]["cleared_tool_uses"] >= 20
    events = bench.events()
    counts = [e.values["dropped"] for e in events if e.kind == "clearing"]
    assert counts == sorted(set(counts)) and 2 <= len(counts) <= 10
    assert not any(event.kind in ("fail_open", "trim") for event in events)
    busts = [e.values["bust"] for e in events if e.kind == "usage" and e.values.get("bust")]
    assert busts == ["clearing"] * len(counts)


def test_it_is_shown_what_was_cleared_and_what_it_spared(paths: Paths) -> None:
    """Issue 4, part 8: recorded in events, shown in context status and report."""
    with bench_with(paths, ALONE) as bench:
        bench.loop("one long task", [2_600] * 24)
    (summary,) = overview(paths).sessions
    assert dict(summary.bust_reasons) == {"clearing": summary.busts}
    assert summary.cleared_tokens > 8_000 and summary.removed_tokens == 0
    with open_session(paths, SID) as reader:
        (course,) = courses_of(reader)
    strand = strand_of(course, load_prices(), {})
    assert strand.cleared == summary.cleared_tokens and not strand.busts
    assert {one.cause for one in strand.happenings} == {"clearing"}
    last = course.calls[-1]
    assert last.whole == last.prompt + strand.cleared
    assert sum(call.whole for call in course.calls) > 1.5 * sum(c.prompt for c in course.calls)


def test_trim_and_clearing_together_are_never_refused(paths: Paths) -> None:
    """Issue 4, part 8: beside our trim."""
    with bench_with(paths, CLEARS) as bench:
        for number in range(14):
            bench.loop(f"task {number}", [1_500] * 4)
        bench.loop("one long task", [2_600] * 30)
        assert set(bench.statuses) == {200}
        for got in bench.got:
            edits = json.loads(got)["context_management"]["edits"]
            assert len({edit["type"] for edit in edits}) == len(edits)
    kinds = [event.kind for event in bench.events()]
    assert "clearing" in kinds and "trim" in kinds and "fail_open" not in kinds


def test_without_the_setting_nothing_is_added(paths: Paths) -> None:
    """Issue 4, part 8: off unless measured better."""
    off = replace(CLEARS, clears_tool_uses=False, soft_tokens=500_000, hard_tokens=500_000)
    with bench_with(paths, off) as bench:
        bench.loop("one long task", [2_600] * 12)
        assert bench.got == bench.sent


def test_a_route_that_does_not_know_the_edit_gets_the_request_without_it(paths: Paths) -> None:
    """Issue 4, Show it: 0 refusals caused by us."""
    with bench_with(paths, ALONE, Account(clears_tool_uses=False)) as bench:
        bench.loop("one long task", [2_600] * 12)
        assert set(bench.statuses) == {200}
        refused = [got for got in bench.got if EDIT.encode() in got]
        assert len(refused) == 1  # once, and not asked again
        assert [got for got in bench.got if EDIT.encode() not in got] == bench.sent
    faults = [e.values["error"] for e in bench.events() if e.kind == "fail_open"]
    assert faults == ["ClearingRefused"]


def test_a_restarted_proxy_goes_on_asking(paths: Paths) -> None:
    """Design, section 7: across restarts too; what was cleared must not come back at once."""
    with FakeAnthropic(rules=StrictRules(Account())) as fake:
        settings = _settings(paths, fake, ALONE)
        with RunningProxy(settings) as proxy:
            bench = Bench(paths, proxy, fake)
            bench.loop("one long task", [2_600] * 20)
        with RunningProxy(settings) as proxy:
            bench.proxy = proxy
            bench.loop("another", [200])
        assert set(bench.statuses) == {200}
        assert all(EDIT.encode() in got for got in bench.got[-2:])
        assert bench.told[-1] == bench.told[-3]  # nothing more, nothing less
    counts = [e.values["dropped"] for e in bench.events() if e.kind == "clearing"]
    assert counts == sorted(set(counts))
