"""Sessions from agents' files into the store: whole, and once, whoever was there first."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.agents.transcripts.registry import READERS
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from openmem.context.store.catalog import entry_of
from openmem.context.transcript import Item, Mark, Piece, Source
from openmem.index.sessions.cursors import cursors_file
from tests.fakes.agent_files import (
    claude_path,
    claude_talk,
    codex_lines,
    codex_path,
    copilot_events,
    gemini_chat,
    item,
    lines,
    opencode_database,
    opencode_message,
    opencode_storage,
    opencode_talk,
    pi_entries,
    write,
)
from tests.index.conftest import OTHER, SID, Machine, messages_of, record

# what comes in


def test_every_agents_sessions_come_in_with_folder_bank_and_times(machine: Machine) -> None:
    """Issue 7: search covers months from the first day."""
    repo = str(machine.repo)
    machine.claude(SID, *claude_talk(SID, repo))
    write(codex_path(machine.home, OTHER), lines(*codex_lines(OTHER, repo, item("user", "go"))))
    opencode_database(machine.home / ".local/share/opencode/opencode.db", "ses_1", repo,
                      opencode_talk())  # fmt: skip
    write(machine.home / ".copilot/session-state/c1/events.jsonl", copilot_events("c1", repo))
    write(machine.home / ".pi/agent/sessions/--r--/p1.jsonl", pi_entries("p1", repo))
    write(machine.home / ".gemini/tmp/x/chats/session-1.json",
          json.dumps(gemini_chat("g1", "x")).encode())  # fmt: skip
    write(machine.home / ".gemini/tmp/x/.project_root", repo.encode())
    report = machine.bring_in()
    found = {one.session_id: (one.agent, one.added) for one in report.sessions.values()}
    assert found == {
        SID: ("claude-code", 10), OTHER: ("codex", 1), "ses_1": ("opencode", 8),
        "c1": ("copilot-cli", 5), "p1": ("pi", 8), "g1": ("gemini-cli", 5),
    }  # fmt: skip
    machine.check(*found)
    for sid, (agent, _) in found.items():
        entry = entry_of(machine.paths, sid)
        assert entry is not None and (entry.agent, entry.cwd) == (agent, repo)
        assert entry.bank == entry.workspace != ""
    assert machine.select(SID, "SELECT created_at, last_at FROM threads") == [
        ("2026-09-01T10:00:01Z", "2026-09-01T10:00:10Z")
    ]
    times = [row["created_at"] for row in machine.rows(SID)]
    assert times[0] == "2026-09-01T10:00:01Z" and times == sorted(times)
    page = search(machine.paths, Query(text="contents").checked(), Scope(all_workspaces=True))
    assert page.total_matches == 2 and page.hits[0].session_id == SID


def test_a_second_import_adds_nothing_and_reads_nothing(machine: Machine) -> None:
    """Issue 7, Show it."""
    machine.claude(SID, *claude_talk(SID, str(machine.repo)))
    assert machine.bring_in().added == 10
    again = machine.bring_in()
    assert (again.added, again.unchanged, again.bytes) == (0, 1, 0)
    os.unlink(cursors_file(machine.paths))
    whole = machine.bring_in()
    assert (whole.added, whole.known) == (0, 10)
    machine.check(SID)


def test_a_session_that_went_on_brings_what_is_new(machine: Machine) -> None:
    """Users' report 28: an incremental write is proportional to the new text."""
    talk = claude_talk(SID, str(machine.repo), turns=3)
    machine.claude(SID, *talk[:7])
    machine.bring_in()
    read: list[int] = []

    class Counting:
        agent, title = "claude-code", "Claude Code"
        sources = READERS["claude-code"].sources
        sources_in = READERS["claude-code"].sources_in
        knows = READERS["claude-code"].knows

        def read(self, source: Source, mark: Mark) -> Iterator[Item]:
            for one in READERS["claude-code"].read(source, mark):
                read.append(isinstance(one, Piece))
                yield one

    machine.claude(SID, *talk)
    report = machine.bring_in(readers={"claude-code": Counting()})
    assert report.added == 8 and sum(read) == 8 and machine.texts(SID)[-1] == "answer 3"
    assert machine.select(SID, "SELECT count(*) FROM threads") == [(1,)]
    machine.check(SID)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 2_500), max_size=4), st.integers(0, 13))
