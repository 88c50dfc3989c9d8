"""A real session of Claude Code, by the proxy and by its transcript: it is stored once."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import Any

import pytest

from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import Scene
from tests.fakes.script import play

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]


def _bash(command: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": command, "description": "x"}}


def _talk(scene: Scene) -> str:
    """Have a session with parallel calls, a sub-agent, a resume and a compaction; return its id."""
    task = play("count the lamps", {"call": _bash("echo lamp")}, {"say": "One lamp."})
    agent = {
        "name": "Agent",
        "input": {"description": "d", "prompt": task, "subagent_type": "general-purpose"},
    }
    first = play(
        "look at the zeppelin hangar: größer 修剪",
        {"think": "first", "say": "Two at once.", "calls": [_bash("echo a"), _bash("echo b")]},
        {"call": agent},
        {"think": "last", "say": "The hangar is empty."},
    )
    sid = scene.say(first).session_id
    scene.say(
        play("go on", {"say": "I go on.", "call": _bash("echo c")}, {"say": "Done."}), "--continue"
    )
    return sid


def _said(scene: Scene, sid: str) -> Counter[tuple[str, str, str]]:
    """What is stored with text of its own, but for reminders."""
    return Counter(
        (row["role"], row["kind"], row["text"])
        for row in scene.rows(sid)
        if row["role"] != "system" and row["source"] is None
    )


def _import(scene: Scene) -> dict[str, Any]:
    data = scene.openmem.ok("context", "import", "--agent", "claude-code", "--json").data
    assert isinstance(data, dict)
    return data


def test_an_import_after_the_proxy_adds_nothing(scene: Scene) -> None:
    """Issue 7, part 5: matched by content key and order."""
    scene.set_up()
    sid = _talk(scene)
    before = _said(scene, sid)
    report = _import(scene)
    assert report["added"] == 0 and report["known"] > 10 and report["skipped"] == []
    assert _said(scene, sid) == before
    again = _import(scene)
    assert again["added"] == 0 and again["unchanged"] == again["places"]


def test_the_proxy_after_an_import_adds_nothing_that_was_there(scene: Scene) -> None:
    """Issue 7, part 5, the other way round: openmem came after the session."""
    sid = _talk(scene)
    scene.set_up()
    assert _import(scene)["added"] > 10
    imported = _said(scene, sid)
    scene.say(play("and now?", {"say": "Now it is recorded."}), "--continue")
    new = _said(scene, sid) - imported
    assert {(role, text.partition(" @@")[0]): count for (role, _, text), count in new.items()} == {
        ("user", "and now?"): 1,
        ("assistant", "Now it is recorded."): 1,
    }
    assert _import(scene)["added"] == 0


def test_a_compacted_session_is_stored_once(scene: Scene) -> None:
    """Issue 7, part 5: compaction records; recorded first, and imported first."""
    scene.set_up()
    sid = _talk(scene)
    scene.say(
        "/compact " + play("keep it short", {"say": "The hangar was looked at."}), "--continue"
    )
    scene.say(play("and after?", {"say": "After it."}), "--continue")
    before = _said(scene, sid)
    assert _import(scene)["added"] == 0 and _said(scene, sid) == before
    shutil.rmtree(scene.state / "context")
    _import(scene)
    alone = _said(scene, sid)
    missing = [text for (_, _, text) in before - alone if not _is_of_program(text)]
    assert missing == ["The hangar was looked at."]  # the summary's own request is not in the file
    scene.say(play("once more", {"say": "Once."}), "--continue")
    new = [text for (_, _, text) in _said(scene, sid) - alone if not _is_of_program(text)]
    assert sorted(text.partition(" @@")[0] for text in new) == ["Once.", "once more"]


def _is_of_program(text: str) -> bool:
    """Whether a text is a command's that Claude Code ran itself, or its order to sum up."""
    return text.startswith(("<local-command", "<command-name>", "CRITICAL: Respond"))
