"""The trim, driven by a client that behaves as Claude Code and judged by the strict rules."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.trimmer import Ask, Trimmer, View
from openmem.context.trim.wire.messages import MessagesFormat
from tests.fakes.anthropic_server import Accepted
from tests.fakes.claude_conversation import NEWEST, OLDER, ClaudeConversation
from tests.fakes.faults import Refusal
from tests.fakes.strict.canonical import without_markers
from tests.fakes.strict.rules import Account, StrictRules
from tests.fakes.superseding import Rows
from tests.fakes.wire import Request

KEY = b"k" * 32
FORM = MessagesFormat()


def trimmer(home: Path, **settings: Any) -> Trimmer:
    chosen = {"soft_tokens": 6_000, "hard_tokens": 9_000, "compress_tokens": 1_500,
              "superseded": True, **settings}  # fmt: skip
    return Trimmer(
        Paths(os.environ),
        KEY,
        TrimSettings(**chosen),
        {},
        count_masked=lambda sid, numbers: 0,
        find_rows=Rows().find,
    )


class Drive:
    """Sends a client's requests through a trim to the strict rules, and back."""

    def __init__(self, client: ClaudeConversation, trim: Trimmer, *, age: str = "new") -> None:
        self.client, self.trim = client, trim
        account = Account(
            age=age,  # type: ignore[arg-type]
            nudge_exempt=client.model == "claude-fable-5-1",  # else it is refused without us too
        )
        self.rules = StrictRules(account, clock=lambda: self.now)
        self.now = 0.0
        self.views: list[View] = []
        self.sent: list[dict[str, Any]] = []
        self.refused: list[tuple[bool, Refusal]] = []
        self.usage: list[dict[str, Any]] = []

    def send(self, reply: list[dict[str, Any]], *, thinks: bool = True) -> None:
        self.now += 10
        for _ in range(2):
            raw = self.client.bytes()
            view = self.trim.view(FORM, Ask(sid="s1", body=raw, now=self.now))
            body = json.loads(view.body or raw)
            request = Request(
                method="POST",
                target="/v1/messages",
                headers=(("anthropic-beta", "interleaved-thinking-2025-05-14"),),
                head=b"",
                body=view.body or raw,
            )
            verdict = self.rules.judge(request, body, run="r")
            if isinstance(verdict, Refusal):
                self.refused.append((view.body is not None, verdict))
                self.client.heal()
                continue
            break
        assert isinstance(verdict, Accepted), verdict
        self.views.append(view)
        self.sent.append(body)
        usage = verdict.usage or {}
        self.usage.append(usage)
        total = sum(
            usage.get(k, 0)
            for k in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        )
        self.trim.report("s1", view.thread, view.weight, total)
        content = (
            [{"type": "thinking", "thinking": "", "signature": ""}, *reply] if thinks else reply
        )
        self.client.answer(self.rules.finish(body, verdict, content))

    def turn(self, prompt: str, rounds: int, size: int, *, thinks: bool = True) -> None:
        self.client.say(prompt, context="hook says hello" if rounds % 2 else "")
        for number in range(rounds):
            self.send(self.client.call(f"step {number} of {prompt[:20]}"), thinks=thinks)
            self.client.results([f"line {number} " * (size // 8)], budget=number % 3 == 0)
        self.send([{"type": "text", "text": f"done with {prompt[:30]}"}], thinks=thinks)


def prefix_of(body: dict[str, Any]) -> list[str]:
    """Return a request's messages as the provider's cache sees them."""
    found = []
    for message in body["messages"]:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        found.append(json.dumps([message["role"], without_markers(content)], sort_keys=True))
    return found


def assert_one_bust_a_trim(drive: Drive) -> None:
    for number in range(1, len(drive.sent)):
        before, after = prefix_of(drive.sent[number - 1]), prefix_of(drive.sent[number])
        if drive.views[number].made_cut:
            continue
        if drive.client.model == "claude-fable-5-1":
            before = before[:-1]  # its nudge stands in one request only
        assert after[: len(before)] == before, f"request {number} broke the prefix"


@pytest.mark.parametrize("model", [*NEWEST, *OLDER])
def test_a_long_session_stays_small_and_is_never_refused(home: Path, model: str) -> None:
    """Design, section 7; decision table."""
    drive = Drive(ClaudeConversation(model=model), trimmer(home))
    for number in range(40):
        drive.turn(f"task number {number} please", rounds=number % 5, size=900)
    cuts = sum(view.made_cut for view in drive.views)
    assert cuts >= 3
    assert drive.refused == []
    assert_one_bust_a_trim(drive)
    for view in drive.views:
        assert view.thresholds is not None
        assert view.tokens_after <= view.thresholds.hard + 2_000


def test_the_first_turn_and_the_current_turn_are_always_there(home: Path) -> None:
    """Users' report 49; design, section 7."""
    drive = Drive(ClaudeConversation(), trimmer(home))
    for number in range(12):
        drive.turn(f"task {number}: three parts, one, two and three", rounds=3, size=1200)
        text = json.dumps(drive.sent[-1]["messages"])
        assert "task 0: three parts, one, two and three" in text
        assert f"task {number}: three parts, one, two and three" in text
    assert any(view.made_cut for view in drive.views)


def test_one_endless_turn_is_trimmed_between_complete_rounds(home: Path) -> None:
    """Context-store contract: the in-turn gap; decision table: the hard threshold."""
    for model in ("claude-opus-5-5", "claude-sonnet-4-5"):
        drive = Drive(ClaudeConversation(model=model), trimmer(home))
        drive.turn("one long task", rounds=60, size=1500)
        causes = {view.cause for view in drive.views if view.made_cut}
        assert causes == {"hard"}
        assert [refusal for trimmed, refusal in drive.refused if trimmed] == []
        assert_one_bust_a_trim(drive)


def test_an_untrimmed_request_is_left_alone(home: Path) -> None:
    """Design, section 7: untrimmed means untouched."""
    client = ClaudeConversation()
    client.say("hello")
    view = trimmer(home).view(FORM, Ask(sid="s", body=client.bytes()))
    assert view.body is None and not (home / ".local").exists()


def test_a_restart_at_any_request_changes_no_byte(home: Path) -> None:
    """Design, section 7: across restarts too."""
    one = Drive(ClaudeConversation(), trimmer(home))
    for number in range(8):
        one.turn(f"task {number}", rounds=2, size=1500)
    raw = one.client.bytes()
    ask = Ask(sid="s1", body=raw, may_cut=False, now=1e9)
    assert one.trim.view(FORM, ask).body == trimmer(home).view(FORM, ask).body is not None


def test_tools_and_effort_in_force_survive_a_trim(home: Path) -> None:
    """Decision table: what must survive."""
    drive = Drive(ClaudeConversation(), trimmer(home))
    drive.turn("first", rounds=1, size=300)
    drive.client.say("second")
    drive.client.add_tool("late_one")
    drive.send([{"type": "text", "text": "ok"}])
    drive.client.say("third")
    drive.client.change_effort("high")
    drive.send([{"type": "text", "text": "ok"}])
    for number in range(8):
        drive.turn(f"task {number}", rounds=3, size=1200)
    assert any(view.made_cut for view in drive.views)
    assert [refusal for trimmed, refusal in drive.refused if trimmed] == []
    last = json.dumps(drive.sent[-1]["messages"])
    assert '"tool_addition"' in last and '"effort": "high"' in last


def test_an_older_account_and_a_younger_one_accept_the_same_trim(home: Path) -> None:
    """Issue: old and new account."""
    for age in ("old", "new"):
        drive = Drive(ClaudeConversation(), trimmer(home), age=age)
        for number in range(8):
            drive.turn(f"task {number} {age}", rounds=3, size=1200)
        assert [refusal for trimmed, refusal in drive.refused if trimmed] == []


def test_a_rewritten_history_starts_afresh(home: Path) -> None:
    """Users' report; bad input: the client compacts by itself."""
    drive = Drive(ClaudeConversation(), trimmer(home))
    for number in range(8):
        drive.turn(f"task {number}", rounds=3, size=1200)
    refused = len(drive.refused)
    drive.client.compact("It went well.")
    drive.turn("after", rounds=1, size=200)
    assert "no longer in this request" not in json.dumps(drive.sent[-1]["messages"])
    # The kept reply's thinking is refused once, with or without us; the client heals.
    assert [trimmed for trimmed, _ in drive.refused[refused:]] in ([], [False])


def calls_of(source: random.Random, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return calls as an engineer's agent makes them, on few files, so that many are repeated."""
    found: list[tuple[str, dict[str, Any]]] = []
    for _ in range(count):
        path = f"/work/{source.choice('abc')}.py"
        body = "z" * source.choice([10, 700, 5000])
        todos = [{"content": body[:200], "status": source.choice(["pending", "completed"])}] * 4
        found.append(
            source.choice(
                [
                    ("Bash", {"command": f"make {body[:9]}"}),
                    ("Read", {"file_path": path}),
                    ("Read", {"file_path": path, "offset": 10}),
                    ("Edit", {"file_path": path, "old_string": body, "new_string": "n"}),
                    ("Write", {"file_path": path, "content": body}),
                    ("Grep", {"pattern": "def"}),
                    ("TodoWrite", {"todos": todos}),
                ]
            )
        )
    return found


def assert_newest_of_each(client: ClaudeConversation, body: dict[str, Any]) -> None:
    """The newest to-do state is in the request, word for word, whatever left."""
    done = {
        block["tool_use_id"]
        for message in client.messages
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    states = [
        block["input"]
        for message in client.messages
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use" and block["name"] == "TodoWrite" and block["id"] in done
    ]
    if states:
        text = json.dumps(states[-1], separators=(",", ":"))
        shown = json.dumps(body["messages"], separators=(",", ":"))
        assert text in shown or json.dumps(text)[1:-1] in shown


@pytest.mark.parametrize("seed", range(12))
def test_any_session_keeps_its_promises(home: Path, seed: int) -> None:
    """Property over generated conversations: legal, covered, prefix stable."""
    source = random.Random(seed)
    model = source.choice([m for m in (*NEWEST, *OLDER) if m != "claude-fable-5-1"])
    drive = Drive(ClaudeConversation(model=model), trimmer(home))
    for number in range(source.randint(6, 14)):
        if source.random() < 0.2 and number:
            drive.client.notify("a sub-agent ended")
            drive.send([{"type": "text", "text": "noted"}], thinks=source.random() < 0.5)
        drive.client.say(f"task {number} " + "x" * source.choice([5, 50, 4000]))
        if source.random() < 0.2:
            drive.client.change_effort(source.choice(["low", "high"]))
        for _ in range(source.choice([0, 1, 3, 12])):
            calls = source.choice([1, 1, 3])
            used = drive.client.use(*calls_of(source, calls))
            drive.send(used, thinks=source.random() < 0.7)
            sizes = [source.choice([10, 500, 3000, 20_000]) for _ in range(calls)]
            drive.client.results(["y" * size for size in sizes], budget=source.random() < 0.3)
        drive.send([{"type": "text", "text": "done"}], thinks=source.random() < 0.7)
        assert_newest_of_each(drive.client, drive.sent[-1])
    assert [refusal for trimmed, refusal in drive.refused if trimmed] == []
    assert_one_bust_a_trim(drive)
    for view, body in zip(drive.views, drive.sent, strict=True):
        text = json.dumps(body["messages"], ensure_ascii=False)
        assert ("no longer in this request" in text) == bool(view.gone)