def test_any_growth_and_any_recording_come_to_the_same(
    machine: Machine, cuts: list[int], recorded: int
) -> None:
    """Ours: the file is imported as it grows, byte by byte if need be, the proxy beside it."""
    sid = f"s{abs(hash((tuple(cuts), recorded)))}"
    file = machine.file(sid)
    talk = [file.user("go"), *claude_talk(sid, str(machine.repo))]
    for answer in ("m1", "m2"):
        talk += [file.call("a", f"one {answer}", answer=answer), file.result("a", "1")]
    path = machine.claude(sid, *talk)
    whole = path.read_bytes()
    for number, cut in enumerate(sorted(cuts)):
        path.write_bytes(whole[:cut])
        machine.bring_in()
        if number == 1 and recorded:
            record(machine, sid, *messages_of(talk[:recorded]))
    path.write_bytes(whole)
    machine.bring_in()
    rows = [row for row in machine.rows(sid) if row["role"] != "system" and row["source"] is None]
    expected = ["go", *(text for line in talk[1:] for text in _texts_of(line))]
    assert sorted(row["text"] for row in rows) == sorted(expected)
    machine.check(sid)
    path.unlink()


def _texts_of(line: dict[str, Any]) -> list[str]:
    content = line["message"]["content"]
    if isinstance(content, str):
        return [content]
    (block,) = content
    given = block.get("input")
    found = json.dumps(given, separators=(",", ":")) if given else None
    return [found or block.get("text") or block.get("thinking") or block.get("content")]


def test_a_file_cut_and_written_anew_loses_and_doubles_nothing(machine: Machine) -> None:
    """Oddities: a file truncated and rewritten."""
    talk = claude_talk(SID, str(machine.repo))
    machine.claude(SID, *talk)
    machine.bring_in()
    machine.claude(SID, *talk[5:], *machine_tail(machine))
    report = machine.bring_in()
    assert report.added == 1 and sorted(machine.texts(SID)).count("answer 2") == 1
    machine.check(SID)


def machine_tail(machine: Machine) -> list[dict[str, Any]]:
    file = machine.file(SID)
    return [{**file.user("one more thing"), "uuid": "tail"}]


# with the proxy


@pytest.mark.parametrize("cut", [1, 4, 7, 10])
def test_an_import_after_the_proxy_adds_only_what_it_did_not_see(
    machine: Machine, cut: int
) -> None:
    """Issue 7, part 5: matched by content key and order."""
    talk = claude_talk(SID, str(machine.repo))
    record(machine, SID, *messages_of(talk[:cut]))
    before = [row for row in machine.rows(SID) if row["role"] != "system"]
    assert len(before) == cut
    machine.claude(SID, *talk)
    report = machine.bring_in()
    assert report.added == 10 - cut and report.known == cut
    rows = [row for row in machine.rows(SID) if row["role"] != "system"]
    assert [row["text"] for row in rows][:cut] == [row["text"] for row in before]
    assert len(rows) == 10 and len({row["fingerprint"] for row in rows}) == 10
    machine.check(SID)


def test_the_proxy_after_an_import_adds_only_what_is_new(machine: Machine) -> None:
    """Issue 7, part 5: the other way round."""
    talk = claude_talk(SID, str(machine.repo))
    machine.claude(SID, *talk)
    machine.bring_in()
    record(machine, SID, *messages_of(talk), {"role": "user", "content": "and now?"})
    texts = machine.texts(SID)
    assert texts[:10] == [text for text in texts if text not in ("date", "and now?")]
    assert sorted(texts[10:]) == ["and now?", "date"]
    assert machine.select(SID, "SELECT count(*) FROM threads") == [(1,)]
    machine.check(SID)


