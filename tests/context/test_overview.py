"""All sessions at a glance."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from openmem.base.paths import Paths
from openmem.context.overview import SessionSummary, overview, sessions
from openmem.context.session import Registration
from openmem.context.store.database import legacy_file
from openmem.context.store.model import Event, Incoming
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import incoming, reply, user, view
from tests.fakes.session_v3 import OldRow, write_old_session


def test_a_session_has_the_fields_that_scripts_rely_on() -> None:
    """Issue 2, JSON that scripts may rely on: `context status --json`."""
    promised = """session_id agent cwd bank rows bytes prompt_tokens trims busts cache_read_tokens
        cache_creation_tokens input_tokens output_tokens fail_opens last_at"""
    assert set(promised.split()) <= {field.name for field in fields(SessionSummary)}


def test_sums_of_a_session_and_its_threads(recorder: Recorder, paths: Paths) -> None:
    """Screens, context status: a line for each sub-agent, busts with their reasons."""
    registration = Registration(
        session_id="s", agent="claude-code", cwd="/w", bank="b", registered_at=""
    )
    main = recorder.record_request(
        "s", Incoming(agent="cc", view=view([user("grün")]), registration=registration)
    )
    sub = recorder.record_request("s", incoming([user("go")], kind="sub-agent", agent_id="a1"))
    for thread, tokens, bust in ((main.thread, 88, "trim"), (sub.thread, 12, "tools")):
        recorder.add_event(
            "s",
            Event(kind="usage", version="v", thread_root=thread, input_tokens=tokens, bust=bust),
        )
    (summary,) = sessions(paths)
    assert (summary.agent, summary.cwd, summary.bank) == ("claude-code", "/w", "b")
    assert (summary.rows, summary.bytes) == (2, len("grüngo".encode()))
    assert (summary.prompt_tokens, summary.input_tokens, summary.busts) == (88, 100, 2)
    assert summary.bust_reasons == (("tools", 1), ("trim", 1))
    by_kind = {thread.kind: thread for thread in summary.threads}
    assert (by_kind["sub-agent"].agent_id, by_kind["sub-agent"].prompt_tokens) == ("a1", 12)
    assert by_kind["main"].rows == 1 and summary.model == "claude-opus-5-5"


def test_the_last_used_comes_first_and_a_bad_file_is_one_line(
    recorder: Recorder, paths: Paths
) -> None:
    """Issue 2, bad input: skipped with one line."""
    assert overview(paths).sessions == ()
    write_old_session(
        Path(legacy_file(paths, "old")),
        [OldRow(role="user", text="ü"), OldRow(role="user", text="b")],
    )
    recorder.record_request("new", incoming([user("a"), reply("b")]))
    (Path(paths.sessions_dir) / "bad.v4.db").write_bytes(b"no database " * 900)
    found = overview(paths)
    assert [summary.session_id for summary in found.sessions] == ["new", "old"]
    assert (found.sessions[1].rows, found.sessions[1].bytes, found.sessions[1].version) == (2, 3, 3)
    assert len(found.skipped) == 1 and "bad" in found.skipped[0]


def test_an_overview_changes_nothing(recorder: Recorder, paths: Paths) -> None:
    """Brief: dry, opens nothing for writing."""
    recorder.record_request("s", incoming([user("a")]))
    recorder.close()
    folder = Path(paths.state_dir)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(sessions(paths)) == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
