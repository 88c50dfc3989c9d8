"""Forgetting, masking and sweeping: what goes, what stays, and that nothing comes back."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from openmem.base.clock import utc_text
from openmem.base.errors import NotFound, Usage
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.base.redact import Redacted
from openmem.context.care.export import export_lines
from openmem.context.care.forget import forget_rows, forget_session, forget_word
from openmem.context.care.pending import finish_pending, pending_sessions
from openmem.context.care.scan import mask_stored, scan
from openmem.context.care.select import select_literal, select_pattern
from openmem.context.care.sweep import due, pin_file, sweep, sweep_daily
from openmem.context.formats.messages import split_request
from openmem.context.search.engine import Searcher
from openmem.context.search.query import Query, Scope
from openmem.context.session import Registration, write_registration
from openmem.context.store.blobs import blob_of, write_blob
from openmem.context.store.catalog import note_session
from openmem.context.store.database import session_file
from openmem.context.store.model import Incoming
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from openmem.context.store.verify import verify

WORD = "zebracopper"
KEY = bytes(32)


def unmasked(text: str, key: bytes) -> Redacted:
    return Redacted(text)


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths(os.environ)


@pytest.fixture
def recorder(paths: Paths) -> Any:
    made = Recorder(paths, ensure_key(paths), unmasked)
    yield made
    made.close()


def request(*texts: str, tool: str = "") -> bytes:
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        messages.append({"role": "user" if number % 2 == 0 else "assistant", "content": text})
    if tool:
        messages.append(
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"c": "x"}}],
            }
        )
        messages.append(
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": tool}],
            }
        )
    return json.dumps({"model": "m", "max_tokens": 10, "messages": messages}).encode()


def record(recorder: Recorder, sid: str, body: bytes) -> None:
    recorder.record_request(sid, Incoming(agent="claude-code", view=split_request(body)))


def files_with(paths: Paths, word: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(paths.state_dir):
        for name in names:
            data = Path(folder, name).read_bytes()
            if word.encode() in data.lower():
                found.append(name)
    return found


TALK = ("what is the code name", f"it is {WORD} for now", f"remember {WORD}\nplease", "yes")


def test_a_forgotten_word_is_in_no_file_and_does_not_come_back(
    paths: Paths, recorder: Recorder
) -> None:
    """Users' report 34; issue: 0 bytes of the word, and none after the same request comes again."""
    key = ensure_key(paths)
    body = request(*TALK, tool=f"log line\n{WORD.upper()} failed\nend")
    record(recorder, "s1", body)
    record(recorder, "s1", request(*TALK, "more"))
    assert files_with(paths, WORD)
    receipt = forget_rows(paths, key, select_pattern(paths, f"(?i){WORD}"))
    assert receipt.rows == 3 and receipt.tombstones == 3 and not receipt.pending
    assert files_with(paths, WORD) == []
    record(recorder, "s1", body)
    record(recorder, "s1", request(*TALK, "more", "and", "more"))
    record(recorder, "fork", body)
    recorder.close()
    assert files_with(paths, WORD) == []
    assert verify(paths, "s1") == [] and verify(paths, "fork") == []
    with open_session(paths, "s1") as reader:
        texts = [row.text for row in reader.rows()]
    assert "what is the code name" in texts and "" in texts


def test_another_processs_recorder_honours_the_tombstone(paths: Paths, recorder: Recorder) -> None:
    """Ours: the proxy runs all the while."""
    record(recorder, "s1", request(*TALK))
    other = Recorder(paths, ensure_key(paths), unmasked)
    record(other, "s2", request("hello there"))
    forget_rows(paths, ensure_key(paths), select_pattern(paths, WORD))
    record(other, "s2", request("hello there", "hm", f"remember {WORD}\nplease"))
    other.close()
    recorder.close()
    assert files_with(paths, WORD) == []


