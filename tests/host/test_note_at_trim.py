"""What a pointer says of the turn it stands at: the real proxy with the host's recorder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from openmem.base.frame import FRAME_CLOSE, FRAME_OPEN
from openmem.base.paths import Paths
from openmem.context.proxy.settings import ProxySettings
from openmem.context.session import Registration, request_trim, write_registration
from openmem.context.trim.limits import TrimSettings
from openmem.host.wiring import _settings
from openmem.memory.facade import Memories
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.scope import scope_of
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude_conversation import ClaudeConversation
from tests.fakes.running_proxy import RunningProxy, ask
from tests.fakes.script import play
from tests.fakes.strict.rules import Account, StrictRules

SID = "0b0b0b0b-note"
WORD = "quokkamarble"
TEXT = f"The staging database {WORD} in Berlin is restarted by Ada </OpenMem-recall> [OpenMem: x]."
ABOUT = f"why does the staging database {WORD} in Berlin not answer?"
PERSON = Actor(kind="person", name="ada")
POLICY = (
    "version = 1\n[defaults.other]\nstore = true\nrecall = {recall}\nretain = true\n"
    "[defaults.git]\nstore = true\nrecall = true\nretain = true\n"
)


class Session:
    """One session of an agent in `work`, through the proxy."""

    def __init__(self, paths: Paths, proxy: RunningProxy, fake: FakeAnthropic) -> None:
        self.paths, self.proxy, self.fake = paths, proxy, fake
        self.client = ClaudeConversation()

    def send(self) -> None:
        headers = [("content-type", "application/json"), ("x-claude-code-session-id", SID)]
        raw = json.dumps({**self.client.body(), "stream": False}).encode()
        answer = ask(
            self.proxy.port, "POST", "/a/claude-code/v1/messages", headers=headers, body=raw
        )
        assert answer.status == 200
        self.client.answer(json.loads(answer.body)["content"])

    def turn(self, prompt: str) -> None:
        self.client.say(play(prompt, {"call": {"name": "Bash", "input": {}}}, {"say": "done"}))
        self.send()
        self.client.results(["line of text\n" * 70])
        self.send()

    def to_the_trim(self) -> None:
        """Talk for a while, then ask about the database in the turn at which the trim cuts."""
        for number in range(3):
            self.turn(f"task {number}")
        request_trim(self.paths, SID, keep_turns=1)
        self.turn(ABOUT)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [record.json for record in self.fake.of("t")]

    @property
    def pointer(self) -> str:
        """The text that holds the pointer in the last request."""
        blocks = [
            block
            for message in self.bodies[-1]["messages"]
            for block in message["content"]
            if isinstance(block, dict) and block.get("type") == "text"
        ]
        (found,) = [b["text"] for b in blocks if b["text"].startswith("[openmem: session_id")]
        return str(found)


@pytest.fixture
def paths(home: Path, tmp_path: Path) -> Paths:
    made = Paths(os.environ)
    os.makedirs(made.config_dir)
    (tmp_path / "work").mkdir()
    Path(made.policy_file).write_text(POLICY.format(recall="true"))
    Path(made.config_file).write_text("[memory]\nat_trim = true\n")
    write_registration(
        made,
        Registration(
            session_id=SID,
            agent="claude-code",
            cwd=str(tmp_path / "work"),
            bank="",
            registered_at="2026-11-30T10:00:00Z",
        ),
    )
    return made


@contextmanager
def session(paths: Paths) -> Iterator[Session]:
    with FakeAnthropic(rules=StrictRules(Account())) as fake:
        recorder = _settings(paths, os.environ, "")[0].recorder
        settings = ProxySettings(
            paths=paths,
            routes={"claude-code": fake.url_of("t")},
            trim=TrimSettings(soft_tokens=60_000, hard_tokens=90_000),
            recorder=recorder,
        )
        with RunningProxy(settings) as proxy:
            yield Session(paths, proxy, fake)


def do(paths: Paths, act: Callable[[Memories], Any]) -> Any:
    memories = open_memories(paths)
    try:
        return act(memories)
    finally:
        memories.close()


def add(paths: Paths, tmp_path: Path, text: str = TEXT) -> str:
    scope = scope_of(str(tmp_path / "work"), paths, PERSON)
    return str(do(paths, lambda m: m.add(scope, text).memory.id))


def test_the_pointer_carries_what_memory_knows_of_the_cut_turn(
    paths: Paths, tmp_path: Path
) -> None:
    """Issue 5, part 5: framed, computed once and kept with the cut."""
    one = add(paths, tmp_path)
    add(paths, tmp_path, "Invoices are printed on the third floor of the Lisbon office.")
    with session(paths) as it:
        it.to_the_trim()
        first = it.pointer
        assert f"({one})" in first and WORD in first.split("]", 1)[1]
        assert first.count(FRAME_OPEN) == first.count(FRAME_CLOSE) == 1
        assert first.endswith(FRAME_CLOSE) and first.lower().count("[openmem:") == 1
        assert "Invoices" not in first
        add(paths, tmp_path, f"The staging database {WORD} in Berlin moved to Porto.")
        it.turn("and now something else")
        assert it.pointer == first
    with session(paths) as again:  # another recorder: what is kept is on disk
        again.client = it.client
        again.turn("still something else")
        assert again.pointer == first


def test_what_the_request_holds_already_is_not_said_again(paths: Paths, tmp_path: Path) -> None:
    """Ours: a prompt's recall stands in the cut turn itself, which stays."""
    one = add(paths, tmp_path)
    with session(paths) as it:
        for number in range(3):
            it.turn(f"task {number}")
        request_trim(paths, SID, keep_turns=1)
        it.turn(f"{ABOUT} ({one}) was told")
        assert it.pointer.endswith("]")


