"""What the recorder does for the stores in a quiet moment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.proxy.recording import tidying
from openmem.context.proxy.recording.tidying import Tidying


@pytest.fixture
def paths(home: Path) -> Paths:
    made = Paths(os.environ)
    os.makedirs(made.sessions_dir, mode=0o700)
    return made


def make_session(paths: Paths, sid: str, days: float) -> str:
    path = f"{paths.sessions_dir}/{sid}.json"
    Path(path).write_text("{}")
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


def test_a_quiet_moment_removes_what_is_past_its_time(paths: Paths) -> None:
    """Context store contract, Retention."""
    old, young = make_session(paths, "old", 31), make_session(paths, "young", 29)
    Tidying(paths, 30).look()
    assert not os.path.exists(old) and os.path.exists(young)


def test_zero_days_keep_everything(paths: Paths) -> None:
    """Context store contract, Retention."""
    old = make_session(paths, "old", 4000)
    Tidying(paths, 0).look()
    assert os.path.exists(old)


def test_a_second_look_soon_after_does_nothing(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: an idle recorder must not read folders all day."""
    looks: list[float] = []
    monkeypatch.setattr(tidying, "sweep_daily", lambda *_, now: looks.append(now))
    one = Tidying(paths, 30)
    one.look()
    one.look()
    assert len(looks) == 1
