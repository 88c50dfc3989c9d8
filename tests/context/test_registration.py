"""Session ids, registrations, and the flag that asks for a trim."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.base.paths import Paths
from openmem.context.session import (
    Registration,
    is_plain_sid,
    read_registration,
    registration_file,
    request_trim,
    sanitize_sid,
    take_trim_request,
    write_registration,
)


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths({"HOME": str(home)})


@pytest.mark.parametrize(
    ("raw", "sid"),
    [
        ("7f3a-91", "7f3a-91"),
        (" \t\n\v\f\rses_1 ", "ses_1"),
        ("\u00a0a", "_a"),
        ("ses/../x", "ses_.._x"),
        ("😀", "_"),
        ("a\\b:c", "a_b_c"),
        ("", ""),
        (" \n", ""),
        ("..", ".."),
    ],
)
def test_an_id_is_sanitised_as_the_contract_says(raw: str, sid: str) -> None:
    """Context store contract, Session id: steps 1 to 3."""
    assert sanitize_sid(raw) == sid


@given(st.text(max_size=400))
def test_no_id_leaves_its_folder_or_is_too_long_for_a_file(raw: str) -> None:
    """Context store contract, Session id: no sid names a path outside `sessions/`."""
    sid = sanitize_sid(raw)
    assert "/" not in sid and "\\" not in sid and "\0" not in sid
    assert len(f".{sid}.v4.db-journal.12345.1234567890123456789".encode()) <= 255
    assert sanitize_sid(sid) == sid


def test_two_long_ids_stay_two() -> None:
    """Ours: cutting an id must not merge two sessions."""
    assert sanitize_sid("a" * 300 + "b") != sanitize_sid("a" * 300 + "c")


@pytest.mark.parametrize(
    ("raw", "is_plain"),
    [("abc-1.2_x", True), ("", False), ("..", False), (".", False), ("a/b", False), ("a b", False)],
)
def test_an_id_that_a_model_sent_is_taken_only_as_it_stands(raw: str, is_plain: bool) -> None:
    """Context store contract, Session id: explicit ids with a separator are refused."""
    assert is_plain_sid(raw) is is_plain


def test_a_registration_is_read_back_and_private(paths: Paths) -> None:
    """Context store contract, Location: folders 700, files 600."""
    registration = Registration(
        session_id="s1", agent="claude-code", cwd="/tmp/ü\udc80", bank="b",
        registered_at="2026-11-30T17:00:00Z", agent_pid=7, transcript_path="/t.jsonl",
    )  # fmt: skip
    assert read_registration(paths, "s1") is None
    write_registration(paths, registration)
    assert read_registration(paths, "s1") == registration
    path = registration_file(paths, "s1")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(paths.sessions_dir).st_mode) == 0o700


def test_a_registration_of_the_earlier_system_is_read(paths: Paths) -> None:
    """Context store contract, Location: five keys."""
    path = Path(registration_file(paths, "s1"))
    path.parent.mkdir(parents=True)
    old = {"session_id": "s1", "agent": "a", "cwd": "/c", "bank": "b", "registered_at": "t"}
    path.write_text(json.dumps(old))
    found = read_registration(paths, "s1")
    assert found is not None
    assert (found.agent, found.cwd, found.bank, found.agent_pid) == ("a", "/c", "b", 0)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"7", b'{"session_id": 3}', b"\xff", b"[" * 9000]
)
def test_a_registration_that_is_none_reads_as_unregistered(paths: Paths, data: bytes) -> None:
    """Ours: policy then decides for unregistered sessions; nothing raises in the proxy."""
    path = Path(registration_file(paths, "s1"))
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    assert read_registration(paths, "s1") is None


def test_a_registration_without_an_id_is_refused(paths: Paths) -> None:
    """Context store contract, Session id: hooks write no file for an empty id."""
    with pytest.raises(ValueError):
        write_registration(
            paths, Registration(session_id=" ", agent="a", cwd="", bank="", registered_at="")
        )
    assert not Path(paths.sessions_dir).exists()


def test_a_trim_is_asked_for_once_and_taken_once(paths: Paths) -> None:
    """Context store contract, Location: the proxy trims on the next request, deletes the flag."""
    assert take_trim_request(paths, "s1") is None
    request_trim(paths, "s1")
    request_trim(paths, "s1")
    assert take_trim_request(paths, "s1") == 0
    assert take_trim_request(paths, "s1") is None


def test_the_turns_to_keep_travel_with_the_request(paths: Paths) -> None:
    """Issue 4: `openmem context trim SESSION [--keep N]`; the last one who asks is heard."""
    request_trim(paths, "s1", keep_turns=12)
    assert take_trim_request(paths, "s2") is None
    assert take_trim_request(paths, "s1") == 12
    request_trim(paths, "s1", keep_turns=12)
    request_trim(paths, "s1")
    assert take_trim_request(paths, "s1") == 0


@pytest.mark.parametrize("content", [b"", b"five", b"-3", b"\xff", b"9" * 40])
def test_a_flag_of_another_hand_is_a_request_all_the_same(paths: Paths, content: bytes) -> None:
    """Context store contract, Location: the file's presence is the wish."""
    flag = Path(paths.sessions_dir) / "s1.force"
    flag.parent.mkdir(parents=True)
    flag.write_bytes(content)
    assert take_trim_request(paths, "s1") is not None
    assert not flag.exists()
