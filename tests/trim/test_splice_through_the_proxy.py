"""Splices in the running proxy: taken, compared behind each request, and given up when in doubt."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.proxy.recording import splicing
from openmem.context.proxy.recording.splicing import Splicer
from openmem.context.proxy.settings import ProxySettings
from openmem.context.session import request_trim
from openmem.context.store.reader import open_session
from openmem.context.trim.limits import TrimSettings
from tests.fakes.anthropic_server import Accepted, FakeAnthropic
from tests.fakes.claude_conversation import ClaudeConversation
from tests.fakes.faults import Refusal, bound_elsewhere
from tests.fakes.proxied import TARGET, register, write_policy
from tests.fakes.running_proxy import RunningProxy, ask, wait_until
from tests.fakes.script import play
from tests.fakes.strict.rules import Account, StrictRules
from tests.fakes.wire import Request

SID = "0b0b0b0b-splice"
SETTINGS = TrimSettings(soft_tokens=6_000, hard_tokens=9_000, compress_tokens=1_500)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    made = tmp_path / "work"
    made.mkdir()
    return str(made)


@pytest.fixture
def paths(home: Path, folder: str) -> Paths:
    made = Paths(os.environ)
    write_policy(made, allowed=folder)
    register(made, SID, folder)
    return made


class Bench:
    """A client, our proxy and the strict service."""

    def __init__(self, paths: Paths, proxy: RunningProxy, fake: FakeAnthropic) -> None:
        self.paths, self.proxy, self.fake = paths, proxy, fake
        self.client = ClaudeConversation()
        self.statuses: list[int] = []

    @property
    def splicer(self) -> Splicer:
        link = self.proxy.app._link
        assert link is not None
        return link.splicer

    def send(self) -> None:
        body = {**self.client.body(), "stream": False}
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = [("x-claude-code-session-id", SID)]
        answer = ask(self.proxy.port, "POST", TARGET, headers=headers, body=raw)
        self.statuses.append(answer.status)
        if answer.status == 200:
            self.client.answer(json.loads(answer.body)["content"])

    def turn(self, prompt: str, rounds: int = 2, size: int = 1_500) -> None:
        steps: list[dict[str, Any]] = [
            {"think": "hm", "call": {"name": "Bash", "input": {"command": f"do {n}"}}}
            for n in range(rounds)
        ]
        steps.append({"think": "so", "say": f"done with {prompt[:20]}"})
        self.client.say(play(prompt, *steps))
        for number in range(rounds):
            self.send()
            self.client.results([f"{prompt} output {number}\n" + "line of text\n" * (size // 13)])
        self.send()

    def until_steady(self) -> None:
        """Go on until there is a cut and all requests of a turn are spliced."""
        for number in range(60):
            before = self.splicer.count
            self.turn(f"task {number}")
            is_cut = b"[openmem: session_id=" in self.bodies[-3]
            if is_cut and self.splicer.count == before + 3:
                return
        raise AssertionError("nothing was spliced")

    @property
    def bodies(self) -> list[bytes]:
        return [record.request.body for record in self.fake.of("t")]

    def kinds(self) -> list[tuple[str, object]]:
        with open_session(self.paths, SID) as reader:
            return [(event.kind, event.values.get("error")) for event in reader.events()]


class MoodyRules(StrictRules):
    """The strict rules, which find fault with a signature once they are told to."""

    is_moody = False

    def judge(self, request: Request, body: dict[str, Any], *, run: str) -> Refusal | Accepted:
        if self.is_moody:
            self.is_moody = False
            return bound_elsewhere("messages.1.content.0")
        return super().judge(request, body, run=run)


@pytest.fixture
def rules() -> MoodyRules:
    return MoodyRules(Account())


@pytest.fixture
def bench(paths: Paths, rules: MoodyRules) -> Iterator[Bench]:
    with FakeAnthropic(rules=rules) as fake:
        settings = ProxySettings(
            paths=paths, routes={"claude-code": fake.url_of("t")}, trim=SETTINGS
        )
        with RunningProxy(settings) as proxy:
            yield Bench(paths, proxy, fake)


def run_of(paths: Paths, turns: int, *, splices: bool) -> list[bytes]:
    """Return what a service got of one scripted session."""
    with FakeAnthropic(rules=StrictRules(Account())) as fake:
        settings = ProxySettings(
            paths=paths, routes={"claude-code": fake.url_of("t")}, trim=SETTINGS
        )
        with RunningProxy(settings) as proxy:
            bench = Bench(paths, proxy, fake)
            if not splices:
                bench.splicer.turn_off()
            for number in range(turns):
                bench.turn(f"task {number}", rounds=number % 4)
            assert set(bench.statuses) == {200}
            assert (bench.splicer.count > 10) is splices
            events = bench.kinds()
        assert ("fail_open", "SpliceDiffers") not in events
        assert [kind for kind, _ in events].count("usage") == len(bench.statuses)
        return bench.bodies


def test_a_session_goes_up_the_same_with_and_without_splices(
    paths: Paths, home: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4, Added time: the same decisions and bytes."""
    with_splices = run_of(paths, 30, splices=True)
    other = home.parent / "other"
    other.mkdir()
    monkeypatch.setenv("HOME", str(other))
    again = Paths(os.environ)
    write_policy(again, allowed=folder)
    register(again, SID, folder)
    assert run_of(again, 30, splices=False) == with_splices