def test_a_history_whose_chain_parted_is_matched_by_content(machine: Machine) -> None:
    """Design, Row: results in another order, a message that only one of the two has."""
    file = machine.file(SID)
    talk = [
        file.user("go"),
        file.call("a", "one", answer="m1"),
        file.call("b", "two", answer="m1"),
        file.result("a", "1"),
        file.result("b", "2"),
        file.says("done"),
        file.user("go on"),
        file.says("more"),
    ]
    sent = messages_of(talk)
    results = [message["content"][0] for message in sent if message["role"] == "user"][1:3]
    sent[2:4] = [
        {
            "role": "user",
            "content": [results[1], results[0], {"type": "text", "text": "only on the wire"}],
        }
    ]
    record(machine, SID, *sent)
    machine.claude(SID, *talk)
    report = machine.bring_in()
    assert report.added == 0 and report.known == 8
    machine.check(SID)


def test_what_a_person_said_twice_is_stored_twice(machine: Machine) -> None:
    """Ours: a row is matched once; the proxy saw one of the two."""
    file = machine.file(SID)
    talk = [file.user("go"), file.says("ok"), file.user("go"), file.says("ok")]
    record(machine, SID, *messages_of(talk[:2]))
    machine.claude(SID, *talk)
    assert machine.bring_in().added == 2
    assert [t for t in machine.texts(SID) if t != "date"] == ["go", "ok", "go", "ok"]


def test_sub_agents_come_beside_their_session(machine: Machine) -> None:
    """Users' report 28: no collision with the main conversation, the parent link kept."""
    main = machine.file(SID)
    talk = [main.user("go"), main.says("done")]
    helper = machine.file(SID, agent_id="a1")
    task = [helper.user("go"), helper.says("done")]
    record(machine, SID, *messages_of(task), agent_id="a1")
    machine.claude(SID, *talk)
    folder = claude_path(machine.home, SID).with_suffix("")
    write(folder / "subagents/agent-a1.jsonl", lines(*task))
    write(folder / "subagents/agent-b2.jsonl",
          lines(machine.file(SID, agent_id="b2").user("go")))  # fmt: skip
    report = machine.bring_in()
    assert report.added == 3 and len(report.sessions) == 1
    found = machine.select(SID, "SELECT agent_id, kind, rows FROM threads ORDER BY agent_id")
    assert found == [("", "main", 2), ("a1", "sub-agent", 3), ("b2", "sub-agent", 1)]
    main_thread = machine.select(SID, "SELECT thread FROM threads WHERE kind = 'main'")
    assert machine.select(SID, "SELECT parent FROM threads WHERE agent_id = 'b2'") == main_thread
    machine.check(SID)


def test_what_was_summed_up_is_out_of_context(machine: Machine) -> None:
    """Issue 7, part 5: compaction records, one that begins anew and one that does not."""
    file = machine.file(SID)
    machine.claude(SID, file.user("before"), file.says("said"),
                   file.user("This session is being continued", isCompactSummary=True),
                   file.says("after"))  # fmt: skip
    write(codex_path(machine.home, OTHER), lines(*codex_lines(
        OTHER, str(machine.repo), item("user", "before"), item("assistant", "said"),
        {"line": "compacted", "message": "Another language model started to solve this problem"},
        item("assistant", "after"))))  # fmt: skip
    machine.bring_in()
    for sid, kept in ((SID, []), (OTHER, ["before"])):
        left = [row["text"] for row in machine.rows(sid) if not row["in_context"]]
        assert left == [text for text in ("before", "said") if text not in kept]
        assert machine.select(sid, "SELECT kind, dropped FROM events") == [
            ("compaction", len(left))
        ]
        machine.check(sid)
    assert machine.select(SID, "SELECT count(*) FROM threads") == [(2,)]


