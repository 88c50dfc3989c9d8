"""A denied workspace leaves nothing on disk, and its requests are not touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.claude import Claude
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene, assert_unchanged, files_of
from tests.fakes.script import play

pytestmark = [pytest.mark.real_agent, pytest.mark.timeout(300), needs_openmem]
WORD = "quetzalcoatl"


def _talk(scene: Scene, folder: Path) -> str:
    claude = Claude(
        home=scene.home, project=folder, sink_url=scene.sink.url, path=scene.claude.path
    )
    command = {"command": f"echo {WORD} result", "description": "x"}
    steps = ({"call": {"name": "Bash", "input": command}}, {"say": f"{WORD} said."})
    outcome = claude.run(play(f"the word is {WORD}", *steps))
    assert outcome.result == f"{WORD} said.", outcome
    return outcome.session_id


def _traces(scene: Scene, sid: str) -> list[str]:
    """Files of openmem that name the session or hold its word."""
    marks = (sid.encode(), WORD.encode())
    folders = [scene.state, scene.home / ".config/openmem"]
    return [
        name
        for folder in folders
        for name, data in files_of(folder).items()
        if any(mark in data or mark in name.encode() for mark in marks)
    ]


def test_a_denied_git_folder_leaves_nothing(scene: Scene) -> None:
    """Design, section 6.8: no row, no trim, no registration; passed through byte for byte."""
    scene.set_up()
    scene.openmem.ok("policy", "deny", str(scene.project), "--yes")
    with scene.tapped() as tap:
        sid = _talk(scene, scene.project)
    assert _traces(scene, sid) == []
    assert len(scene.server.of(RUN)) == 2
    assert_unchanged(tap.requests, scene.server.of(RUN))
    status = scene.openmem.ok("context", "status", "--json").data
    assert status["sessions"] == []


def test_a_folder_outside_git_is_denied_by_default_and_allowed_by_word(
    scene: Scene, tmp_path: Path
) -> None:
    """Issue 2: git repositories yes, everything else no; `policy allow PATH`."""
    scene.set_up()
    folder = tmp_path / "loose"
    folder.mkdir()
    assert _traces(scene, _talk(scene, folder)) == []
    scene.openmem.ok("policy", "allow", str(folder), "--yes")
    assert _traces(scene, _talk(scene, folder)) != []