def test_nothing_of_a_request_is_read_on_the_event_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4, Added time: no request parsed on the event loop."""
    threads: set[int] = set()
    real = splicing._spliced

    def noted(*given: Any) -> bytes | None:
        threads.add(threading.get_ident())
        return real(*given)

    monkeypatch.setattr(splicing, "_spliced", noted)
    bench.until_steady()
    assert threads and bench.proxy._thread.ident not in threads


def test_a_body_that_differs_is_told_and_ends_splicing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: each splice is compared with the full way behind its request."""
    bench.until_steady()
    real = splicing._spliced

    def wrong(*given: Any) -> bytes | None:
        body = real(*given)
        return body.replace(b"line of text", b"line of tex ", 1) if body else None

    monkeypatch.setattr(splicing, "_spliced", wrong)
    count = bench.splicer.count
    for number in range(12):
        bench.turn(f"later {number}", rounds=1)
    assert bench.splicer.count == count + 1
    assert bench.kinds().count(("fail_open", "SpliceDiffers")) == 1


def test_a_fault_while_splicing_costs_nothing_but_the_full_way(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 6: a fault of ours stops no request."""
    bench.until_steady()

    def broken(*_: Any) -> bytes | None:
        raise RuntimeError("x")

    monkeypatch.setattr(splicing, "_spliced", broken)
    bench.turn("go on")
    assert set(bench.statuses) == {200}
    assert b"[openmem: session_id=" in bench.bodies[-1]


def test_a_trim_that_was_asked_for_is_not_passed_over(bench: Bench) -> None:
    """Issue 4: `/smart-compact` trims on the next request."""
    bench.until_steady()
    bench.turn("some more")
    trims = [kind for kind, _ in bench.kinds()].count("trim")
    request_trim(bench.paths, SID)
    bench.turn("now", rounds=0)
    assert [kind for kind, _ in bench.kinds()].count("trim") == trims + 1
    assert not os.path.exists(f"{bench.paths.sessions_dir}/{SID}.force")


def test_a_session_that_may_not_be_stored_any_more_goes_whole(bench: Bench) -> None:
    """Design, section 6: the policy as it stands now."""
    bench.until_steady()
    write_policy(bench.paths, allowed="/nowhere")
    count = bench.splicer.count
    bench.turn("go on", rounds=0)
    assert bench.splicer.count == count
    assert b"[openmem: session_id=" not in bench.bodies[-1]


def test_a_killed_recorder_ends_what_was_known(bench: Bench) -> None:
    """Issue 2: the recorder can die at any time; the next one says it all again."""
    bench.until_steady()
    pid = bench.proxy.status()["recorder_pid"]
    os.kill(int(str(pid)), 9)
    wait_until(lambda: bench.proxy.status()["recorder_pid"] not in (pid, 0))
    count = bench.splicer.count
    bench.client.say(play("go on", {"say": "ok"}))
    bench.send()
    assert bench.splicer.count == count
    assert b"[openmem: session_id=" in bench.bodies[-1]
    bench.until_steady()
    assert set(bench.statuses) == {200}


def test_a_spliced_request_that_is_refused_is_repaired(bench: Bench, rules: MoodyRules) -> None:
    """Issue 4, part 2: repair of a 400 on a trimmed request; from then on the full way, which asks
    the provider to drop what does not verify."""
    bench.until_steady()
    count, rules.is_moody = bench.splicer.count, True
    bench.turn("go on", rounds=0)
    assert bench.splicer.count == count + 1 and set(bench.statuses) == {200}
    assert ("fail_open", "BindingRefused") in bench.kinds()
    for number in range(3):
        bench.turn(f"and on {number}", rounds=1)
    assert bench.splicer.count == count + 1
    assert b"prefix_mismatch_behavior" in bench.bodies[-1]


def test_a_recorder_that_is_lost_while_a_request_is_spliced_costs_its_trim_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 2: the recorder can die at any time, also between two steps of ours."""
    bench.until_steady()
    real = splicing._spliced

    def killed_meanwhile(*given: Any) -> bytes | None:
        before = bench.proxy.status()["recorder_pid"]
        os.kill(int(str(before)), 9)
        wait_until(lambda: bench.proxy.status()["recorder_pid"] != before)
        return real(*given)

    monkeypatch.setattr(splicing, "_spliced", killed_meanwhile)
    bench.client.say(play("go on", {"say": "ok"}))
    bench.send()
    monkeypatch.setattr(splicing, "_spliced", real)
    # It went up as it came, whatever the service says to thoughts that were made on another view.
    assert len(bench.bodies[-1]) > 2 * len(bench.bodies[-2])
    if bench.statuses.pop() == 400:
        bench.client.heal()
        bench.send()
    bench.until_steady()
    assert set(bench.statuses) == {200}


def begun(splicer: Splicer, number: int, key: tuple[str, str] = ("s", "")) -> None:
    splicer.begin(number, key, {})
    splicer.sent(number, b"view")


NEWER = {"list_bytes": 2, "is_whole": False}
SAID = {"list_bytes": 1, "is_whole": False}


def test_an_errand_in_between_leaves_what_is_known(paths: Paths) -> None:
    """Ours: a title that is asked for beside the conversation says nothing of it."""

    async def act() -> None:
        splicer = Splicer(paths)
        begun(splicer, 1)
        splicer.settle(1, {"splice": SAID})
        begun(splicer, 2)
        splicer.ask(2)
        assert await splicer.body_for(2, [b"x"], 1) is None  # while it is under way
        splicer.settle(2, {})
        assert splicer._known and not splicer._asked
        begun(splicer, 3)
        splicer.settle(3, {"splice": None})
        assert not splicer._known

    asyncio.run(act())


def test_an_older_request_does_not_replace_a_newer_word(paths: Paths) -> None:
    """Ours: two requests of one thread may be under way at once."""

    async def act() -> None:
        splicer = Splicer(paths)
        begun(splicer, 1)
        begun(splicer, 2)
        splicer.settle(2, {"splice": NEWER})
        splicer.settle(1, {"splice": SAID})
        assert splicer._known[("s", "")].splice == NEWER
        begun(splicer, 3)
        splicer.settle(3, None)
        assert not splicer._known and not splicer._begun

    asyncio.run(act())


def test_what_is_kept_is_bounded(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours: any number of sessions may come by."""

    async def act() -> None:
        monkeypatch.setattr(splicing, "_KEPT", 3)
        monkeypatch.setattr(splicing, "_KEPT_BYTES", 9)
        splicer = Splicer(paths)
        for number in range(100):
            begun(splicer, number, (f"s{number}", ""))
            splicer.settle(number, {"splice": SAID})
        assert list(splicer._known) == [("s98", ""), ("s99", "")]
        assert len(splicer._newest) <= 48 and not splicer._asked

    asyncio.run(act())
