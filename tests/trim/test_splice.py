"""A request that the proxy shows by itself is byte for byte the one that the full way makes."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.paths import Paths
from openmem.context.formats.messages import split_request
from openmem.context.proxy.recording.splice import Splice, splice_of, stamps_of
from openmem.context.proxy.recording.splicing import WHOLE, _Known, _spliced
from openmem.context.session import Registration, write_registration
from openmem.context.trim.estimate import Weight
from openmem.context.trim.items import NotTrimmable
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.trimmer import Ask, Trimmer, View
from openmem.context.trim.wire.messages import MessagesFormat
from tests.fakes.claude_conversation import NEWEST, OLDER, ClaudeConversation

KEY, SID, FORM = b"k" * 32, "s1", MessagesFormat()
LATE = ("system", "tools", "thinking", "max_tokens", "stream")
Note = Callable[[dict[str, Any]], dict[str, Any]]


def trimmer(paths: Paths) -> Trimmer:
    return Trimmer(
        paths,
        KEY,
        TrimSettings(soft_tokens=6_000, hard_tokens=9_000, compress_tokens=1_500, superseded=True),
        {},
        count_masked=lambda sid, numbers: 0,
        find_rows=lambda sid, parts: list(range(1, len(parts) + 1)),
    )


def ordered(body: dict[str, Any], *, late: bool) -> dict[str, Any]:
    """Return the request with its members in the real client's order, or as they are."""
    rest = {key: value for key, value in body.items() if key not in LATE}
    return {**rest, **{key: body[key] for key in LATE if key in body}} if late else body


def dumped(body: dict[str, Any], **how: Any) -> bytes:
    style = {"ensure_ascii": False, "separators": (",", ":"), **how}
    return json.dumps(body, **style).encode("utf-8", "surrogatepass")


def pieces(raw: bytes, size: int = 1_000) -> list[bytes]:
    return [raw[at : at + size] for at in range(0, len(raw), size)]


class Pair:
    """The full way and the proxy's splices beside it, over one client's requests."""

    def __init__(self, home: Path, client: ClaudeConversation, *, late: bool) -> None:
        self.home, self.client, self.late = home, client, late
        self.paths = Paths(os.environ)
        self.trim = trimmer(self.paths)
        self.known: _Known | None = None
        self.now = 0.0
        self.spliced = self.whole = self.full = self.cuts = 0

    def raw(self) -> bytes:
        return dumped(ordered(self.client.body(), late=self.late))

    def splice(self, raw: bytes) -> bytes | None:
        if self.known is None:
            return None
        return _spliced(self.paths, SID, self.known, pieces(raw), len(raw))

    def send(self, reply: list[dict[str, Any]] | None = None, *, tokens: int = -1) -> View:
        """One request: spliced and in full, and the report. `reply`: None for a retry's sake."""
        self.now += 10
        raw = self.raw()
        mine = self.splice(raw)
        view = self.trim.view(FORM, Ask(sid=SID, body=raw, now=self.now))
        if mine is not None:
            assert mine == (view.body or WHOLE), "a splice differs from the full way"
            assert not view.made_cut and not view.refusal
        self.spliced += mine is not None
        self.whole += mine == WHOLE
        self.full += mine is None
        self.cuts += view.made_cut
        # What the recorder says behind the request.
        request = split_request(raw)
        told = splice_of(FORM, request, view, stamps_of(self.paths, SID))
        weight: Weight = view.weight
        tokens = tokens if tokens >= 0 else round(weight.characters / 2.4) + weight.image_tokens
        self.trim.report(SID, view.thread, weight, tokens)
        self.known = self._known(told, view)
        if reply is not None:
            self.client.answer(reply)
        return view

    def _known(self, told: Splice | None, view: View) -> _Known | None:
        if told is None:
            return None
        state = self.trim.state_of(SID, view.thread)
        if state.cut != view.cut:
            return None
        samples = tuple((sample.weight, sample.tokens) for sample in state.samples)
        # As it comes over the socket.
        said = json.loads(json.dumps(asdict(replace(told, samples=samples))))
        return _Known(about={}, view=view.body or WHOLE, splice=said, at=self.now)

    def restart(self) -> None:
        """Another process: the cut is on disk, nothing else is."""
        self.trim, self.known = trimmer(self.paths), None

    def full_way(self, raw: bytes) -> bytes | None:
        """Return what the full way would send, and leave no trace of having asked."""
        copy = self.home / "copy"
        copy.mkdir()
        if os.path.exists(self.paths.sessions_dir):
            folder = copy / ".local/share/openmem/context/sessions"
            shutil.copytree(self.paths.sessions_dir, folder)
        try:
            other = trimmer(Paths({"HOME": str(copy)}))
            return other.view(FORM, Ask(sid=SID, body=raw, now=self.now)).body or WHOLE
        except NotTrimmable:
            return None
        finally:
            shutil.rmtree(copy)


