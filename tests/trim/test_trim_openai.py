"""The trim of the Responses and Chat formats, by clients that behave as Codex and OpenCode."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.trim.items import WireFormat
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.trimmer import Ask, NotTrimmable, Trimmer, View
from openmem.context.trim.wire.chat import ChatFormat
from openmem.context.trim.wire.responses import ResponsesFormat
from tests.fakes.codex_conversation import NEWEST, OLDER, CodexConversation
from tests.fakes.strict.reasoning import items_of, pairing_fault, prefix_of, seal, stale_reasoning
from tests.fakes.superseding import Rows

KEY = b"k" * 32
POINTER = "no longer in this request"


def trimmer(home: Path, **settings: Any) -> Trimmer:
    chosen = {"soft_tokens": 6_000, "hard_tokens": 9_000, "compress_tokens": 1_500, **settings}
    return Trimmer(
        Paths(os.environ),
        KEY,
        TrimSettings(**chosen),
        {},
        count_masked=lambda sid, numbers: 0,
        find_rows=Rows().find,
    )


class Drive:
    """Sends Codex's requests through a trim to the strict service's rules, and back."""

    def __init__(self, client: CodexConversation, trim: Trimmer) -> None:
        self.client, self.trim = client, trim
        self.now = 0.0
        self.views: list[View] = []
        self.sent: list[dict[str, Any]] = []
        self.stale: list[int] = []
        self._ids = iter(range(1, 1 << 30))

    def send(self, *, say: str = "", calls: int = 0, thinks: bool = True, **ask: Any) -> None:
        self.now += 10
        raw = self.client.bytes(is_compaction=not ask.get("may_cut", True))
        view = self.trim.view(ResponsesFormat(), Ask(sid="s", body=raw, now=self.now, **ask))
        sent = view.body or raw
        body = json.loads(sent)
        assert pairing_fault(body) == ""
        self.stale.append(len(stale_reasoning(body)))
        self.views.append(view)
        self.sent.append(body)
        self.trim.report("s", view.thread, view.weight, len(sent) // 4)
        if ask.get("may_cut", True):
            self.client.answer(self._output(body, say, calls, thinks))

    def _output(self, body: dict[str, Any], say: str, calls: int, thinks: bool) -> list[Any]:
        number = next(self._ids)
        found: list[dict[str, Any]] = []
        if thinks:
            sealed = seal(prefix_of(body, items_of(body)))
            found.append(
                {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": sealed,
                 "summary": [{"type": "summary_text", "text": "hm"}]}
            )  # fmt: skip
        if say:
            content = [{"type": "output_text", "text": say, "annotations": []}]
            found.append({"type": "message", "id": f"msg_{number}", "role": "assistant",
                          "status": "completed", "content": content})  # fmt: skip
        for call in range(calls):
            found.append({"type": "function_call", "id": f"fc_{number}_{call}", "name": "exec",
                          "call_id": f"call_{number}_{call}", "status": "completed",
                          "arguments": json.dumps({"cmd": f"do {number}"})})  # fmt: skip
        return found

    def turn(self, prompt: str, rounds: int, size: int, *, calls: int = 1) -> None:
        self.client.say(prompt, context="a hook says hello" if rounds % 2 else "")
        for number in range(rounds):
            self.send(calls=calls, say="looking" if number % 3 == 0 else "")
            output = f"line {number} of {prompt[:20]} " * (size // 24)
            self.client.results([output] * calls, context="a tool hook" if number % 2 else "")
        self.send(say=f"done with {prompt[:30]}")


def assert_one_bust_a_trim(drive: Drive) -> None:
    """Between two trims what was sent before begins what is sent next, reasoning aside."""
    for number in range(1, len(drive.sent)):
        if drive.views[number].made_cut:
            continue
        before, after = drive.sent[number - 1]["input"], drive.sent[number]["input"]
        assert after[: len(before)] == before, f"request {number} broke the prefix"


@pytest.mark.parametrize("model", [NEWEST, OLDER])
def test_a_long_session_of_codex_stays_small_and_is_never_refused(home: Path, model: str) -> None:
    """Design, section 7; decision table, profile R."""
    drive = Drive(CodexConversation(model=model), trimmer(home))
    for number in range(30):
        drive.turn(f"task number {number} please", rounds=number % 5, size=900)
    assert sum(view.made_cut for view in drive.views) >= 3
    assert sum(drive.stale) == 0  # no reasoning that the service would drop is ever sent
    assert_one_bust_a_trim(drive)
    for view in drive.views:
        assert view.thresholds is not None
        assert view.tokens_after <= view.thresholds.hard + 2_000


def test_one_endless_turn_is_trimmed_between_complete_rounds(home: Path) -> None:
    """Decision table: the hard threshold; parallel calls and their outputs stay together."""
    drive = Drive(CodexConversation(), trimmer(home))
    drive.turn("one long task", rounds=50, size=1_000, calls=2)
    assert {view.cause for view in drive.views if view.made_cut} == {"hard"}
    assert sum(drive.stale) == 0
    assert_one_bust_a_trim(drive)


def test_what_codex_told_last_of_its_surroundings_survives_and_what_it_told_before_goes(
    home: Path,
) -> None:
    """Decision table: what must survive."""
    drive = Drive(CodexConversation(), trimmer(home))
    drive.turn("first", rounds=1, size=300)
    for permissions in ("workspace-write", "danger-full-access"):
        drive.client.change_sandbox(permissions)
        drive.turn(f"with {permissions}", rounds=2, size=1_200)
    drive.client.change_effort("high")
    for number in range(8):
        drive.turn(f"task {number}", rounds=3, size=1_200)
    assert sum(view.made_cut for view in drive.views) >= 2
    last = json.dumps(drive.sent[-1]["input"])
    assert "sandbox danger-full-access" in last and "sandbox workspace-write" not in last
    assert "sandbox read-only" in last  # it stands before the first turn
    assert last.count("2026-12-01") == 1
    assert '"configuration_update"' in last and '"additional_tools"' in last
    assert POINTER in last and last.index("danger-full-access") < last.index(POINTER)


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_summary_that_codex_asks_for_follows_the_cut_and_makes_none(
    home: Path, is_remote: bool
) -> None:
    """Ours: untrimmed it would be as long as the history was, and could be refused for that."""
    drive = Drive(CodexConversation(is_remote=is_remote), trimmer(home))
    for number in range(10):
        drive.turn(f"task {number}", rounds=3, size=1_200)
    before = drive.sent[-1]["input"]
    drive.send(may_cut=False)
    assert drive.sent[-1]["input"][: len(before)] == before
    assert POINTER in json.dumps(drive.sent[-1]["input"])
    asked = drive.sent[-1]["input"][-1]
    said = "" if is_remote else asked["content"][0]["text"]
    assert asked["type"] == "compaction_trigger" if is_remote else said.startswith("You are perf")
    drive.client.compact("Ten tasks were done.")
    drive.turn("after", rounds=1, size=200)
    text = json.dumps(drive.sent[-1]["input"])
    assert POINTER not in text and "Ten tasks were done." in text
    for number in range(10):
        drive.turn(f"later {number}", rounds=3, size=1_200)
    text = json.dumps(drive.sent[-1]["input"])
    assert POINTER in text and "Ten tasks were done." in text  # the summary is never removed
    assert sum(drive.stale) == 0


def test_a_request_for_a_summary_is_never_refused_by_us(home: Path) -> None:
    """Issue 4 part 5: at a proven limit the agent must be able to compact."""
    trim, client = trimmer(home), CodexConversation(is_remote=True)
    client.say("x" * 40_000)
    first = trim.view(ResponsesFormat(), Ask(sid="s", body=client.bytes()))
    trim.learn_limit("s", first.thread, 5_000)
    assert trim.view(ResponsesFormat(), Ask(sid="s", body=client.bytes())).refusal
    asked = trim.view(ResponsesFormat(), Ask(sid="s", body=client.bytes(is_compaction=True)))
    assert asked.refusal == ""


def test_what_the_provider_keeps_and_what_we_do_not_know_goes_untouched(home: Path) -> None:
    """Issue 4, Bad input: not ours to edit."""
    trim, client = trimmer(home), CodexConversation()
    client.say("x" * 40_000)
    for change in (
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": "text"},
        {"input": [*client.items, {"type": "a_new_kind"}]},
    ):
        body = json.dumps({**client.body(), **change}).encode()
        with pytest.raises(NotTrimmable):
            trim.view(ResponsesFormat(), Ask(sid="s", body=body))


@pytest.mark.parametrize("seed", range(10))
def test_any_session_of_codex_keeps_its_promises(home: Path, seed: int) -> None:
    """Property over generated conversations: pairs whole, covered, prefix stable, restart equal."""
    source = random.Random(seed)
    drive = Drive(CodexConversation(model=source.choice([NEWEST, OLDER])), trimmer(home))
    for number in range(source.randint(6, 12)):
        if source.random() < 0.2 and number:
            drive.client.change_sandbox(source.choice(["workspace-write", "read-only"]))
        if source.random() < 0.1 and number > 3:
            drive.client.say("wrap up")
            drive.send(say="ok")
            drive.client.say("go on")
            drive.client.compact(f"Summary {number}.")
            drive.send(say="ok")
        drive.client.say(f"task {number} " + "x" * source.choice([5, 50, 4_000]))
        for _ in range(source.choice([0, 1, 3, 12])):
            calls = source.choice([1, 1, 3])
            drive.send(calls=calls, thinks=source.random() < 0.7)
            drive.client.results(["y" * source.choice([10, 500, 3_000, 20_000])] * calls)
        drive.send(say="done", thinks=source.random() < 0.7)
        if source.random() < 0.3:
            drive.trim = trimmer(home)  # a restart
    for view, body in zip(drive.views, drive.sent, strict=True):
        assert (POINTER in json.dumps(body["input"])) == bool(view.gone)
    cuts = [n for n, view in enumerate(drive.views) if view.made_cut]
    assert not any(drive.stale[n] for n in cuts)


# --- Chat


class ChatDrive:
    """A client of a chat server: a string where it can, a list where it must."""

    def __init__(self, trim: Trimmer) -> None:
        self.trim = trim
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "You help. " * 100}]
        self.views: list[View] = []
        self.sent: list[dict[str, Any]] = []
        self._ids = iter(range(1, 1 << 30))

    def send(self, *, say: str = "", calls: int = 0) -> None:
        body = {"model": "m1", "stream": True, "messages": self.messages}
        raw = json.dumps(body).encode()
        view = self.trim.view(ChatFormat(), Ask(sid="c", body=raw, now=float(len(self.views))))
        sent = json.loads(view.body or raw)
        self._check(sent["messages"])
        self.views.append(view)
        self.sent.append(sent)
        self.trim.report("c", view.thread, view.weight, len(view.body or raw) // 4)
        message: dict[str, Any] = {"role": "assistant", "content": say or None}
        if calls:
            message["tool_calls"] = [
                {"id": f"c{next(self._ids)}", "type": "function",
                 "function": {"name": "bash", "arguments": "{}"}}
                for _ in range(calls)
            ]  # fmt: skip
        self.messages.append({**message, "reasoning_content": "hm"})

    def _check(self, messages: list[dict[str, Any]]) -> None:
        """Each call is answered at once, each answer has its call."""
        waiting: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                waiting.remove(message["tool_call_id"])
            else:
                assert waiting == []
            waiting += [call["id"] for call in message.get("tool_calls", [])]
        assert waiting == []

    def turn(self, prompt: str, rounds: int, size: int) -> None:
        self.messages.append({"role": "user", "content": prompt})
        for number in range(rounds):
            self.send(calls=1 + number % 2)
            for call in self.messages[-1]["tool_calls"]:
                text = f"line {number} of {prompt} " * (size // 24)
                self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        self.send(say=f"done with {prompt}")


def test_a_long_chat_stays_small_and_whole(home: Path) -> None:
    """Design, section 7, for the third format."""
    drive = ChatDrive(trimmer(home))
    for number in range(45):
        drive.turn(f"task number {number}", rounds=number % 4, size=1_000)
    assert sum(view.made_cut for view in drive.views) >= 3
    for number in range(1, len(drive.sent)):
        if not drive.views[number].made_cut:
            before, after = drive.sent[number - 1]["messages"], drive.sent[number]["messages"]
            assert after[: len(before)] == before
    last = drive.sent[-1]["messages"]
    assert last[0]["content"].startswith("You help.") and "task number 0" in last[1]["content"]
    pointed = [m for m in last if POINTER in str(m["content"])]
    assert len(pointed) == 1 and isinstance(pointed[0]["content"], str)


def test_a_chat_in_parts_gets_the_pointer_as_a_part(home: Path) -> None:
    """API reference: content is a string or parts; the pointer takes the form that is there."""
    drive = ChatDrive(trimmer(home))
    for number in range(12):
        drive.turn(f"task number {number}", rounds=2, size=1_000)
        drive.messages[-1]["content"] = [{"type": "text", "text": "done"}]
        for message in drive.messages:
            if message["role"] == "user" and isinstance(message["content"], str):
                message["content"] = [{"type": "text", "text": message["content"]}]
    last = drive.sent[-1]["messages"]
    pointed = [m for m in last if POINTER in str(m["content"])]
    assert [part["type"] for part in pointed[0]["content"]] == ["text", "text"]
    assert drive.views[-1].problem == ""


@pytest.mark.parametrize("form", [ChatFormat(), ResponsesFormat()])
def test_an_untrimmed_request_is_left_alone(home: Path, form: WireFormat) -> None:
    """Design, section 7: untrimmed means untouched."""
    bodies = {"chat": {"messages": [{"role": "user", "content": "hi"}]},
              "responses": {"input": [{"role": "user", "content": "hi"}]}}  # fmt: skip
    body = json.dumps({"model": "m", **bodies[form.name]}).encode()
    view = trimmer(home).view(form, Ask(sid="s", body=body))
    assert view.body is None and not (home / ".local").exists()