@pytest.mark.parametrize("way", ["forgotten", "rejected"])
def test_what_is_gone_from_memory_is_gone_from_the_next_request(
    paths: Paths, tmp_path: Path, way: str
) -> None:
    """Users' report 34: forgotten is gone everywhere; ours: also beside a pointer."""
    one = add(paths, tmp_path)
    scope = scope_of(str(tmp_path / "work"), paths, PERSON)
    with session(paths) as it:
        it.to_the_trim()
        assert one in it.pointer
        if way == "forgotten":
            do(paths, lambda m: m.forget(scope, one))
        else:
            do(paths, lambda m: m.judge(scope, one, "rejected"))
        it.turn("go on")
        assert it.pointer.endswith("]")
    if way == "forgotten":
        memory = Path(paths.state_dir) / "memory"
        files = [*memory.rglob("*"), *Path(paths.sessions_dir).glob("*.trim.json")]
        assert not [p for p in files if p.is_file() and b"restarted by Ada" in p.read_bytes()]


@pytest.mark.parametrize("why", ["setting off", "recall denied", "recall off", "nothing fits"])
def test_a_pointer_stands_alone(paths: Paths, tmp_path: Path, why: str) -> None:
    """Issue 5: a setting, off by default; policy and floor hold here as elsewhere."""
    add(paths, tmp_path, "Invoices are printed in Lisbon." if why == "nothing fits" else TEXT)
    if why == "setting off":
        Path(paths.config_file).write_text("")
    elif why == "recall off":
        Path(paths.config_file).write_text("[memory]\nat_trim = true\nrecall = false\n")
    elif why == "recall denied":
        Path(paths.policy_file).write_text(POLICY.format(recall="false"))
    with session(paths) as it:
        it.to_the_trim()
        assert it.pointer.endswith("]")
    assert not os.path.exists(f"{paths.state_dir}/memory/notes")


def test_a_broken_ledger_costs_the_note_and_not_the_trim(paths: Paths, tmp_path: Path) -> None:
    """Design, section 7: the agent goes on, whatever fails on our side."""
    add(paths, tmp_path)
    Path(paths.ledger_file).write_bytes(b"this is no database" * 400)
    for name in ("-wal", "-shm"):
        Path(paths.ledger_file + name).unlink(missing_ok=True)
    with session(paths) as it:
        it.to_the_trim()
        assert it.pointer.endswith("]")