def think(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": "c2ln"}


SPENT: list[dict[str, Any]] = [
    {"name": "Read", "input": {"file_path": "/home/dev/site/a.py"}},
    {"name": "Read", "input": {"file_path": "/home/dev/site/b.py"}},
    {"name": "TodoWrite", "input": {"todos": [{"content": "go on", "status": "pending"}]}},
]


def walk(pair: Pair, chance: random.Random, steps: int) -> Iterator[str]:
    """Drive a session through what happens to one; yields what was done behind each request."""
    client = pair.client
    says = [{"type": "text", "text": "done"}]
    for number in range(steps):
        client.say(
            f"task {number} \N{SNOWMAN} please", context="hook" if chance.random() < 0.3 else ""
        )
        for step in range(chance.randrange(5)):
            lead = [think(f"thought {step}")] if chance.random() < 0.5 else []
            count = 2 if chance.random() < 0.2 else 1
            calls = client.call(*(f"do {number}.{step}.{n}" for n in range(count)))
            if chance.random() < 0.5:  # what a later trim may leave out as superseded
                calls[0] |= chance.choice(SPENT)
            pair.send([*lead, *calls])
            yield "call"
            size = chance.choice([50, 800, 2_500, 9_000 if chance.random() < 0.1 else 300])
            client.results(
                ["output \u2028 line\n" * (size // 14) for _ in range(count)],
                budget=chance.random() < 0.3,
            )
            if chance.random() < 0.1:
                pair.send()  # the client gave up on this one and asks again
                yield "again"
        pair.send([*([think("so")] if chance.random() < 0.5 else []), *says])
        yield "turn"
        event = chance.random()
        if event < 0.05:
            client.model = chance.choice([*NEWEST, *OLDER])
        elif event < 0.08:
            client.system += "One more rule. "
        elif event < 0.11:
            client.compact("what was said, in short")
        elif event < 0.15:
            pair.restart()
        elif event < 0.19:
            client.add_tool(f"tool_{number}")
        elif event < 0.23:
            client.change_effort(chance.choice(["low", "high"]))
        elif event < 0.26:
            client.notify("a helper has ended")
            pair.send(says)
        elif event < 0.29:
            pair.now += 4_000
        elif event < 0.31:
            client.heal()
        elif event < 0.33 and len(client.messages) > 6:
            del client.messages[-2:]  # the person went back and asks something else


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("model", [*NEWEST, *OLDER])
def test_a_splice_is_what_the_full_way_makes(home: Path, model: str, late: bool) -> None:
    """Issue 4, Added time: the same bytes; moved markers, rewritten history, model switches and
    restarts included."""
    pair = Pair(home, ClaudeConversation(model=model), late=late)
    for _ in walk(pair, random.Random(f"{model} {late}"), 40):
        pass
    assert pair.cuts >= 2
    assert pair.spliced > pair.full and pair.whole > 5


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), late=st.booleans(), model=st.sampled_from([*NEWEST, *OLDER]))
def test_any_session_splices_to_the_same_bytes(
    home: Path, seed: int, late: bool, model: str
) -> None:
    """Issue 4, Show it: property tests; restart at any request changes nothing."""
    shutil.rmtree(Paths(os.environ).sessions_dir, ignore_errors=True)
    pair = Pair(home, ClaudeConversation(model=model), late=late)
    for _ in walk(pair, random.Random(seed), 12):
        pass


def uncut(home: Path, *, late: bool = True) -> Pair:
    """Return a pair before any cut whose next request is spliced: it goes as it comes."""
    pair = Pair(home, ClaudeConversation(), late=late)
    for number in range(5):
        pair.client.say(f"task {number}")
        pair.send(pair.client.call(f"do {number}"))
        pair.client.results(["output line\n" * 100])
        pair.send([{"type": "text", "text": "done"}])
    pair.client.say("and now this")
    assert pair.splice(pair.raw()) == WHOLE
    return pair


def steady(home: Path, *, late: bool = True, model: str = "claude-opus-5-5") -> Pair:
    """Return a pair behind a cut whose next request is spliced."""
    pair = Pair(home, ClaudeConversation(model=model), late=late)
    says = [{"type": "text", "text": "done"}]
    for number in range(40):
        pair.client.say(f"task {number}")
        pair.send(pair.client.call(f"do {number}"))
        pair.client.results(["output line\n" * 100])
        pair.send(says)
        is_steady = pair.cuts and pair.known is not None
        if is_steady and pair.trim.state_of(SID, pair.send().thread).cut is not None:
            break
    pair.client.answer(says)
    pair.client.say("and now this")
    assert pair.splice(pair.raw())
    return pair


def changed(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**body, **changes}


def with_last(body: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    return changed(body, messages=[*body["messages"][:-1], message])


def rewritten(body: dict[str, Any]) -> dict[str, Any]:
    messages = list(body["messages"])
    messages[2] = {"role": "assistant", "content": [{"type": "text", "text": "never said"}]}
    return changed(body, messages=messages)


def picture(body: dict[str, Any]) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 40}
    images = [{"type": "image", "source": source}] * 4
    text = {"type": "text", "text": "look"}
    return with_last(body, {"role": "user", "content": [*images, text]})


CHANGES: dict[str, Note] = {
    "an unknown role": lambda b: with_last(b, {"role": "oracle", "content": "x"}),
    "no object": lambda b: changed(b, messages=[*b["messages"], 7]),
    "a lone surrogate": lambda b: with_last(b, {"role": "user", "content": "cut \ud83d"}),
    "a rewritten history": rewritten,
    "a history cut short": lambda b: changed(b, messages=b["messages"][:3]),
    "another model": lambda b: changed(b, model="claude-fable-5-1"),
    "another reserve": lambda b: changed(b, max_tokens=64),
    "another kind of thinking": lambda b: changed(b, thinking={"type": "enabled"}),
    "no tools": lambda b: {key: value for key, value in b.items() if key != "tools"},
    "another system prompt": lambda b: changed(b, system="Say nothing."),
    "a user id": lambda b: changed(b, metadata={"user_id": "user_x_session_0a0a0a0a0a"}),
    "an unknown member": lambda b: changed(b, fresh=[1, 2, 3]),
    "much new text": lambda b: with_last(b, {"role": "user", "content": "word " * 20_000}),
    "pictures": picture,
    "an answer without its call": lambda b: with_last(
        b,
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "none", "content": "x"}],
        },
    ),
    "an empty text": lambda b: with_last(
        b, {"role": "user", "content": [{"type": "text", "text": ""}]}
    ),
    "an assistant's end": lambda b: with_last(b, {"role": "assistant", "content": "so"}),
    "words of the client": lambda b: with_last(
        b, {"role": "user", "content": "CRITICAL: Respond with TEXT ONLY. Sum up."}
    ),
}


