"""The recorder's files: private, few open at a time, one when at rest, the index in step."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

from openmem.base.paths import Paths
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, incoming, reply, stored, user

TALK = [user("count the files"), reply("I look.", thinking="which tool?"), user("in src only")]


def test_files_and_folders_are_private(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Location: folders 700, files 600, side files too."""
    recorder.record_request("s", incoming(TALK))
    folder = Path(paths.context_dir)
    assert (folder / "sessions" / "s.v4.db-wal").exists()
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_closed_session_leaves_no_side_file(recorder: Recorder, paths: Paths) -> None:
    """Ours: a resting store is one file that can be copied."""
    recorder.record_request("s", incoming(TALK))
    assert recorder.close_idle(3600) == 0
    assert recorder.close_idle(0) == 1
    assert sorted(os.listdir(paths.sessions_dir)) == ["s.v4.db"]


def test_only_so_many_files_stay_open(paths: Paths) -> None:
    """Brief: bounded; issue 3: 10,000 requests, memory flat."""
    recorder = Recorder(paths, KEY, open_sessions=3)
    for number in range(12):
        recorder.record_request(f"s{number}", incoming([user("go")]))
        open_files = [n for n in os.listdir(paths.sessions_dir) if n.endswith("-wal")]
        assert len(open_files) <= 3
    recorder.record_request("s0", incoming([user("go"), reply("ok")]))
    recorder.close()
    assert [row.text for row in stored(paths, "s0")] == ["go", "ok"]
    assert not [n for n in os.listdir(paths.sessions_dir) if n.endswith("-wal")]


def test_the_index_finds_each_line_and_blank_lines_are_not_in_it(
    recorder: Recorder, paths: Paths
) -> None:
    """Issue 3: size; the index is kept in step with the lines."""
    recorder.record_request("s", incoming([user("alpha\n\n  \nbeta alpha")]))
    with open_session(paths, "s") as reader:
        found = reader.connection.execute(
            "SELECT line_no FROM lines WHERE id IN"
            " (SELECT rowid FROM lines_fts WHERE lines_fts MATCH 'alpha')"
        ).fetchall()
    assert found == [(1,), (4,)]
    connection = sqlite3.connect(Path(paths.sessions_dir) / "s.v4.db")
    connection.execute("INSERT INTO lines_fts (lines_fts) VALUES ('integrity-check')")
    connection.close()
