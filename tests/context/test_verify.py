"""`verify`: clean when nothing was changed, and each kind of change found."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from openmem.base.errors import InvalidConfig, NotFound
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.store import verify as verify_module
from openmem.context.store.database import legacy_file, session_file
from openmem.context.store.reader import SessionReader, open_session
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify
from tests.fakes.conversation import Message, call, incoming, reply, result, user
from tests.fakes.session_v3 import OldRow, write_old_session

GIF = base64.b64encode(b"GIF89a" * 9).decode()
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "", "data": GIF}}
SECRET = "ghp_" + "a1B2" * 9
TALK: list[Message] = [
    user("one\ntwo"),
    reply("ok", thinking="hm"),
    call("Bash", {"n": 1.0}),
    result([{"type": "text", "text": "caption"}, PICTURE]),
    {"role": "system", "content": "reminder"},
    user(f"token {SECRET}"),
    reply("odd \ud83d text"),
    user("A1b+" * 4_000),
]


@pytest.fixture
def paths(home: Path) -> Paths:
    paths = Paths({"HOME": str(home)})
    recorder = Recorder(paths, ensure_key(paths))
    recorder.record_request("s", incoming(TALK))
    recorder.record_request("s", incoming(TALK[:1], kind="sub-agent", agent_id="a"))
    recorder.record_request("s", incoming([*TALK[:6], user("fork")], kind="side"))
    summary = user("This session is being continued from a previous conversation.")
    recorder.record_request("s", incoming([summary, reply("ok"), user("on")]))
    recorder.close()
    return paths


def test_what_the_recorder_wrote_is_clean(paths: Paths) -> None:
    """Design, section 4, Row: `verify` recomputes the stored digests and the chain's links."""
    assert verify(paths, "s") == []


CHANGES: dict[str, tuple[str, str]] = {
    "a line changed": ("UPDATE line SET text = 'twa' WHERE text = 'two'", "text"),
    "a line gone": ("DELETE FROM line WHERE text = 'two'", "1 lines of 2"),
    "a masked line changed": ("UPDATE line SET text = 'x' WHERE text LIKE 'token%'", "text"),
    "a row gone": ("DELETE FROM row WHERE seq = 4", "the row before it, 4,"),
    "a row of another role": ("UPDATE row SET kind = 6 WHERE seq = 1", "key does not follow"),
    "a link moved": ("UPDATE row SET prev = 1 WHERE seq = 5", "key does not follow"),
    "a digest changed": ("UPDATE row SET digest = x'00' WHERE seq = 1", "text"),
    "a content key changed": ("UPDATE row SET content_key = x'00' WHERE seq = 1", "content key"),
    "the source gone": ("UPDATE row SET source = 99 WHERE source IS NOT NULL", "row 99"),
    "the sums off": ("UPDATE session SET rows = rows + 1", "it says"),
}


@pytest.mark.parametrize(("statement", "what"), CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_found(paths: Paths, statement: str, what: str) -> None:
    """Design, section 4, Row; house style: break it once and see it fail."""
    connection = sqlite3.connect(session_file(paths, "s"))
    assert connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    assert any(what in problem.what for problem in verify(paths, "s"))


@pytest.mark.parametrize(
    ("change", "what"),
    [(lambda path: path.unlink(), "is not there"), (lambda path: path.write_bytes(b"x"), "is not")],
)
def test_a_payload_lost_or_changed_is_found(
    paths: Paths, change: Callable[[Path], object], what: str
) -> None:
    """Ours: a blob is part of what was recorded."""
    change(next(Path(paths.blobs_dir).glob("*.gif")))
    assert any("blob" in p.what and what in p.what for p in verify(paths, "s"))


def test_a_broken_database_is_found(paths: Paths) -> None:
    """Ours: SQLite's own check comes first."""
    path = Path(session_file(paths, "s"))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute("UPDATE sqlite_master SET rootpage = 3 WHERE name = 'row_system'")
    connection.commit()
    connection.close()
    assert any("SQLite says" in problem.what for problem in verify(paths, "s"))


def test_an_earlier_file_is_checked_as_far_as_it_goes(paths: Paths) -> None:
    """Design, section 6: versions 1 to 3 are read."""
    write_old_session(Path(legacy_file(paths, "old")), [OldRow(role="user", text="a")])
    assert verify(paths, "old") == []


def test_without_a_session_or_a_key_it_says_so(paths: Paths) -> None:
    """Ours: never clean for want of anything to check."""
    with pytest.raises(NotFound):
        verify(paths, "none")
    Path(paths.key_file).unlink()
    with pytest.raises(InvalidConfig):
        verify(paths, "s")


def test_a_session_that_is_written_to_meanwhile_is_no_broken_one(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: a person verifies while agents work; rows that come between two looks are no fault."""
    recorder = Recorder(paths, ensure_key(paths))
    recorder.record_request("s", incoming([user("another one")]))  # held open, as by a proxy
    said = [user("another one"), reply("hm"), user("more")]

    def opened(paths: Paths, sid: str) -> SessionReader:
        reader = open_session(paths, sid)

        def trace(statement: str) -> None:
            if statement.startswith("SELECT m.seq"):
                recorder.record_request("s", incoming(said))

        reader.connection.set_trace_callback(trace)
        return reader

    monkeypatch.setattr(verify_module, "open_session", opened)
    assert verify(paths, "s") == []
    recorder.close()
    monkeypatch.undo()
    assert verify(paths, "s") == []
    with open_session(paths, "s") as reader:
        assert "more" in {row.text for row in reader.rows()}