@pytest.mark.parametrize(("made", "late"), [(steady, True), (steady, False), (uncut, True)])
@pytest.mark.parametrize("name", CHANGES)
def test_what_else_a_request_may_be_is_the_same_both_ways(
    home: Path, name: str, made: Callable[..., Pair], late: bool
) -> None:
    """Issue 4, Bad input: what we do not understand passes untouched; the decision is one."""
    pair = made(home, late=late)
    body = CHANGES[name](ordered(pair.client.body(), late=late))
    raw = dumped(body)
    mine = pair.splice(raw)
    if mine is not None:
        assert mine == pair.full_way(raw)
    expected = {"an answer without its call", "an empty text", "an assistant's end"}
    expected |= {"words of the client", "pictures"}
    assert (mine is not None) <= (name in expected), "it must go the full way"


@pytest.mark.parametrize(
    "edit",
    [
        lambda raw: raw.replace(b"{", b"{ ", 1),
        lambda raw: raw[:-1] + b" }",
        lambda raw: raw[:-1] + b',"model":"claude-opus-5-5"}',
        lambda raw: raw[:-1] + b',"big":1e400}',
        lambda raw: raw[:-1] + b',"stream":NaN}',
        lambda raw: raw[:-40],
        lambda raw: raw + b"x",
        lambda raw: b"x" + raw,
        lambda raw: raw.replace(b'"messages":[', b'"messages": [', 1),
        lambda raw: raw.replace(b'"messages":[', b'"messages":[{"role":"user","content":"x"},', 1),
        lambda raw: raw.replace(b'{"model"', b'{"x":{"messages":[1]},"model"', 1),
        lambda raw: raw.replace(b"and now this", b"and \xff now"),
        lambda raw: raw.replace(b"output line", b"output lime", 1),
        lambda raw: b"",
        lambda raw: b"[" * 4000,
    ],
)
def test_bytes_that_are_not_the_clients_usual_ones_go_the_full_way(
    home: Path, edit: Callable[[bytes], bytes]
) -> None:
    """Issue 4, Bad input: non-JSON, duplicate keys, 1e400."""
    pair = steady(home)
    assert pair.splice(edit(pair.raw())) is None


