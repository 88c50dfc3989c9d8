"""A clock that is wrong, and folders on file systems that cannot carry a WAL."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.care.sweep import due, sweep_daily
from openmem.context.store.database import open_for_writing, session_file
from openmem.context.store.health import ailments
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, incoming, stored, user
from tests.fakes.writer_process import start_writer

YEAR = 365 * 86_400
DAY = 86_400


def test_a_clock_that_goes_back_breaks_no_order_and_loses_nothing(paths: Paths) -> None:
    """Issue 3, part 6: clock going back; the order is that of storing, whatever the time says."""
    for name, wrong_by in (("now", 0), ("past", -2 * YEAR), ("future", YEAR), ("again", 0)):
        said, fault = start_writer("s", name, 3, clock=wrong_by).communicate(timeout=60)
        assert said == "0\n1\n2\n" and not fault
    rows = stored(paths)
    assert [row.seq for row in rows] == list(range(1, 13))
    names = [row.text.split()[0] for row in rows]
    assert names == ["now"] * 3 + ["past"] * 3 + ["future"] * 3 + ["again"] * 3
    assert rows[3].created_at < rows[0].created_at < rows[6].created_at
    assert verify(paths, "s") == []


def test_a_session_written_by_a_slow_clock_is_not_swept_for_it(paths: Paths) -> None:
    """Ours: its file was written just now, whatever time its rows state."""
    start_writer("s", "past", 1, clock=-2 * YEAR).communicate(timeout=60)
    assert due(paths, 30, now=time.time()).sessions == ()


def test_a_sweep_stamped_by_a_fast_clock_does_not_stop_sweeping_for_years(paths: Paths) -> None:
    """Ours: the stamp counts as made now, so the next sweep is a day away, not ten years."""
    now = time.time()
    assert sweep_daily(paths, 30, now=now + 10 * YEAR) is not None
    assert sweep_daily(paths, 30, now=now) is None
    assert sweep_daily(paths, 30, now=now + DAY + 60) is not None


@pytest.fixture
def mounts(paths: Paths, tmp_path: Path) -> str:
    """A list of mounts that puts the home folder on a virtual machine's share."""
    listing = tmp_path / "mountinfo"
    listing.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        f"2 1 0:5 / {paths.home} rw,relatime shared:1 - virtiofs host rw\n"
    )
    return str(listing)


def test_a_file_made_elsewhere_loses_its_wal_on_a_shared_mount(paths: Paths, mounts: str) -> None:
    """Users' report 21: a state folder that was moved there keeps no WAL."""
    start_writer("s", "w", 3).communicate(timeout=60)
    assert _mode(paths) == "wal"
    connection = open_for_writing(paths, "s", busy_seconds=5, mounts_file=mounts)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    assert _mode(paths) == "delete" and not os.path.exists(session_file(paths, "s") + "-wal")
    said, fault = start_writer("s", "v", 3).communicate(timeout=60)
    assert said == "0\n1\n2\n" and not fault
    assert len(stored(paths)) == 6 and verify(paths, "s") == []


def test_a_file_in_use_elsewhere_says_it_is_locked(paths: Paths, mounts: str) -> None:
    """Ours: the journal cannot be changed under another's feet; nothing is forced."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("one")]))
    with pytest.raises(Exception, match="held by another process"):
        open_for_writing(paths, "s", busy_seconds=0.1, mounts_file=mounts)
    assert recorder.record_request("s", incoming([user("one"), user("two")])).new_rows == 1
    recorder.close()


def test_the_shared_mount_is_told_with_what_it_costs(paths: Paths, mounts: str) -> None:
    """Issue 3, part 6: WAL on a network or virtual mount: told, journal mode DELETE."""
    (found,) = [one for one in ailments(paths, mounts_file=mounts) if one.name == "mount"]
    assert "virtiofs" in found.detail and "DELETE" in found.detail and not found.stops
    assert "mount" not in {one.name for one in ailments(paths)}


def _mode(paths: Paths) -> str:
    connection = sqlite3.connect(session_file(paths, "s"))
    try:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()
