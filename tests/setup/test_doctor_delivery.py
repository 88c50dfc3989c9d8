"""The doctor follows the last recall into the requests of its session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openmem.base.frame import FRAME_OPEN, framed
from openmem.base.paths import Paths
from openmem.hook.delivery import RECALLED, last_delivery, write_delivery
from openmem.setup.doctor.delivery import arrived, check_delivery
from tests.fakes.stored import Machine, said

SID = "7f3a0c44-5555"


@pytest.fixture
def stored(home: Path) -> Machine:
    return Machine(home)


@pytest.fixture
def paths(stored: Machine) -> Paths:
    return stored.paths


def went_on(stored: Machine, *texts: str) -> None:
    """Record one request of the session: the texts as one turn."""
    content = [{"type": "text", "text": text} for text in texts]
    stored.record(SID, stored.home, [{"role": "user", "content": content}])


def recalled_long_ago(paths: Paths) -> None:
    write_delivery(paths, "codex", "prompt", SID, has_recalled=True)
    (file,) = Path(paths.run_dir).glob("delivered-codex.json")
    value = json.loads(file.read_text())
    file.write_text(json.dumps({**value, "recalled_at": "2020-01-01T00:00:00Z"}))


def test_the_mark_is_the_frames(paths: Paths) -> None:
    """Ours: two places must not part."""
    assert FRAME_OPEN.startswith(RECALLED) and RECALLED in framed(["x"])


def test_a_later_event_keeps_the_last_recall(paths: Paths) -> None:
    """Ours: Stop recalls nothing and must not hide what a prompt did."""
    write_delivery(paths, "codex", "prompt", SID, has_recalled=True)
    write_delivery(paths, "codex", "stop", "another")
    last = last_delivery(paths, "codex")
    assert last is not None and (last.session_id, last.recalled_in) == ("another", SID)
    assert last.recalled_at and last.event == "stop"


def test_what_reached_the_model_is_proven_by_its_session(stored: Machine, paths: Paths) -> None:
    """Issue 6, part 5: proven delivery of the last injection."""
    write_delivery(paths, "codex", "prompt", SID, has_recalled=True)
    assert "cannot be followed" in check_delivery(paths, "codex").detail
    text = framed(["Deploys need the VPN."])
    went_on(stored, f"<system-reminder>\n{text}\n</system-reminder>", "how to deploy?")
    found = check_delivery(paths, "codex")
    assert found.outcome == "ok" and "reached the model in session 7f3a0c44" in found.detail


def test_what_the_agent_left_out_is_a_warning(stored: Machine, paths: Paths) -> None:
    """Users' reports: a hook that ran and whose output was dropped."""
    recalled_long_ago(paths)
    went_on(stored, "how to deploy?")
    found = check_delivery(paths, "codex")
    assert found.outcome == "warning" and "left it out" in found.detail
    last = last_delivery(paths, "codex")
    assert last is not None and arrived(paths, last) is False


def test_a_session_that_did_not_go_on_proves_nothing(stored: Machine, paths: Paths) -> None:
    """Ours: between a hook and the request lies time."""
    stored.record(SID, stored.home, [said("before")])
    write_delivery(paths, "codex", "prompt", SID, has_recalled=True)
    assert check_delivery(paths, "codex").outcome == "ok"