def test_where_a_cut_may_be_due_the_full_way_decides(home: Path) -> None:
    """Issue 4, part 2: thresholds; the estimate is the same one."""
    pair = steady(home)
    raw, known = pair.raw(), pair.known
    assert known is not None
    estimated = pair.trim.view(FORM, Ask(sid=SID, body=raw, now=pair.now)).tokens_before
    assert known.splice["most_at_turn"] < known.splice["most_between"]
    known.splice |= {"most_at_turn": estimated + 1, "most_between": 0}
    assert pair.splice(raw) is not None
    known.splice |= {"most_at_turn": estimated, "most_between": 1_000_000}
    assert pair.splice(raw) is None


def test_inside_a_turn_the_hard_threshold_counts(home: Path) -> None:
    """Issue 4, part 2: soft at a real user turn only, hard between tool rounds."""
    pair = steady(home)
    pair.send(pair.client.call("look"))
    pair.client.results(["found\n" * 20])
    raw, known = pair.raw(), pair.known
    assert known is not None
    estimated = pair.trim.view(FORM, Ask(sid=SID, body=raw, now=pair.now)).tokens_before
    known.splice |= {"most_at_turn": 0, "most_between": estimated + 1}
    assert pair.splice(raw) is not None
    known.splice |= {"most_at_turn": 1_000_000, "most_between": estimated}
    assert pair.splice(raw) is None


def test_a_resumed_process_is_no_other_place(home: Path) -> None:
    """Ours: each resume writes down its process; the folder is what the policy looks at."""
    pair = steady(home)
    values = {"session_id": SID, "agent": "claude-code", "bank": "", "registered_at": "t"}

    def register(**more: Any) -> None:
        write_registration(pair.paths, Registration(**values, **more))

    register(cwd="/a", agent_pid=1)
    assert pair.splice(pair.raw()) is None and pair.known is not None
    pair.known.splice["stamps"] = list(stamps_of(pair.paths, SID))
    assert pair.splice(pair.raw()) is not None
    register(cwd="/a", agent_pid=2)
    assert pair.splice(pair.raw()) is not None
    register(cwd="/b", agent_pid=2)
    assert pair.splice(pair.raw()) is None


def test_a_changed_policy_or_registration_is_asked_anew(home: Path) -> None:
    """Design, section 6: the policy is read again whenever it changed."""
    pair = steady(home)
    path = Path(pair.paths.policy_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("version = 1\n")
    assert pair.splice(pair.raw()) is None


def test_other_cut_pieces_of_a_body_make_no_difference(home: Path) -> None:
    """Ours: a body comes in pieces of any size."""
    pair = steady(home, late=False)
    raw, known = pair.raw(), pair.known
    assert known is not None
    made = {
        _spliced(pair.paths, SID, known, pieces(raw, size), len(raw))
        for size in (7, 64, 1_000, 1 << 20)
    }
    assert made == {pair.full_way(raw)}


def test_no_splice_for_a_note_a_repair_or_a_first_request(home: Path) -> None:
    """Ours: what may change between two requests is not kept by the proxy."""
    pair = steady(home)
    raw = pair.raw()
    view = pair.trim.view(FORM, Ask(sid=SID, body=raw, now=pair.now))
    request = split_request(raw)
    assert view.cut is not None and splice_of(FORM, request, view, ()) is not None
    noted = replace(view, cut=replace(view.cut, note="m1"))
    repaired = replace(view, asks_for_binding=True)
    untrimmed = replace(view, body=None)
    newest = replace(view, cut=replace(view.cut, anchor=len(request.messages)))
    for one in (noted, repaired, untrimmed, newest, replace(view, problem="damaged")):
        assert splice_of(FORM, request, one, ()) is None
