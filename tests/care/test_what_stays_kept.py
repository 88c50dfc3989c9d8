"""Forgetting takes what was asked for, and nothing of other conversations."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.care import forget as forget_module
from openmem.context.care.forget import forget_rows, forget_session, forget_word
from openmem.context.care.places import others_matching
from openmem.context.care.select import rule_of, select_literal, select_pattern, select_rows
from openmem.context.store.catalog import entry_of
from openmem.context.store.database import session_file
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from openmem.context.store.tombstones import tombstone_file
from openmem.context.store.verify import verify
from tests.fakes.conversation import KEY, call, incoming, reply, result, stored, user
from tests.fakes.conversation import body as body_of
from tests.fakes.stored import Machine, called, said

README = "# Project\nthe readme's text, long enough to matter\n" * 20
READ = [user("read it"), call("Read", {"file": "README.md"}), result(README)]


@pytest.fixture
def paths(home: Path) -> Paths:
    found = Paths(dict(os.environ))
    Path(found.key_file).parent.mkdir(parents=True)
    Path(found.key_file).write_text(KEY.hex())
    return found


@pytest.fixture
def recorder(paths: Paths) -> Iterator[Recorder]:
    made = Recorder(paths, KEY)
    yield made
    made.close()


def texts(paths: Paths, sid: str) -> list[str]:
    return [row.text for row in stored(paths, sid)]


def test_a_forgotten_session_does_not_empty_another_that_reads_the_same_file(
    paths: Paths, recorder: Recorder
) -> None:
    """Design, section 7, nothing lost: what a trim takes out of the other must be in its store."""
    recorder.record_request("gone", incoming([*READ, reply("Understood."), user("thanks")]))
    forget_session(paths, KEY, "gone")
    other = [user("something else"), *READ[1:], reply("Understood."), user("thanks")]
    recorder.record_request("other", incoming(other))
    kept = texts(paths, "other")
    assert README in kept and "Understood." in kept and "thanks" in kept
    assert verify(paths, "other") == []


def test_a_forgotten_session_stays_forgotten_as_a_fork_and_after_its_history_is_rewritten(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue 3, part 4: a tombstone stops the next request from storing it again."""
    said = [*READ, reply("the code name is zebra"), user("and remember zebra")]
    recorder.record_request("gone", incoming(said))
    forget_session(paths, KEY, "gone")
    for sid in ("gone", "a-resumed-one"):
        recorder.record_request(sid, incoming([*said, reply("ok"), user("new words")]))
        assert "new words" in texts(paths, sid) and "zebra" not in str(texts(paths, sid))
        assert README not in texts(paths, sid)
    summary = "This session is being continued from a previous conversation. All is well."
    recorder.record_request("gone", incoming([user(summary), *said[3:], user("go on")]))
    assert "go on" in texts(paths, "gone") and "zebra" not in str(texts(paths, "gone"))


def test_a_row_goes_wherever_the_same_was_said_and_only_there(
    paths: Paths, recorder: Recorder
) -> None:
    """Ours: a fork holds a copy of each row, and a person would take it for gone."""
    talk = [user("first"), reply("it is zebra")]
    recorder.record_request("one", incoming([*talk, user("second")]))
    recorder.record_request("fork", incoming([*talk, user("third")]))
    recorder.record_request("far", incoming([user("it is zebra")]))  # another role's words
    entry = entry_of(paths, "one")
    assert entry is not None
    selection = select_rows(paths, entry, [2])
    assert {(s.entry.session_id, s.seqs) for s in selection.selected} == {
        ("one", (2,)),
        ("fork", (2,)),
    }
    assert forget_rows(paths, KEY, selection).rows == 2
    assert texts(paths, "one") == ["first", "", "second"]
    assert texts(paths, "fork") == ["first", "", "third"]
    assert texts(paths, "far") == ["it is zebra"]
    assert not select_rows(paths, entry, [2]), "it is forgotten already"