def test_a_fork_holds_only_what_is_its_own(machine: Machine) -> None:
    """Users' report 47: forked history stored once, with a parent link; the parent comes first."""
    talk = claude_talk(OTHER, str(machine.repo))
    forked = {"sessionId": OTHER, "messageUuid": "x"}
    copied = [{**line, "sessionId": SID, "forkedFrom": forked} for line in talk[:5]]
    file = machine.file(SID)
    own = [{**file.user("another way"), "forkedFrom": None}, file.says("taken")]
    machine.claude(SID, *copied, *own)
    machine.claude(OTHER, *talk)
    report = machine.bring_in()
    fork = report.sessions[SID]
    assert (fork.parent, fork.added, fork.shared) == (OTHER, 2, 5)
    assert machine.texts(SID) == ["another way", "taken"] and len(machine.texts(OTHER)) == 10
    machine.check(SID, OTHER)


def test_a_fork_with_nothing_of_its_own_is_no_session_yet(machine: Machine) -> None:
    """Ours: no empty session in the list; what it says later is stored, also the same words."""
    talk = claude_talk(OTHER, str(machine.repo))
    forked = {"sessionId": OTHER, "messageUuid": "x"}
    copied = [{**line, "sessionId": SID, "forkedFrom": forked} for line in talk]
    machine.claude(OTHER, *talk)
    machine.claude(SID, *copied[:5])
    fork = machine.bring_in().sessions[SID]
    assert (fork.added, fork.shared) == (0, 5)
    assert not Path(f"{machine.paths.sessions_dir}/{SID}.v4.db").exists()
    machine.claude(SID, *copied)  # it goes on as its parent did
    fork = machine.bring_in().sessions[SID]
    assert (fork.added, fork.shared) == (0, 5)
    again = {**copied[0], "uuid": "y", "timestamp": "2026-09-01T11:00:00Z"}
    machine.claude(SID, *copied, again)
    fork = machine.bring_in().sessions[SID]
    assert (fork.added, fork.shared) == (1, 0)
    assert machine.texts(SID) == [talk[0]["message"]["content"]]
    machine.check(SID, OTHER)


def test_a_fork_keeps_all_when_its_parent_may_not_be_stored(machine: Machine) -> None:
    """Ours: nothing is lost with the other session."""
    head = codex_lines(SID, str(machine.repo), forked_from_id=OTHER)
    rest = codex_lines(OTHER, "/private", item("user", "go"), item("assistant", "gone"))
    write(codex_path(machine.home, SID), lines(*head, *rest))
    write(codex_path(machine.home, OTHER), lines(*rest))
    report = machine.bring_in()
    assert machine.texts(SID) == ["go", "gone"] and OTHER not in report.sessions


def test_opencodes_nested_sub_agents_are_threads_of_one_session(machine: Machine) -> None:
    """Brief: at any depth, and a second import adds nothing."""
    database, repo = machine.home / ".local/share/opencode/opencode.db", str(machine.repo)
    above = ""
    for number, sid in enumerate(["ses_1", "ses_2", "ses_3", "ses_4"]):
        talk = [opencode_message("user", {"type": "text", "text": f"I am {sid}"}, number=number)]
        opencode_database(database, sid, repo, talk, parent=above or None)
        above = sid
    report = machine.bring_in()
    assert list(report.sessions) == ["ses_1"] and report.added == 4
    assert machine.texts("ses_1") == [f"I am ses_{number}" for number in (1, 2, 3, 4)]
    machine.check("ses_1")
    assert machine.bring_in().added == 0


def test_opencode_in_database_and_files_is_stored_once(machine: Machine) -> None:
    """Oddities: both must be read and merged."""
    talk = opencode_talk()
    repo = str(machine.repo)
    opencode_database(machine.home / ".local/share/opencode/opencode.db", "ses_1", repo, talk[:1])
    opencode_storage(machine.home, "ses_1", repo, talk)
    report = machine.bring_in()
    assert report.added == 8 and len(machine.texts("ses_1")) == 8
    machine.check("ses_1")
