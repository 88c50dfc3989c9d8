"""Files that are newer, half made, cut off or no database: each command says so and goes on."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.store.catalog import catalog_file
from openmem.context.store.database import session_file
from openmem.context.store.health import ailments
from openmem.context.store.recorder import Recorder
from openmem.context.store.tombstones import add_tombstones, tombstone_file
from tests.fakes.conversation import KEY, incoming, stored, user
from tests.fakes.session_v3 import OldRow, write_old_session
from tests.fakes.writer_process import start_writer

Run = Callable[..., tuple[int, dict[str, Any]]]


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()


def _half_made(path: Path) -> None:
    """As a migration that died leaves it: the version is there, the tables are not."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP VIEW messages")
        connection.execute("DROP TABLE line")
    connection.close()


def _without_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 0")
    connection.close()


def _cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _cut_to_a_header(path: Path) -> None:
    os.truncate(path, 100)


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _scrambled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 6] = os.urandom(4096 * 5)
    path.write_bytes(data)


def _no_database(path: Path) -> None:
    path.write_bytes(b"this is not a database " * 500)


def _of_the_earlier_system_half_migrated(path: Path) -> None:
    write_old_session(path.parent / "bad.db", [OldRow(role="user", text="quokka of old")])
    with sqlite3.connect(path.parent / "bad.db") as connection:
        connection.execute("DROP TABLE messages")
    connection.close()
    path.unlink()


BREAKS = (
    _newer, _half_made, _without_version, _cut_in_half, _cut_to_a_header, _emptied, _scrambled,
    _no_database, _of_the_earlier_system_half_migrated,
)  # fmt: skip


@pytest.fixture(params=BREAKS, ids=lambda make: make.__name__.strip("_"))
def broken(paths: Paths, request: pytest.FixtureRequest) -> Path:
    """Sessions `good` and `bad`, the latter broken in one way."""
    recorder = Recorder(paths, KEY)
    for sid in ("good", "bad"):
        texts = [f"a quokka in {sid}", *(f"{sid} line {n} " * 90 for n in range(40))]
        recorder.record_request(sid, incoming([user(text) for text in texts]))
    recorder.close()
    path = Path(session_file(paths, "bad"))
    request.param(path)
    return path


@pytest.mark.heavy
@pytest.mark.timeout(900)  # fifteen commands; seconds each where the machine is busy
def test_every_command_serves_the_other_session_and_faults_at_none(
    broken: Path, paths: Paths, run: Run
) -> None:
    """Issue 3, part 6: no uncaught error; a broken session hides no other."""
    before = broken.read_bytes() if broken.exists() else b""
    code, answer = run("context", "search", "quokka", "--all-workspaces")
    assert code == 0
    assert "good" in {hit["session_id"] for hit in answer["data"]["hits"]}
    code, answer = run("context", "search", "--pattern", "quok+a in good", "--all-workspaces")
    assert code == 0 and answer["data"]["total_matches"] == 1
    code, answer = run("context", "status")
    assert code == 0 and "good" in {one["session_id"] for one in answer["data"]["sessions"]}
    for words in (
        ("context", "show", "bad"),
        ("context", "sql", "bad", "SELECT count(*) FROM lines"),
        ("context", "export", "bad"),
        ("context", "verify"),
        ("context", "verify", "bad"),
        ("context", "scan-secrets"),
        ("context", "sweep", "--yes"),
    ):
        assert run(*words)[0] in (0, 1, 4), words
    assert run("context", "verify", "good")[0] == 0
    assert run("context", "show", "good")[0] == 0
    after = broken.read_bytes() if broken.exists() else b""
    assert before == after, "a reader changed it"
    assert run("context", "forget", "--pattern", "quokka in good", "--yes")[0] == 0
    assert run("context", "forget", "--session", "bad", "--yes")[0] == 0
    assert not [name for name in os.listdir(paths.sessions_dir) if name.startswith("bad.")]


@pytest.mark.heavy
def test_recording_goes_on_and_what_is_degraded_is_told(
    broken: Path, paths: Paths, problems: Callable[[], dict[str, str]]
) -> None:
    """Issue 3, part 6: set aside and recorded anew, or left alone when newer; told either way."""
    is_newer = "newer" in problems()
    before = broken.read_bytes() if broken.exists() else b""
    writer = start_writer("bad", "w", 3, busy=5)
    said, fault = writer.communicate(timeout=60)
    assert not fault
    if is_newer:
        assert said == "refused store-newer\n" and broken.read_bytes() == before
        return
    assert said == "0\n1\n2\n"
    assert {"w says 0", "w says 1", "w says 2"} <= {row.text for row in stored(paths, "bad")}
    kept = [name for name in os.listdir(paths.sessions_dir) if ".damaged-" in name]
    was_whole_or_empty = not kept
    assert was_whole_or_empty or "damaged" in problems()
    if kept:
        assert Path(paths.sessions_dir, kept[0]).stat().st_size == len(before)


def test_a_broken_list_of_what_was_forgotten_stops_recording_and_is_told(
    paths: Paths, problems: Callable[[], dict[str, str]]
) -> None:
    """Design, section 6: forgetting fails closed; a person must be able to see why."""
    Path(paths.context_dir).mkdir(parents=True, exist_ok=True)
    Path(tombstone_file(paths)).write_bytes(b"no database " * 400)
    said, fault = start_writer("s", "w", 1).communicate(timeout=60)
    assert said == "refused store-unavailable\n" and not fault
    assert "tombstones" in problems()
    assert Path(tombstone_file(paths)).read_bytes().startswith(b"no database")
    assert not [n for n in os.listdir(paths.context_dir) if n.startswith("s.")]


def test_a_list_of_what_was_forgotten_that_is_broken_inside_is_told(paths: Paths) -> None:
    """Ours: its head can be read, so only a look at all of it shows why requests are not kept."""
    add_tombstones(paths, [f"{number:032x}" for number in range(5000)])
    file = Path(tombstone_file(paths))
    assert "tombstones" not in {one.name for one in ailments(paths)}
    data = bytearray(file.read_bytes())
    data[8192:20480] = os.urandom(12288)
    file.write_bytes(data)
    assert "tombstones" in {one.name for one in ailments(paths)}


def test_a_broken_catalogue_is_made_anew(paths: Paths, run: Run) -> None:
    """Ours: it is a cache; with it broken for good every search would open every file."""
    Path(paths.context_dir).mkdir(parents=True, exist_ok=True)
    Path(catalog_file(paths)).write_bytes(b"no database " * 400)
    said, fault = start_writer("s", "w", 1).communicate(timeout=60)
    assert said == "0\n" and not fault
    assert Path(catalog_file(paths)).read_bytes().startswith(b"SQLite format 3")
    assert run("context", "search", "says", "--all-workspaces")[1]["data"]["total_matches"] == 1
