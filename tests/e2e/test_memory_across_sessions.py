"""Two sessions of the real Claude Code in two worktrees share what a person accepted."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from openmem.base.frame import FRAME_CLOSE, FRAME_OPEN
from tests.fakes.claude import Claude, make_project
from tests.fakes.openmem import Openmem, needs_openmem
from tests.fakes.records import Record
from tests.fakes.scene import RUN, Scene
from tests.fakes.script import play

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]

FACT = "The mooring mast stands at quay 17-B and needs two riggers."


def _add(text: str) -> dict[str, Any]:
    return {"name": "mcp__openmem__memory_add", "input": {"text": text}}


def _at(scene: Scene, folder: Path) -> Claude:
    return Claude(home=scene.home, project=folder, sink_url=scene.sink.url, path=scene.claude.path)


def _texts(record: Record) -> list[str]:
    found = []
    for message in record.messages:
        content = message["content"]
        for block in [{"text": content}] if isinstance(content, str) else content:
            found.append(str(block.get("text", "")))
    return found


def _framed(record: Record) -> str:
    """The recalled text of a request, between our marks; "" when it holds none."""
    for text in _texts(record):
        if FRAME_OPEN in text:
            return text.partition(FRAME_OPEN)[2].partition(FRAME_CLOSE)[0]
    return ""


def _new_records(scene: Scene, known: int) -> list[Record]:
    return list(scene.server.of(RUN))[known:]


def test_what_a_person_accepted_reaches_the_other_worktree_and_no_other_repository(
    scene: Scene, tmp_path: Path
) -> None:
    """Issue 5, "Show it": the real Claude Code, two sessions in two worktrees of one repository."""
    scene.set_up()
    second = tmp_path / "second"
    subprocess.run(
        ["git", "worktree", "add", "-q", str(second), "-b", "second"],
        cwd=scene.project,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    other = make_project(tmp_path / "other")
    here = scene.openmem

    # the first session remembers; a person accepts
    first = scene.say(play("remember where the mast is", {"call": _add(FACT)}, {"say": "Kept."}))
    assert first.result == "Kept."
    pending = here.ok("memory", "review", "--list", "--json").data["memories"]
    assert [one["content"] for one in pending] == [FACT]
    assert pending[0]["provenance"]["session"] == first.session_id
    here.ok("memory", "review", "--accept", pending[0]["id"], "--json")

    # the second, in the other worktree, is told, framed
    known = len(list(scene.server.of(RUN)))
    outcome = _at(scene, second).run(play("hello there", {"say": "Hello."}))
    assert outcome.result == "Hello.", outcome
    told = _framed(_new_records(scene, known)[0])
    assert FACT in told and "not reviewed" not in told

    # a third, in another repository, is told nothing of it
    known = len(list(scene.server.of(RUN)))
    prompt = "where does the mooring mast stand, at which quay?"
    outcome = _at(scene, other).run(play(prompt, {"say": "I do not know."}))
    assert outcome.result == "I do not know.", outcome
    for record in _new_records(scene, known):
        assert FACT not in "".join(_texts(record)) and _framed(record) == ""
    elsewhere = Openmem(home=scene.home, folder=other, environ=here.environ)
    assert elsewhere.ok("memory", "search", "riggers", "--json").data["memories"] == []


def test_what_was_said_is_kept_when_a_turn_ends_and_found_in_the_next_session(
    scene: Scene,
) -> None:
    """Issue 5, part 5: Stop keeps the new turns; users' report 17: prove delivery."""
    scene.set_up()
    said = "the ballast pump of hangar nine is a Koerting model with a brass impeller"
    sid = scene.say(play(said, {"say": "A brass impeller, noted."})).session_id
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        kept = scene.openmem.ok("memory", "list", "--kind", "passage", "--json").data["memories"]
        if len(kept) >= 2:
            break
        time.sleep(0.2)
    contents = [one["content"] for one in kept]
    assert any(text.startswith(f"user: {said}") for text in contents)
    assert "assistant: A brass impeller, noted." in contents
    assert all(one["provenance"]["session"] == sid for one in kept)
    known = len(list(scene.server.of(RUN)))
    scene.say(play("which ballast pump with an impeller is in hangar nine?", {"say": "That one."}))
    told = _framed(_new_records(scene, known)[0])
    assert "brass impeller" in told and "said 20" in told
    # and the same session is not told what it said itself
    known = len(list(scene.server.of(RUN)))
    scene.say(play("say that again about the Koerting ballast pump", {"say": "Again."}),
              "--resume", sid)  # fmt: skip
    newest = _new_records(scene, known)[-1].messages[-1]["content"]
    assert "brass impeller" not in str(newest)


def test_small_talk_adds_nothing_to_a_request(scene: Scene) -> None:
    """Issue 5, negative evals: 0 tokens on "ok"."""
    scene.set_up()
    scene.openmem.ok("memory", "add", FACT)
    sid = scene.say(play("hello", {"say": "Hello."})).session_id
    known = len(list(scene.server.of(RUN)))
    scene.say(play("ok", {"say": "Fine."}), "--resume", sid)
    newest = _new_records(scene, known)[0].messages[-1]["content"]
    assert FRAME_OPEN not in str(newest)
