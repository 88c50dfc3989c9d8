"""What must not be told is told by no path: a table of cases, paths and what happens in between.

Each case puts a text with a word of its own into the state that it names. Then every path out of
memory is asked, and again after each way by which the text might come back. A tool, a hook event or
a command that is on no list here fails the last tests.
Source: issue 5, negative evals; design, section 8; users' reports 29, 33, 34 and 35.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmem.base.frame import framed
from openmem.cli.commands.memory import memory as memory_commands
from openmem.hook.handle import EVENTS
from openmem.mcp.memory_tools import memory_tools
from openmem.mcp.tools import Toolbox
from tests.negative.world import AGENT, ASKED, PERSON, UNASKED, World, a_world

WORD = "quokkamarble"
TEXT = f"The staging database is called {WORD} since the move to Berlin."
QUESTION = f"what do we know about the staging database {WORD} in Berlin?"
UNRELATED = "please rename the helper that parses dates in the calendar module"
TOKEN = "ghp_" + "Qk4dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"
PATHS = {**ASKED, **UNASKED}


@dataclass(frozen=True)
class Case:
    """A state. `put`: brings it about. `question`: what is asked. `word`: must not be told.

    `may_tell`: paths that answer no question and tell it rightly. `comes_back`: False where the
    text may be brought in again because it is nobody's verdict that it must not.
    """

    put: Callable[[World], object]
    question: str = QUESTION
    word: str = WORD
    may_tell: frozenset[str] = frozenset()
    comes_back: bool = False


def _rejected(world: World) -> None:
    one = world.add(TEXT, AGENT)
    world.do(lambda m: m.judge(world.scope(PERSON), one, "rejected"))


def _retracted(world: World) -> None:
    one = world.add(TEXT, AGENT)
    world.do(lambda m: m.judge(world.scope(PERSON), one, "accepted"))
    world.do(lambda m: m.judge(world.scope(PERSON), one, "rejected"))


def _expired(world: World) -> None:
    one = world.add(TEXT)
    world.do(lambda m: m.date(world.scope(PERSON), one, "2020-01-01", "2020-02-01"))


def _superseded(world: World) -> None:
    one = world.add(TEXT)
    new = "The staging database in Berlin is ibis-7."
    world.do(lambda m: m.correct(world.scope(PERSON), one, new))


def _forgotten(world: World) -> None:
    one = world.add(TEXT)
    world.do(lambda m: m.forget(world.scope(PERSON), one))


def _other_bank(world: World) -> None:
    world.do(lambda m: m.add(world.scope(PERSON), TEXT, bank="somewhere/else"))


def _other_workspace(world: World) -> None:
    world.add(TEXT, folder=world.other)
    world.said(TEXT, folder=world.other)


def _denied_workspace(world: World) -> None:
    world.add(TEXT)
    world.at = world.denied
    assert world.said(TEXT) == 0


def _secret(world: World) -> None:
    world.add(f"{TEXT} Log in with {TOKEN}.", AGENT)
    world.said(f"use {TOKEN} for the staging database {WORD}")
    world.imported(json.dumps({"content": f"the token is {TOKEN}"}), PERSON)


def _own_echo(world: World) -> None:
    echo = framed([f"- (m-1) {TEXT}"])
    world.said(f"{echo}\nwhat is this about?", f"I was told:\n{echo}")
    tools = Toolbox(memory_tools(world.environ(), "core"))
    assert tools.call("memory_add", {"text": echo}, {})[1]
    world.imported(json.dumps({"content": echo}), PERSON)


def _unrelated(world: World) -> None:
    world.add(TEXT)
    world.said(TEXT)


CASES = {
    "rejected": Case(_rejected),
    "retracted": Case(_retracted),
    "expired": Case(_expired),
    "superseded": Case(_superseded),
    "forgotten": Case(_forgotten),
    "other bank": Case(_other_bank, comes_back=True),
    "other workspace": Case(_other_workspace, comes_back=True),
    # what another machine is given is asked for there by a person, not from the denied folder
    "denied workspace": Case(
        _denied_workspace, may_tell=frozenset({"export, import on another machine"})
    ),
    "secret": Case(_secret, word=TOKEN),
    "own echo": Case(_own_echo, comes_back=True),
    "unrelated prompt": Case(
        _unrelated, question=UNRELATED, may_tell=frozenset(UNASKED), comes_back=True
    ),
}


def _again(world: World) -> None:
    """The agent adds it again, and so does the next turn of a transcript."""
    tools = Toolbox(memory_tools(world.environ(), "core"))
    tools.call("memory_add", {"text": TEXT}, {})
    world.said(TEXT)


def _taken_back(world: World) -> None:
    """Everything is exported and imported again, and the bare text, by a person and an agent."""
    data = world.export()
    for actor in (PERSON, AGENT):
        world.imported(data, actor)
        world.imported(json.dumps({"content": TEXT, "trust": "pending"}), actor)


STAGES: dict[str, Callable[[World], object]] = {
    "as it stands": lambda world: None,
    "provider re-index": World.reindexed,
    "export and import again": _taken_back,
    "next ingest": _again,
    "re-index after all": World.reindexed,
}


@pytest.fixture
def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.delenv("AI_AGENT", raising=False)
    with a_world(home) as made:
        yield made


def _row(world: World, case: Case) -> dict[str, bool]:
    """Return for each path whether it tells the word of a case."""
    told = {}
    for name, tell in PATHS.items():
        text = tell(world, case.question).replace(case.question, "")
        told[name] = case.word in text
    return told


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", CASES)
def test_no_path_tells_it_whatever_was_done_to_bring_it_back(world: World, name: str) -> None:
    """Issue 5, negative evals: absent from recall on every path."""
    case = CASES[name]
    case.put(world)
    table = {}
    for stage, act in STAGES.items():
        if case.comes_back and act not in (STAGES["as it stands"], World.reindexed):
            continue
        act(world)
        table[stage] = _row(world, case)
    wrong = [
        f"{name} · {stage} · {path}"
        for stage, row in table.items()
        for path, is_told in row.items()
        if is_told and path not in case.may_tell
    ]
    assert wrong == []
    assert all(set(row) == set(PATHS) for row in table.values())


def test_every_path_does_tell_what_may_be_told(world: World) -> None:
    """Ours: a path that never tells anything would pass every test above."""
    world.add(TEXT)
    row = _row(world, Case(_unrelated))
    kept_turns = {"tool memory_search, kept turns"}
    assert {path for path, is_told in row.items() if not is_told} == kept_turns
    world.said(f"{TEXT} It moved with its {WORD} backup.")
    row = _row(world, Case(_unrelated))
    assert row["tool memory_search, kept turns"]


def test_every_case_of_the_issue_has_its_row() -> None:
    """Issue 5, the list of negative evals, word for word."""
    asked = (
        "rejected, retracted, expired, superseded, other bank, other workspace, "
        "denied workspace, secret, own echo, unrelated prompt"
    )
    assert set(asked.split(", ")) <= set(CASES)
    assert {"provider re-index", "export and import again", "next ingest"} <= set(STAGES)


# What tells no memory, or only to the person who cares for them by id, and why it has no column.
WITHOUT_CONTENT = {
    *("memory_add", "memory_correct", "memory_forget", "memory_history", "memory_status"),
    *("memory_provider_info", "memory_project_scope", "memory_import", "memory_consolidate"),
}
A_PERSONS = {
    *("add", "correct", "forget", "history", "verify", "reindex", "import", "status"),
    *("list", "show", "review"),  # a person judges what is rejected there: it has to be seen
}


def test_every_tool_command_and_event_has_its_column() -> None:
    """Ours: what is new must be held to the table too."""
    columns = " · ".join(PATHS)
    for tool in memory_tools({}, "full"):
        assert f"tool {tool.name}" in columns or tool.name in WITHOUT_CONTENT, tool.name
    for one in memory_commands.registered_commands:
        is_known = f"command memory {one.name}" in columns or one.name in A_PERSONS
        assert is_known or one.name == "export", one.name  # another machine's column
    assert EVENTS == ("session-start", "prompt", "stop")  # a stop tells nothing


def test_a_secret_stands_in_no_file(world: World) -> None:
    """Users' report 29."""
    _secret(world)
    _row(world, CASES["secret"])
    root = Path(world.paths.state_dir)
    assert not [p for p in root.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]


def test_a_denied_session_leaves_nothing(world: World) -> None:
    """Design, section 6: a denied workspace leaves nothing."""
    world.at = world.denied
    assert world.said(TEXT) == 0
    _row(world, Case(_unrelated))
    world.at = world.site
    assert not any(_row(world, Case(_unrelated)).values())
    root = Path(world.paths.state_dir)
    assert not [p for p in root.rglob("*") if p.is_file() and WORD.encode() in p.read_bytes()]


@pytest.mark.parametrize("name", ["rejected", "retracted", "expired", "superseded", "forgotten"])
def test_a_turn_that_was_kept_before_does_not_tell_it_either(world: World, name: str) -> None:
    """Ours: the sentence stands in kept turns too, from before it was judged."""
    assert world.said(TEXT) == 2
    CASES[name].put(world)
    assert [path for path, is_told in _row(world, CASES[name]).items() if is_told] == []
