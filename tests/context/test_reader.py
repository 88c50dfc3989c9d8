"""Reading sessions of every version without changing a byte or leaving a file."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from openmem.base.errors import NotFound, StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.catalog import entries, entry_of
from openmem.context.store.database import legacy_file, session_file
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, call, incoming, reply, result, stored, user
from tests.fakes.session_v3 import OldRow, write_old_session

OLD = [
    OldRow(role="user", text="find the key"),
    OldRow(role="assistant", text="I search."),
    OldRow(
        role="tool", kind="tool_result", name="mcp__openmem__smart_compact_search", text="the key"
    ),
    OldRow(role="tool", kind="tool_result", name="Bash", text="a\nb", in_context=False,
           blob_id="0123456789abcdef"),
    OldRow(role="user", text="[openmem: continuing session old; 3 messages …]\nthe key"),
]  # fmt: skip


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths({"HOME": str(home)})


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_earlier_versions_are_read_and_not_touched(paths: Paths, version: int) -> None:
    """Design, section 6: reads files of versions 1 to 3 without touching them."""
    write_old_session(Path(legacy_file(paths, "old")), OLD, version=version)
    before = contents(paths.sessions_dir)
    with open_session(paths, "old") as reader:
        rows = list(reader.rows())
        assert list(reader.events()) == []
        assert reader.version == version
        near = reader.neighbours(2, 1)
    assert [(r.role, r.text, r.echo) for r in rows] == [
        ("user", "find the key", False),
        ("assistant", "I search.", False),
        ("tool", "the key", True),
        ("tool", "a\nb", False),
        ("user", OLD[4].text, True),
    ]
    assert rows[3].blob_ids == ("0123456789abcdef",) and not rows[3].in_context
    assert ([r.seq for r in near[0]], [r.seq for r in near[1]]) == ([1], [3])
    assert contents(paths.sessions_dir) == before


def test_a_text_that_is_no_utf8_hides_no_other_row(paths: Paths) -> None:
    """Oddities, rule: one bad line must never hide the rest."""
    path = write_old_session(Path(legacy_file(paths, "old")), OLD[:2])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE messages SET text = CAST(x'61ff62' AS TEXT) WHERE seq = 1")
    connection.commit()
    connection.close()
    assert [row.text for row in stored(paths, "old")] == ["a\ufffdb", "I search."]


def test_reading_leaves_no_file_and_no_change(paths: Paths) -> None:
    """Issue 2: a dry run changes nothing; SQLite files are opened immutable or not at all."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("one"), reply("two")]))
    recorder.close()
    before = contents(paths.sessions_dir)
    assert len(stored(paths)) == 2
    assert [entry.session_id for entry in entries(paths)] == ["s"]
    assert contents(paths.sessions_dir) == before


def test_what_a_writer_just_stored_is_seen(paths: Paths) -> None:
    """Context store contract, Concurrency: readers use WAL while the proxy writes."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("one")]))
    with open_session(paths, "s") as reader:
        assert [row.text for row in reader.rows()] == ["one"]
        recorder.record_request("s", incoming([user("one"), reply("two")]))
        assert [row.text for row in reader.rows()] == ["one", "two"]
    recorder.close()


def test_a_new_file_hides_an_earlier_one_of_the_same_session(paths: Paths) -> None:
    """Ours: an upgraded session's history comes again whole with its next request."""
    write_old_session(Path(legacy_file(paths, "s")), OLD)
    assert entry_of(paths, "s").is_legacy  # type: ignore[union-attr]
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("new")]))
    recorder.close()
    assert [row.text for row in stored(paths)] == ["new"]
    assert [entry.path for entry in entries(paths)] == [session_file(paths, "s")]


@pytest.mark.parametrize("suffix", [".v4.db", ".db"])
def test_a_newer_file_is_named_and_left_alone(paths: Paths, suffix: str) -> None:
    """Issue 2, bad input: skipped with one line, never written."""
    path = Path(paths.sessions_dir) / f"s{suffix}"
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE messages (x)")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable) as caught:
        open_session(paths, "s")
    assert "version 9" in caught.value.message and "\n" not in caught.value.message
    assert path.read_bytes() == before


@pytest.mark.parametrize("data", [b"", b"no database " * 1000], ids=["empty", "garbage"])
def test_a_file_that_is_none_is_said_in_one_line(paths: Paths, data: bytes) -> None:
    """Issue 3, part 6: no uncaught error."""
    path = Path(session_file(paths, "s"))
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    with pytest.raises(StoreUnavailable) as caught:
        open_session(paths, "s")
    assert "\n" not in caught.value.message
    assert path.read_bytes() == data


def test_damage_found_while_reading_is_our_error(paths: Paths) -> None:
    """Issue 3, part 6: truncated file."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("word " * 20_000), user("end")]))
    recorder.close()
    path = Path(session_file(paths, "s"))
    data = bytearray(path.read_bytes())
    for start in range(8 * 4096, len(data), 4096):
        data[start : start + 4096] = b"\xff" * 4096
    path.write_bytes(bytes(data[: len(data) // 4096 * 4096]))
    with open_session(paths, "s") as reader, pytest.raises(StoreUnavailable):
        list(reader.rows())


def test_an_unknown_session_is_named_with_a_way_on(paths: Paths) -> None:
    """Issue 2, bad input: a clear error naming `context status`."""
    with pytest.raises(NotFound) as caught:
        open_session(paths, "none")
    assert "none" in caught.value.message and "context status" in caught.value.hint


def test_neighbours_are_of_the_same_thread_and_leave_reminders_out(paths: Paths) -> None:
    """Context store contract, Search: neighbouring rows of the same thread, any role."""
    recorder = Recorder(paths, KEY)
    talk = [
        user("a"), {"role": "system", "content": "reminder"}, call("Bash", {"command": "b"}),
        result("c"), reply("d"), user("e"),
    ]  # fmt: skip
    for turn in range(1, len(talk) + 1):
        recorder.record_request("s", incoming(talk[:turn]))
        recorder.record_request(
            "s", incoming([user(f"sub {n}") for n in range(turn)], kind="sub-agent", agent_id="x")
        )
    recorder.close()
    with open_session(paths, "s") as reader:
        seq = next(row.seq for row in reader.rows() if row.text == "c")
        before, after = reader.neighbours(seq, 2)
        assert [row.text for row in before] == ["a", '{"command":"b"}']
        assert [row.text for row in after] == ["d", "e"]
        assert reader.neighbours(seq, 0) == ([], [])
        assert reader.neighbours(999, 2) == ([], [])


def test_one_row_and_a_part_of_the_rows(paths: Paths) -> None:
    """Issue 2, part 8: `context show --row N`."""
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user(str(n)) for n in range(5)]))
    recorder.close()
    with open_session(paths, "s") as reader:
        row = reader.row(3)
        assert row is not None and row.text == "2"
        assert reader.row(6) is None
        assert [row.text for row in reader.rows(after=2, limit=2)] == ["2", "3"]
        facts = reader.row_facts(3)
        assert facts is not None and (facts.seq, facts.text) == (3, "")


def test_odd_paths_can_be_read(tmp_path: Path) -> None:
    """Ours: a state folder may hold any byte that a file name can."""
    paths = Paths({"HOME": str(tmp_path), "OPENMEM_STATE_DIR": f"{tmp_path}/50% of ü?#&x=1"})
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user("one")]))
    assert [row.text for row in stored(paths)] == ["one"]
    recorder.close()
    assert [row.text for row in stored(paths)] == ["one"]
    assert os.listdir(paths.sessions_dir) == ["s.v4.db"]