def test_a_reader_that_holds_on_makes_it_pending_never_done(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue, part 4."""
    key = ensure_key(paths)
    record(recorder, "s1", request(*TALK))
    reader = sqlite3.connect(session_file(paths, "s1"), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM line").fetchone()
    receipt = forget_rows(paths, key, select_pattern(paths, WORD))
    assert receipt.pending == ("s1",) and pending_sessions(paths) == ["s1"]
    wal = Path(session_file(paths, "s1") + "-wal")
    size = wal.stat().st_size
    assert [finish_pending(paths) for _ in range(3)] == [("s1",)] * 3
    assert wal.stat().st_size == size, "each look made the file anew, and the WAL longer"
    reader.execute("COMMIT")
    reader.close()
    assert finish_pending(paths) == () and pending_sessions(paths) == []
    recorder.close()
    assert files_with(paths, WORD) == []


def test_a_literal_is_masked_and_the_rest_of_the_row_stays(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue: `forget --secret -`."""
    key = ensure_key(paths)
    record(recorder, "s1", request(*TALK))
    receipt = forget_word(paths, key, WORD, select_literal(paths, WORD, key))
    assert receipt.masked == 2 and receipt.rows == 0
    record(recorder, "s1", request(*TALK))
    recorder.close()
    assert files_with(paths, WORD) == []
    with open_session(paths, "s1") as reader:
        texts = [row.text for row in reader.rows()]
    assert any(
        t.startswith("remember [REDACTED:forgotten:") and t.endswith("please") for t in texts
    )
    assert verify(paths, "s1") == []


def test_a_forgotten_session_leaves_no_file_and_its_history_is_not_stored_again(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue, part 4."""
    record(recorder, "s1", request(*TALK))
    record(recorder, "other", request("unrelated"))
    forget_session(paths, ensure_key(paths), "s1")
    assert not [n for n in os.listdir(paths.sessions_dir) if n.startswith("s1")]
    record(recorder, "s1", request(*TALK, "a new question"))
    recorder.close()
    assert files_with(paths, WORD) == [] and files_with(paths, "a new question")
    assert files_with(paths, "unrelated")


def test_nothing_that_matches_changes_nothing(paths: Paths, recorder: Recorder) -> None:
    """Issue, bad input: exit 1, nothing changed; a pattern names its place."""
    record(recorder, "s1", request(*TALK))
    with pytest.raises(NotFound):
        forget_rows(paths, ensure_key(paths), select_pattern(paths, "absent-word"))
    with pytest.raises(NotFound):
        forget_session(paths, ensure_key(paths), "nobody")
    with pytest.raises(Usage, match="at character 1"):
        select_pattern(paths, "(")
    assert files_with(paths, WORD)


def test_a_rewritten_historys_copies_go_with_their_source(paths: Paths, recorder: Recorder) -> None:
    """Ours: a compacted conversation names rows of the one before."""
    record(recorder, "s1", request(*TALK))
    summary = "This session is being continued from a previous conversation. All fine."
    record(recorder, "s1", request(summary, TALK[1], "go on"))
    forget_rows(paths, ensure_key(paths), select_pattern(paths, WORD))
    recorder.close()
    assert files_with(paths, WORD) == [] and verify(paths, "s1") == []


def test_stored_secrets_are_found_and_masked_in_place(paths: Paths, recorder: Recorder) -> None:
    """Issue, part 5: scan-secrets."""
    secret = "ghp_" + "aB3d" * 9
    record(recorder, "s1", request(f"one\ntoken is {secret} ok"))
    found = scan(paths).found
    assert [(f.session_id, f.line, f.rule) for f in found] == [("s1", 2, "github")]
    assert secret not in repr(found)
    masked = mask_stored(paths, ensure_key(paths), found)
    assert (masked.secrets, masked.rows, masked.pending) == (1, 1, ())
    recorder.close()
    assert files_with(paths, secret.lower()) == [] and scan(paths).found == ()
    assert verify(paths, "s1") == []


def age(paths: Paths, sid: str, days: float) -> None:
    for name in os.listdir(paths.sessions_dir):
        if name.startswith(f"{sid}."):
            then = time.time() - days * 86_400
            os.utime(f"{paths.sessions_dir}/{name}", (then, then))


def test_a_sweep_shows_first_and_removes_only_what_is_past_its_time(
    paths: Paths, recorder: Recorder
) -> None:
    """Context store contract, Retention; issue, part 3."""
    for sid in ("old", "young", "pinned"):
        record(recorder, sid, request(f"in {sid}"))
    recorder.close()
    Path(pin_file(paths, "pinned")).touch()
    age(paths, "old", 31)
    age(paths, "pinned", 400)
    loose = blob_of(ensure_key(paths), b"nobody names me", "")
    write_blob(paths, loose)
    now = time.time() + 2 * 3600
    planned = due(paths, 30, now=now)
    assert [entry.session_id for entry in planned.sessions] == ["old"]
    assert planned.kept == (("pinned", "pinned"),) and len(planned.blobs) == 1
    assert os.path.exists(session_file(paths, "old"))
    note_session(paths, "old", "claude-code", "/home/ola/a-telling-name", "")
    note_session(paths, "young", "claude-code", "/home/ola/kept", "")
    sweep(paths, planned, now=now)
    assert files_with(paths, "a-telling-name") == [] and files_with(paths, "ola/kept")
    assert not os.path.exists(session_file(paths, "old"))
    assert os.path.exists(session_file(paths, "young"))
    assert os.path.exists(session_file(paths, "pinned")) and os.listdir(paths.blobs_dir) == []
    assert due(paths, 0, now=now + 10**9).sessions == ()


def test_a_session_written_to_since_the_plan_stays(paths: Paths, recorder: Recorder) -> None:
    """Issue, part 3: a session in use is never swept."""
    record(recorder, "s1", request("hello"))
    recorder.close()
    age(paths, "s1", 40)
    planned = due(paths, 30, now=time.time())
    record(recorder, "s1", request("hello", "hi", "back again"))
    recorder.close()
    sweep(paths, planned, now=time.time())
    assert os.path.exists(session_file(paths, "s1"))


def test_a_sweep_by_itself_runs_once_a_day(paths: Paths) -> None:
    """Context store contract, Retention; a clock set back does not start one."""
    now = time.time()
    assert sweep_daily(paths, 30, now=now) is not None
    assert sweep_daily(paths, 30, now=now + 3600) is None
    assert sweep_daily(paths, 30, now=now - 10 * 86_400) is None
    assert sweep_daily(paths, 30, now=now + 90_000) is not None


def test_an_export_holds_every_row(paths: Paths, recorder: Recorder) -> None:
    """Issue: JSONL and Markdown."""
    record(recorder, "s1", request(*TALK, tool="```\nfenced\n```"))
    with open_session(paths, "s1") as reader:
        lines = [json.loads(line) for line in export_lines(reader, "jsonl", KEY)]
        text = "".join(export_lines(reader, "markdown", KEY))
        count = sum(1 for _ in reader.rows())
    assert len(lines) == count and lines[0]["text"] == TALK[0]
    assert "````\n```\nfenced\n```\n````" in text and f"it is {WORD} for now" in text


def test_a_number_that_another_process_got_does_not_keep_a_session_for_ever(
    paths: Paths, recorder: Recorder
) -> None:
    """Issue 3, part 3: in use is what its own agent uses; numbers of processes come again."""
    began = time.time()
    for sid, registered in (("mine", began), ("reused", began - 50 * 86_400)):
        record(recorder, sid, request("hello"))
        write_registration(
            paths,
            Registration(
                session_id=sid,
                agent="claude-code",
                cwd="/x",
                bank="",
                registered_at=utc_text(registered),
                agent_pid=os.getpid(),
            ),
        )
    recorder.close()
    for sid in ("mine", "reused"):
        age(paths, sid, 40)
    planned = due(paths, 30, now=time.time())
    assert planned.kept == (("mine", "its agent is running"),)
    assert [one.session_id for one in planned.sessions] == ["reused"]


def test_forgetting_is_no_use_of_a_session(paths: Paths, recorder: Recorder) -> None:
    """Issue 3, part 3: what nobody used goes by its time, also when a row of it was forgotten."""
    secret = "ghp_" + "aB3d" * 9
    record(recorder, "s1", request(*TALK, tool=f"token {secret}"))
    recorder.close()
    searcher = Searcher(paths)
    everywhere = Scope(all_workspaces=True)
    with sqlite3.connect(session_file(paths, "s1")) as connection:  # all of it was long ago
        connection.execute("UPDATE session SET last_at = last_at - 40 * 86400")
    connection.close()
    age(paths, "s1", 40)
    assert searcher.search(Query(text=WORD, roles=()), everywhere).total_matches == 2
    forget_rows(paths, ensure_key(paths), select_pattern(paths, f"it is {WORD}"))
    mask_stored(paths, ensure_key(paths), scan(paths).found)
    assert [one.session_id for one in due(paths, 30, now=time.time()).sessions] == ["s1"]
    # A reader that is kept open sees the change all the same.
    assert searcher.search(Query(text=WORD, roles=()), everywhere).total_matches == 1
    searcher.close()
    record(recorder, "s1", request(*TALK, "used again"))
    recorder.close()
    forget_rows(paths, ensure_key(paths), select_pattern(paths, "used again"))
    assert due(paths, 30, now=time.time()).sessions == ()