def test_a_secret_of_several_lines_goes_in_every_spelling(paths: Paths, recorder: Recorder) -> None:
    """Ours: a key block stands as lines in a result and as JSON in the call that wrote it."""
    secret = 'BEGIN ZEBRA\nab"cd\\ef\nEND ZEBRA'
    talk = [
        user(f"use {secret}!"),
        call("Write", {"file": "k", "content": f"{secret}\n"}),
        result(f"wrote\n{secret}\ntwice {secret}"),
    ]
    recorder.record_request("s", incoming(talk))
    exports = Path(paths.context_dir, "exports")
    exports.mkdir(mode=0o700)
    (exports / "s.jsonl").write_bytes(body_of(talk))
    receipt = forget_word(paths, KEY, secret, select_literal(paths, secret, KEY))
    assert (receipt.masked, receipt.files, receipt.left) == (3, 1, ())
    recorder.record_request("fork", incoming([*talk, user("more")]))
    recorder.close()
    for part in (b"BEGIN ZEBRA", b"cd\\ef", b"cd\\\\ef"):
        held = [str(p) for p in Path(paths.state_dir).rglob("*") if p.is_file() and part in
                p.read_bytes()]  # fmt: skip
        assert held == [], part
    assert verify(paths, "s") == [] and verify(paths, "fork") == []


def test_a_secret_inside_of_a_longer_word_does_not_come_back_with_that_word(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue 3, "Show it": none after the same request comes again, in another session either."""
    talk = [user("set xzebra22y now"), reply("and zebra22, or prefix_zebra22")]
    recorder.record_request("s", incoming(talk))
    forget_word(paths, KEY, "zebra22", select_literal(paths, "zebra22", KEY))
    recorder.record_request("fork", incoming([*talk, user("more")]))
    assert "zebra22" not in str(texts(paths, "s") + texts(paths, "fork"))
    assert "more" in texts(paths, "fork")


def test_a_broken_list_of_what_was_forgotten_costs_no_session_its_file(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue 3, part 6: the fault is the list's; the session's own file is whole and stays."""
    recorder.record_request("s", incoming([user("one")]))
    Path(tombstone_file(paths)).write_bytes(os.urandom(5000))
    for sid in ("s", "new"):
        with pytest.raises(StoreUnavailable, match=r"tombstones\.db.*cannot be read"):
            recorder.record_request(sid, incoming([user("one"), user("two")]))
    assert texts(paths, "s") == ["one"] and os.path.exists(session_file(paths, "s"))
    assert not [name for name in os.listdir(paths.sessions_dir) if "damaged" in name]
    os.unlink(tombstone_file(paths))
    recorder.record_request("s", incoming([user("one"), user("two")]))
    assert texts(paths, "s") == ["one", "two"]


def test_a_tools_name_and_a_folders_are_no_hiding_places(paths: Paths, home: Path) -> None:
    """Issue 3, part 4: the receipt says what and where; what cannot go is named."""
    machine = Machine(home)
    folder = machine.repository("acme-zebra")
    talk = called("mcp__zebra__look", {"q": 1}, "found it")
    machine.record("s", folder, [said("look it up"), *talk])
    assert not select_pattern(paths, "zebra"), "no line says it: a tool's name takes no row along"
    named = [other.sentence for other in others_matching(paths, rule_of("zebra"))]
    assert any(line.startswith("session s, the name of its folder") for line in named)
    assert any(line.startswith("session s, the name of a tool") for line in named)
    forget_rows(paths, KEY, select_pattern(paths, "found it|.q.:1"))
    machine.record("fork", None, [said("look it up"), *talk, said("on")])
    machine.close()
    assert verify(paths, "s") == [] and verify(paths, "fork") == []
    for sid in ("s", "fork"):  # a row that is forgotten has no name either
        with open_session(paths, sid) as reader:
            assert [row.name for row in reader.rows() if row.name] == []
    forget_session(paths, KEY, "s")
    assert not [p for p in Path(paths.state_dir).rglob("*") if p.is_file() and b"zebra" in
                p.read_bytes()]  # fmt: skip


def test_one_session_that_fails_hides_neither_itself_nor_what_went_before(
    paths: Paths, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: a receipt that is lost with an error would hide what is gone for good."""
    for sid in ("one", "two", "three"):
        recorder.record_request(sid, incoming([user(f"zebra in {sid}")]))
    recorder.close()
    real = forget_module.open_for_writing
    second = select_pattern(paths, "zebra").selected[1].entry.session_id

    def fails_once(paths: Paths, sid: str, *, busy_seconds: float) -> sqlite3.Connection:
        if sid == second:
            raise StoreUnavailable("the disk is full; session two cannot be stored.")
        return real(paths, sid, busy_seconds=busy_seconds)

    monkeypatch.setattr(forget_module, "open_for_writing", fails_once)
    receipt = forget_rows(paths, KEY, select_pattern(paths, "zebra"))
    assert (receipt.rows, receipt.failed, receipt.is_done) == (2, (second,), False)
    assert "disk is full" in receipt.left[0]
    assert [e.entry.session_id for e in select_pattern(paths, "zebra").selected] == [second]
