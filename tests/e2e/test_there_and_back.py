"""HOME after setup, a session and uninstall is HOME after the same session without openmem."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene, a_scene, files_of
from tests.fakes.script import play

pytestmark = [pytest.mark.timeout(300), needs_openmem]

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Claude Code renews these on each start; seen to differ between two runs without us (2.1.332).
_OWN = {"firstStartTime", "machineID", "userID", "lastUsedAt"}


def _names(folder: Path, project: Path) -> list[str]:
    """File names below a HOME, with ids and what a session numbers at random taken out."""
    place = re.sub(r"[^A-Za-z0-9]", "-", str(project))
    names = {
        re.sub(r"\d{6,}", "N", _ID.sub("ID", name.replace(place, "PROJECT")))
        for name in files_of(folder)
    }
    return sorted(names)


def _leaves(value: Any, project: Path, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The leaves of a JSON value by their path; ids and the project's place taken out."""
    if isinstance(value, dict) and value:
        return {
            path: leaf
            for key, inner in value.items()
            for path, leaf in _leaves(
                inner, project, (*at, _ID.sub("ID", key.replace(str(project), "PROJECT")))
            ).items()
        }
    return {at: _ID.sub("ID", value) if isinstance(value, str) else value}


def _differing(mine: bytes, theirs: bytes, folders: tuple[Path, Path]) -> set[tuple[str, ...]]:
    """Paths whose leaves differ, but for those that Claude Code renews itself."""
    left, right = _leaves(json.loads(mine), folders[0]), _leaves(json.loads(theirs), folders[1])
    missing = object()
    return {
        path
        for path in {*left, *right}
        if left.get(path, missing) != right.get(path, missing) and path[-1] not in _OWN
    }


def _session(scene: Scene) -> None:
    call = {"name": "Bash", "input": {"command": "cat notes.txt", "description": "x"}}
    outcome = scene.say(play("read it", {"call": call}, {"say": "Read."}))
    assert outcome.result == "Read.", outcome
    scene.say(play("again", {"say": "Yes."}), "--continue")


def _is_named(name: str, said: str) -> bool:
    """Whether uninstall named a file's folder, or it is a folder on the way to a named one."""
    _, _, left = said.partition("Left as it is:")
    for folder in re.findall(r"~/(\S+)", left):
        below, above = name.startswith(folder + "/"), folder.startswith(name.rstrip("/"))
        if below or above:
            return True
    return False


@pytest.mark.real_agent
def test_home_is_the_same_as_without_openmem(tmp_path: Path) -> None:
    """Issue 2, "Show it": the same files; those that openmem wrote to are equal but for ids."""
    with FakeAnthropic() as server:
        with a_scene(tmp_path / "plain", server) as plain:
            before = plain.settings.read_bytes()
            _session(plain)
        with a_scene(tmp_path / "ours", server) as ours:
            assert ours.settings.read_bytes() == before
            ours.set_up()
            assert ours.settings.read_bytes() != before
            _session(ours)
            done = ours.openmem.ok("uninstall", "--purge", "--yes")
            assert ours.wait_for_no_process() == []
    assert ours.settings.read_bytes() == before
    left, wanted = _names(ours.home, ours.project), _names(plain.home, plain.project)
    assert "mcp-logs-openmem" in done.stderr
    assert [name for name in left if not _is_named(name, done.stderr)] == wanted
    mine, theirs = (one.home / ".claude.json" for one in (ours, plain))
    assert (
        _differing(mine.read_bytes(), theirs.read_bytes(), (ours.project, plain.project)) == set()
    )
    assert "openmem" not in mine.read_text()


def test_a_dry_run_changes_nothing(scene: Scene) -> None:
    """Design, section 5: a dry run changes no file, before and after setup."""

    def state() -> dict[str, tuple[bytes, int]]:
        return {
            name: (data, (scene.home / name).lstat().st_mtime_ns)
            for name, data in files_of(scene.home).items()
        }

    dry = [
        ("setup", "--yes", "--dry-run"),
        ("setup", "--yes", "--dry-run", "--json"),
        ("install-coding-agent", "--yes", "--dry-run"),
        ("install-mcp", "--yes", "--dry-run"),
        ("uninstall", "--purge", "--yes", "--dry-run"),
        ("policy", "deny", str(scene.project), "--yes", "--dry-run"),
    ]
    before = state()
    for words in dry:
        scene.openmem.ok(*words)
        assert state() == before, words
    assert scene.processes() == []
    scene.set_up()
    scene.openmem.ok("proxy", "stop", "--now", "--yes")
    assert scene.wait_for_no_process() == []
    before = state()
    for words in [*dry, ("undo", "--yes", "--dry-run"), ("doctor",), ("status",)]:
        scene.openmem(*words)
        assert state() == before, words


def test_setup_twice_is_setup_once(scene: Scene) -> None:
    """House style: a second run says "Nothing to do."."""
    scene.set_up()
    before = {n: d for n, d in files_of(scene.home).items() if not n.startswith(".local/share")}
    again = scene.openmem.ok("setup", "--yes", "--port", str(scene.port))
    assert "Nothing to do." in again.stdout + again.stderr
    after = {n: d for n, d in files_of(scene.home).items() if not n.startswith(".local/share")}
    assert after == before


@pytest.mark.real_agent
def test_undo_after_a_session_keeps_what_was_said_and_gives_the_settings_back(
    scene: Scene,
) -> None:
    """Issue 2: `openmem undo`; the agent works on, against the upstream it had before."""
    before = scene.settings.read_bytes()
    scene.set_up()
    scene.say(play("first", {"say": "One."}))
    scene.openmem.ok("undo", "--yes")
    assert scene.settings.read_bytes() == before
    assert "openmem" not in (scene.home / ".claude.json").read_text()
    assert scene.say(play("second", {"say": "Two."}), "--continue").result == "Two."
    assert len(scene.server.of(RUN)) == 2
    found = scene.openmem.ok("context", "search", "first", "--all-workspaces", "--json").data
    assert found["total_matches"] == 1
    nothing = scene.openmem.ok("context", "search", "second", "--all-workspaces", "--json").data
    assert nothing["total_matches"] == 0
