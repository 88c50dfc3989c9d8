"""A trim's state that is damaged, and histories that share a session's id."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.trim.state import load_trims, trim_file
from tests.fakes.claude_conversation import ClaudeConversation
from tests.trim.test_trim_conversations import Drive, prefix_of, trimmer

DAMAGE = {
    "cut short": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "another version": lambda data: data.replace(b'"version":1', b'"version":9'),
    "another shape": lambda data: b'{"version":1,"threads":[]}',
    "numbers as text": lambda data: data.replace(b'"anchor":', b'"anchor":"x","was":'),
    "bytes": lambda data: b"\xff\xfe\x00" + data,
    "nested": lambda data: b"[" * 100_000,
}


def _goes_on(before: dict[str, Any], after: dict[str, Any]) -> bool:
    first, then = prefix_of(before), prefix_of(after)
    return then[: len(first)] == first


def _long(home: Path) -> Drive:
    drive = Drive(ClaudeConversation(), trimmer(home))
    for number in range(8):
        drive.turn(f"task {number}", rounds=3, size=1200)
    assert any(view.made_cut for view in drive.views)
    return drive


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("in_loop", [False, True])
def test_a_damaged_state_is_begun_afresh_without_a_refusal(
    home: Path, name: str, in_loop: bool
) -> None:
    """Issue 4, bad input: start afresh from the store, one event, no lost message."""
    drive = _long(home)
    path = Path(trim_file(Paths(os.environ), "s1"))
    if in_loop:
        drive.client.say("a loop")
        drive.send(drive.client.call("one"))
        drive.client.results(["x" * 900])
    path.write_bytes(DAMAGE[name](path.read_bytes()))
    drive.trim = trimmer(home)
    before = len(drive.views)
    if in_loop:
        drive.send(drive.client.call("two"))
        drive.client.results(["y" * 900])
        drive.send([{"type": "text", "text": "done"}])
    for number in range(4):
        drive.turn(f"later {number}", rounds=3, size=1200)
    assert drive.refused == []
    told = [view.problem for view in drive.views[before:] if view.problem]
    assert len(told) == 1
    text = json.dumps(drive.sent[-1]["messages"])
    assert "task 0" in text and "later 3" in text
    assert load_trims(Paths(os.environ), "s1").problem == ""


def test_a_state_that_cannot_be_read_is_told_and_costs_no_request(home: Path) -> None:
    """Issue 4, bad input."""
    drive = _long(home)
    path = Path(trim_file(Paths(os.environ), "s1"))
    path.unlink()
    path.mkdir()  # as root reads everything, a folder is what cannot be read
    drive.trim = trimmer(home)
    with pytest.raises(OSError):
        drive.turn("later", rounds=1, size=500)  # the caller sends the original, with an event


def test_two_histories_of_one_session_keep_their_own_cuts(home: Path) -> None:
    """Issue 4, bad input: two agents with one session id: neither edits the other."""
    one = Drive(ClaudeConversation(), trimmer(home))
    for number in range(3):
        one.turn(f"task {number}", rounds=3, size=1200)
    other = Drive(copy.deepcopy(one.client), one.trim)
    other.rules = one.rules  # one account: each may send what the service signed for the other
    for number in range(9):
        for drive, name in ((one, "one"), (other, "other")):
            drive.turn(f"{name} goes on {number}", rounds=3, size=1200)
    for drive, name in ((one, "other"), (other, "one")):
        assert drive.refused == []
        assert sum(view.made_cut for view in drive.views) >= 2
        breaks = [
            number
            for number in range(1, len(drive.sent))
            if not drive.views[number].made_cut
            and not _goes_on(drive.sent[number - 1], drive.sent[number])
        ]
        parted = [n for n in breaks if drive.views[n].thread != drive.views[n - 1].thread]
        # Where they part, one loses its old thinking once: it may have been made on a trimmed view.
        assert breaks == parted and len(breaks) <= 1
        assert all(f"{name} goes on" not in json.dumps(body["messages"]) for body in drive.sent)
        last = drive.views[-1]
        assert last.thresholds is not None and last.tokens_after <= last.thresholds.hard


def test_a_history_that_was_left_finds_its_cut_again(home: Path) -> None:
    """Decision table: rewind, fork: state belongs to the thread by fingerprint."""
    drive = _long(home)
    kept = copy.deepcopy(drive.client)
    view = drive.views[-1]
    # Back to the second turn, and on from there.
    prompts = [n for n, m in enumerate(kept.messages) if "task" in str(m["content"][-1:])]
    second = next(n for n in prompts if "task 1" in str(kept.messages[n]["content"]))
    drive.client.messages = copy.deepcopy(kept.messages[:second])
    drive.client.say("another way")
    drive.send([{"type": "text", "text": "as you like"}])
    assert drive.refused == []
    drive.client = kept
    drive.client.say("and back")
    drive.send([{"type": "text", "text": "here"}])
    assert drive.refused == []
    assert drive.views[-1].thread == view.thread and drive.views[-1].is_cut


def test_only_so_many_ways_of_one_beginning_are_kept(home: Path) -> None:
    """Ours: what is kept is bounded, and an old way that comes back is served all the same."""
    drive = _long(home)
    beginning = copy.deepcopy(drive.client.messages)
    for number in range(7):
        drive.client.messages = copy.deepcopy(beginning)
        drive.client.heal()  # its thinking would be refused, with or without us
        drive.client.messages[-1]["content"][-1]["text"] = f"another end {number}"
        first = next(m for m in drive.client.messages if m["content"][-1]["type"] == "tool_result")
        first["content"][-1]["content"] = f"rewritten {number}"
        drive.turn(f"way {number}", rounds=2, size=2500)
    assert [refusal for trimmed, refusal in drive.refused if trimmed] == []
    assert len({view.thread for view in drive.views}) <= 4
