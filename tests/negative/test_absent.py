"""What must not be told is told by no path: hook, tool, command, export, import, ingest, re-index.

Each case puts one statement with a word of its own into the state that it names, then every path
out of memory is asked for it, in the warm way and alone; then it is brought in again by every path
into memory, and all of it is asked once more.
Source: issue 5, negative evals; design, section 8.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.cli.app import run
from openmem.hook.handle import handle
from openmem.hook.keep import Order, keep
from openmem.mcp.memory_tools import memory_tools
from openmem.mcp.tools import Toolbox
from openmem.memory.facade import Memories
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.portability import import_records
from openmem.memory.scope import Scope, scope_of
from tests.fakes.claude_transcript import assistant, user, write
from tests.memory.conftest import POLICY, repository

WORD = "quokkamarble"
TEXT = f"The staging database is called {WORD} since the move to Berlin."
PROMPT = f"what do we know about the staging database {WORD} in Berlin?"
PERSON, AGENT = Actor(kind="person", name="ada"), Actor(kind="agent", name="claude-code")
TOKEN = "ghp_" + "Qk4dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"


class World:
    """A machine with two repositories and a denied folder; `site` is where everything is asked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.paths = Paths(os.environ)
        os.makedirs(self.paths.config_dir)
        Path(self.paths.policy_file).write_text(POLICY)
        self.site = repository(home / "site", "git@github.com:acme/site.git")
        self.other = repository(home / "other", "git@github.com:acme/other.git")
        self.denied = home / "denied"
        self.denied.mkdir()
        self.at = self.site
        self.count = 0

    def scope(self, actor: Actor, folder: Path | None = None) -> Scope:
        return scope_of(str(folder or self.at), self.paths, actor)

    def do(self, act: Callable[[Memories], object]) -> object:
        memories = open_memories(self.paths)
        try:
            return act(memories)
        finally:
            memories.close()

    def add(self, text: str = TEXT, actor: Actor = PERSON, folder: Path | None = None) -> str:
        return str(self.do(lambda m: m.add(self.scope(actor, folder), text).memory.id))

    # ways out

    def told(self, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
        """Return what each path out of memory says, by its name."""
        self.count += 1
        sid = f"session-{self.count}"
        out = {
            "hook at start": self._hook("session-start", f"{sid}-a"),
            "hook at prompt": self._hook("prompt", f"{sid}-b"),
        }
        tools = Toolbox(
            memory_tools({"HOME": str(self.home), "CLAUDE_PROJECT_DIR": str(self.at)}, "full")
        )
        for name, arguments in (
            ("memory_search", {"query": PROMPT}),
            ("memory_search", {"query": WORD, "kind": "passage"}),
            ("memory_recall", {"query": PROMPT}),
            ("memory_recall", {}),
            ("memory_reflect", {"query": PROMPT}),
            ("memory_list", {"limit": 50}),
            ("memory_export", {"limit": 50}),
        ):
            content, _ = tools.call(name, arguments, {})
            out[f"tool {name} {arguments}"] = str(content[0]["text"])
        before = os.getcwd()
        os.chdir(self.at)
        try:
            for words in (
                ["memory", "recall"],
                ["memory", "recall", PROMPT],
                ["memory", "search", PROMPT],
                ["memory", "reflect", PROMPT],
            ):
                capsys.readouterr()
                run([*words, "--json"])
                out[f"command {' '.join(words)[:24]}"] = capsys.readouterr().out
        finally:
            os.chdir(before)
        return {
            name: text.replace(PROMPT, "").replace(f'"query": "{WORD}"', "")
            for name, text in out.items()
        }

    def _hook(self, event: str, sid: str) -> str:
        payload = {
            "session_id": sid,
            "cwd": str(self.at),
            "source": "startup",
            "prompt": PROMPT,
            "hook_event_name": event,
        }
        environ = {"HOME": str(self.home), "OPENMEM_HOOK_PORT": "0"}
        return handle(event, "claude-code", payload, self.paths, environ).stdout

    # ways in

    def bring_back(self, exported: str) -> None:
        """Bring the text in again by every way that is no person's own word."""
        self.do(lambda m: m.reindex(self.scope(PERSON).bank))
        for actor in (PERSON, AGENT):
            self._import(exported, actor)
            self._import(json.dumps({"content": TEXT, "trust": "pending"}), actor)
        self._say_again()
        self.do(lambda m: m.reindex(self.scope(PERSON).bank))

    def _import(self, data: str, actor: Actor) -> None:
        scope = self.scope(actor)
        if scope.decision.retain:
            self.do(lambda m: import_records(m, scope, data.encode(), key=ensure_key(self.paths)))

    def _say_again(self) -> None:
        """The agent adds it again, and the next turn's transcript says it again."""
        Toolbox(
            memory_tools({"HOME": str(self.home), "CLAUDE_PROJECT_DIR": str(self.at)}, "core")
        ).call("memory_add", {"text": TEXT}, {})
        transcript = write(
            self.home / "again.jsonl",
            user(f"Remember what we decided long ago. {TEXT} Thank you."),
            assistant(f"Noted.\n{TEXT}"),
        )
        keep(
            Order(
                sid="again",
                agent="claude-code",
                folder=str(self.at),
                transcript=str(transcript),
            ),
            self.paths,
        )

    def export(self) -> str:
        from openmem.memory.portability import exported, json_lines

        scope = self.scope(PERSON)
        return str(self.do(lambda m: "\n".join(json_lines(exported(m, scope)))))


@pytest.fixture
def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.delenv("AI_AGENT", raising=False)
    return World(home)


def absent(told: dict[str, str], word: str = WORD) -> None:
    holding = [name for name, text in told.items() if word in text]
    assert not holding, holding


def rejected(world: World) -> None:
    one = world.add(actor=AGENT)
    world.do(lambda m: m.judge(world.scope(PERSON), one, "rejected"))


def retracted(world: World) -> None:
    one = world.add(actor=AGENT)
    world.do(lambda m: m.judge(world.scope(PERSON), one, "accepted"))
    world.do(lambda m: m.judge(world.scope(PERSON), one, "rejected"))


def expired(world: World) -> None:
    one = world.add()
    world.do(lambda m: m.date(world.scope(PERSON), one, "2020-01-01", "2020-02-01"))


def superseded(world: World) -> None:
    one = world.add()
    world.do(
        lambda m: m.correct(world.scope(PERSON), one, "The staging database in Berlin is ibis-7.")
    )


def forgotten(world: World) -> None:
    one = world.add()
    world.do(lambda m: m.forget(world.scope(PERSON), one))


STATES = [rejected, retracted, expired, superseded, forgotten]


def test_the_paths_do_tell_what_may_be_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: a path that never tells anything would pass every test below."""
    world.add()
    silent = [name for name, text in world.told(capsys).items() if WORD not in text]
    # kept turns are another kind; everything else has to speak
    assert silent == ["tool memory_search {'query': 'quokkamarble', 'kind': 'passage'}"]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_what_stands_no_more_is_told_by_no_path_and_comes_back_by_none(
    world: World, capsys: pytest.CaptureFixture[str], state: Callable[[World], None]
) -> None:
    """Issue 5, negative evals: rejected, retracted, expired, superseded; users' report 34."""
    state(world)
    absent(world.told(capsys))
    world.bring_back(world.export())
    absent(world.told(capsys))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_turn_that_was_kept_before_does_not_tell_it_either(
    world: World, capsys: pytest.CaptureFixture[str], state: Callable[[World], None]
) -> None:
    """Ours: the sentence stands in kept turns too, from before it was judged."""
    transcript = write(world.home / "t.jsonl", user(f"Listen. {TEXT} Thank you."), assistant(TEXT))
    order = Order(sid="s0", agent="claude-code", folder=str(world.site), transcript=str(transcript))
    assert keep(order, world.paths) == 2
    state(world)
    absent(world.told(capsys))


@pytest.mark.parametrize("where", ["other bank", "other workspace", "denied workspace"])
def test_what_belongs_elsewhere_is_not_told_here(
    world: World, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    """Issue 5, negative evals: scope."""
    if where == "other workspace":
        world.add(folder=world.other)
    else:
        scope = world.scope(PERSON)
        bank = "somewhere/else" if where == "other bank" else scope.bank
        world.do(lambda m: m.add(scope, TEXT, bank=bank))
    if where == "denied workspace":
        world.at = world.denied
    absent(world.told(capsys))
    world.do(lambda m: m.reindex("somewhere/else"))
    absent(world.told(capsys))


def test_a_session_in_a_denied_workspace_leaves_nothing_to_tell(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Design, section 6: a denied workspace leaves nothing."""
    transcript = write(world.home / "t.jsonl", user(TEXT), assistant(TEXT))
    world.at = world.denied
    order = Order(
        sid="s0", agent="claude-code", folder=str(world.denied), transcript=str(transcript)
    )
    assert keep(order, world.paths) == 0
    world._say_again()
    absent(world.told(capsys))
    world.at = world.site
    absent(world.told(capsys))
    root = Path(world.paths.state_dir)
    assert not [p for p in root.rglob("*") if p.is_file() and WORD.encode() in p.read_bytes()]


def test_a_secret_is_told_by_no_path_and_stands_in_no_file(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 5, negative evals; users' report 29."""
    world.add(f"{TEXT} Log in with {TOKEN}.", actor=AGENT)
    transcript = write(
        world.home / "t.jsonl",
        user(f"use {TOKEN} for the staging database {WORD}"),
        assistant(f"I will use {TOKEN} for it."),
    )
    keep(
        Order(sid="s0", agent="claude-code", folder=str(world.site), transcript=str(transcript)),
        world.paths,
    )
    world._import(json.dumps({"content": f"the token is {TOKEN}"}), PERSON)
    told = world.told(capsys)
    assert any(WORD in text for text in told.values())
    absent(told, TOKEN)
    root = Path(world.paths.state_dir)
    assert not [p for p in root.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]


def test_our_own_echo_is_not_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue 5, negative evals: own echo; users' report 33."""
    from openmem.base.frame import framed

    echo = framed([f"- (m-1) {TEXT}"])
    transcript = write(
        world.home / "t.jsonl",
        user(f"{echo}\nwhat is this about?"),
        assistant(f"I was told:\n{echo}"),
        user(f"<system-reminder>\nUserPromptSubmit hook: {echo}\n</system-reminder>"),
    )
    order = Order(sid="s0", agent="claude-code", folder=str(world.site), transcript=str(transcript))
    keep(order, world.paths)
    content, is_error = Toolbox(
        memory_tools({"HOME": str(world.home), "CLAUDE_PROJECT_DIR": str(world.site)}, "core")
    ).call("memory_add", {"text": echo}, {})
    assert is_error and content
    world._import(json.dumps({"content": echo}), PERSON)
    absent(world.told(capsys))
