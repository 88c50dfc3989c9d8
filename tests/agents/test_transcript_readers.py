"""Each agent's sessions as it writes them: who said what, in the order of its requests."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.transcripts.files import file_source, head_of
from openmem.agents.transcripts.registry import READERS, reader_for, unread_format
from openmem.context.transcript import Fault, Item, Mark, Piece, Source
from tests.fakes.agent_files import (
    ClaudeFile,
    Json,
    claude_talk,
    codex_call,
    codex_lines,
    copilot_events,
    gemini_changes,
    gemini_chat,
    item,
    lines,
    opencode_database,
    opencode_events,
    opencode_export,
    opencode_message,
    opencode_storage,
    opencode_talk,
    pi_entries,
    write,
)

SID = "11111111-2222-4333-8444-555555555555"
OTHER = "66666666-2222-4333-8444-555555555555"


def items(path: Path, mark: Mark | None = None) -> list[Item]:
    reader = reader_for(head_of(str(path)))
    assert reader is not None, path
    source = file_source(reader.agent, str(path))
    assert source is not None
    return list(reader.read(source, mark or Mark()))


def pieces(path: Path, mark: Mark | None = None) -> list[Piece]:
    return [one for one in items(path, mark) if isinstance(one, Piece)]


def said(found: list[Piece]) -> list[tuple[str, str, str, str]]:
    """Return (role, kind, name, text) of every block."""
    return [
        (block.role, block.kind, block.name, block.text)
        for piece in found
        for block in piece.blocks
    ]


def texts(found: list[Piece]) -> list[str]:
    return [text for _, _, _, text in said(found)]


def claude(tmp_path: Path, *values: dict[str, Any]) -> Path:
    return write(tmp_path / "any-name.txt", lines(*values))


# Claude Code


def test_claude_code_gives_an_answer_whole_before_its_results(tmp_path: Path) -> None:
    """Requests of 2.1.332: results of calls that ran at once come behind the whole answer."""
    file = ClaudeFile(SID, "/repo")
    path = claude(
        tmp_path,
        {"type": "mode", "mode": "default", "sessionId": SID},
        file.user("go"),
        file.answer({"type": "thinking", "thinking": "hm", "signature": "x"}, answer="m1"),
        file.call("a", "one", answer="m1"),
        file.result("a", "1"),
        file.call("b", "two", answer="m1"),
        file.result("b", [{"type": "text", "text": "2"}]),
        file.says("done", answer="m2"),
    )
    assert said(pieces(path)) == [
        ("user", "text", "", "go"),
        ("assistant", "thinking", "", "hm"),
        ("assistant", "tool_use", "Bash", '{"command":"one"}'),
        ("assistant", "tool_use", "Bash", '{"command":"two"}'),
        ("tool", "tool_result", "Bash", "1"),
        ("tool", "tool_result", "Bash", "2"),
        ("assistant", "text", "", "done"),
    ]
    first = pieces(path)[0]
    assert (first.session, first.cwd, first.agent_id) == (SID, "/repo", "") and first.at > 1.7e9
    assert pieces(path)[1].model == "claude-opus-5-5"


def test_claude_code_tells_sub_agents_apart_by_id_or_by_their_first_line(tmp_path: Path) -> None:
    """Oddities: sub-agents in the main file, with and without an id of their own."""
    file = ClaudeFile(SID, "/repo")
    with_id = ClaudeFile(SID, "/repo", agent_id="a1").user("task with an id")
    roots = [file.user(f"task {n}", isSidechain=True, parentUuid=None) for n in (1, 2)]
    answers = [
        {**file.says(f"done {n}"), "isSidechain": True, "parentUuid": root["uuid"]}
        for n, root in enumerate(roots, 1)
    ]
    path = claude(tmp_path, file.user("main"), with_id, *roots, *answers)
    found = {text: piece.agent_id for piece in pieces(path) for text in texts([piece])}
    assert found["main"] == "" and found["task with an id"] == "a1"
    assert found["task 1"] == found["done 1"] != found["task 2"] == found["done 2"] != ""


def test_claude_code_lines_of_two_sessions_go_to_their_sessions(tmp_path: Path) -> None:
    """Oddities: a resumed session of older versions begins with the other one's lines."""
    path = claude(tmp_path, *claude_talk(SID, "/repo", turns=1), *claude_talk(OTHER, "/repo"))
    found = pieces(path)
    assert [piece.session for piece in found].count(SID) == 5
    assert [piece.session for piece in found].count(OTHER) == 10


def test_claude_code_compaction_begins_anew(tmp_path: Path) -> None:
    """Issue 7, part 5: compaction records."""
    file = ClaudeFile(SID, "/repo")
    path = claude(
        tmp_path,
        file.user("before"),
        file.line("system", subtype="compact_boundary", content="Conversation compacted"),
        file.user("This session is being continued …", isCompactSummary=True),
        file.says("after"),
    )
    assert [(piece.begins_anew, texts([piece])) for piece in pieces(path)] == [
        (False, ["before"]),
        (True, ["This session is being continued …"]),
        (False, ["after"]),
    ]


def test_claude_code_leaves_out_what_nobody_said_and_keeps_what_was_queued(tmp_path: Path) -> None:
    """Transcripts of 2.1: progress, whole requests, snapshots, errors of the API."""
    file = ClaudeFile(SID, "/repo")
    queued = {"type": "queued_command", "prompt": "also the tests"}
    path = claude(
        tmp_path,
        file.user("go"),
        file.line("progress", data={"type": "bash_progress", "output": "x"}),
        {"type": "api-request-blob", "sessionId": SID, "message": {"role": "user"}},
        {"type": "file-history-snapshot", "messageId": "m"},
        file.line("attachment", attachment={"type": "task_reminder", "content": []}),
        file.line("attachment", attachment=queued),
        file.line("assistant", isApiErrorMessage=True,
                  message={"role": "assistant", "content": [{"type": "text", "text": "529"}]}),
        file.user("<local-command-caveat>not sent</local-command-caveat>", isMeta=True),
        file.user("<command-name>/clear</command-name>"),
        file.user("<local-command-stdout>ok</local-command-stdout>"),
        file.user("<command-name>/deploy</command-name>"),
    )  # fmt: skip
    by_person = [text for role, _, _, text in said(pieces(path)) if role == "user"]
    assert by_person == ["go", "also the tests", "<command-name>/deploy</command-name>"]


def test_claude_code_takes_a_line_that_is_written_twice_once(tmp_path: Path) -> None:
    """Oddities: one id many times; an id alone does not tell."""
    file = ClaudeFile(SID, "/repo")
    one, two = file.user("go on"), file.user("go on")
    same_id = {**file.user("something else"), "uuid": one["uuid"]}
    path = claude(tmp_path, one, one, two, same_id, one)
    assert texts(pieces(path)) == ["go on", "go on", "something else"]


# Codex


def test_codex_gives_the_items_of_its_requests(tmp_path: Path) -> None:
    """Rollouts of 0.171.0: `response_item` lines, their echoes for the screen left out."""
    path = write(
        tmp_path / "x",
        lines(
            *codex_lines(
                SID,
                "/repo",
                item("developer", "<permissions instructions>"),
                item("user", "<environment_context>\n<cwd>/repo</cwd></environment_context>"),
                item("user", "which port?"),
                {"line": "event_msg", "type": "user_message", "message": "which port?"},
                {"line": "turn_context", "model": "gpt-5.1-codex", "cwd": "/elsewhere"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a file"}]},
                *codex_call("c1", "cat ports", "5432"),
                item("assistant", "Port 5432."),
                {"line": "compacted", "message": "", "replacement_history": [
                    item("user", "which port?"),
                    item("user", "Another language model started to solve this problem: Ports."),
                ]},
            )
        ),
    )  # fmt: skip
    assert [(role, kind) for role, kind, _, _ in said(pieces(path))] == [
        ("system", "text"), ("system", "text"), ("user", "text"), ("assistant", "thinking"),
        ("assistant", "tool_use"), ("tool", "tool_result"), ("assistant", "text"), ("user", "text"),
    ]  # fmt: skip
    last = pieces(path)[-1]
    assert last.sums_up and texts([last])[0].endswith("Ports.")
    assert (last.session, last.cwd, last.model) == (SID, "/repo", "gpt-5.1-codex")
    assert ("tool", "tool_result", "exec_command", "5432") in said(pieces(path))


@pytest.mark.parametrize(
    "meta",
    [
        {"session_id": OTHER, "thread_source": "subagent"},
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": OTHER, "depth": 1}}}},
    ],
)
def test_codex_sub_agents_belong_to_the_session_that_started_them(
    tmp_path: Path, meta: dict[str, Any]
) -> None:
    """Requests of 0.171.0: a sub-agent names its parent's session and a thread of its own."""
    path = write(tmp_path / "x", lines(*codex_lines(SID, "/repo", item("user", "task"), **meta)))
    (found,) = pieces(path)
    assert (found.session, found.agent_id) == (OTHER, SID)


def test_codex_fork_is_itself_and_names_where_it_came_from(tmp_path: Path) -> None:
    """Oddities: a fork begins with the other session's lines, its head included."""
    own = codex_lines(SID, "/repo", forked_from_id=OTHER)
    path = write(tmp_path / "x", lines(*own, *codex_lines(OTHER, "/other", item("user", "go"))))
    (found,) = pieces(path)
    assert (found.session, found.parent, found.cwd) == (SID, OTHER, "/repo")


def test_codex_files_of_2025_have_no_envelope(tmp_path: Path) -> None:
    """Oddities: older rollouts."""
    head = {"id": SID, "timestamp": "2025-08-01T10:00:00Z", "instructions": None}
    path = write(tmp_path / "x", lines(head, {"record_type": "state"}, item("user", "go"),
                                       *codex_call("c", "ls", "a.txt")))  # fmt: skip
    assert texts(pieces(path)) == ["go", '{"cmd":"ls"}', "a.txt"]
    assert {piece.session for piece in pieces(path)} == {SID}


# OpenCode

OPENCODE = [
    ("user", "text", "", "which ports?"),
    ("assistant", "thinking", "", "two files"),
    ("assistant", "text", "", "I read both."),
    ("assistant", "tool_use", "read", '{"path":"a"}'),
    ("assistant", "tool_use", "read", '{"path":"b"}'),
    ("tool", "tool_result", "read", "5432"),
    ("tool", "tool_result", "read", "6379"),
    ("assistant", "text", "", "5432 and 6379."),
]


def opencode_sources(home: Path) -> Iterator[Source]:
    return READERS["opencode"].sources({}, str(home))


def test_opencode_is_the_same_in_each_of_its_four_forms(tmp_path: Path) -> None:
    """Oddities: sessions stand in database and files; exports and logs hold the same."""
    talk = opencode_talk()
    database = opencode_database(
        tmp_path / ".local/share/opencode/opencode.db", "ses_1", "/r", talk
    )
    opencode_storage(tmp_path, "ses_1", "/r", talk)
    for path in (
        write(tmp_path / "export.jsonl", opencode_export("ses_1", "/r", talk)),
        write(tmp_path / "events", opencode_events("ses_1", "/r", talk)),
    ):
        assert said(pieces(path)) == OPENCODE
        assert {(piece.session, piece.cwd) for piece in pieces(path)} == {("ses_1", "/r")}
    sources = list(opencode_sources(tmp_path))
    assert [(source.path == str(database), source.part) for source in sources] == [
        (True, "ses_1"),
        (False, ""),
    ]
    for source in sources:
        found = [one for one in READERS["opencode"].read(source, Mark()) if isinstance(one, Piece)]
        assert said(found) == OPENCODE and found[0].cwd == "/r"
    assert READERS["opencode"].sources_in(str(database)) == sources[:1]


def test_opencode_child_is_a_sub_agent_of_its_parent(tmp_path: Path) -> None:
    """Requests of 1.18.33: a child session names its parent; exports may have lost the name."""
    export = json.loads(opencode_export("ses_2", "/r", opencode_talk()))
    for parent, expected in (("ses_1", ("ses_1", "ses_2")), ("REDACTED", ("ses_2", ""))):
        export["info"]["parentID"] = parent
        (found,) = {
            (piece.session, piece.agent_id)
            for piece in pieces(write(tmp_path / "x", json.dumps(export).encode()))
        }
        assert found == expected


PARENTS = {
    "ses_top": None,
    "ses_child": "ses_top",
    "ses_grand": "ses_child",
    "ses_great": "ses_grand",
    "ses_orphan": "ses_gone",
    "ses_its": "ses_orphan",
    "ses_round": "ses_about",
    "ses_about": "ses_round",
    "ses_beside": "ses_round",
    "ses_self": "ses_self",
}
BELOW = {
    "ses_top": ("ses_top", ""),
    "ses_child": ("ses_top", "ses_child"),
    "ses_grand": ("ses_top", "ses_grand"),
    "ses_great": ("ses_top", "ses_great"),
    "ses_orphan": ("ses_orphan", ""),
    "ses_its": ("ses_orphan", "ses_its"),
    **{name: (name, "") for name in ("ses_round", "ses_about", "ses_beside", "ses_self")},
}


def nested_talk(sid: str) -> list[tuple[Json, list[Json]]]:
    number = 10 * (list(PARENTS).index(sid) + 1)
    return [opencode_message("user", {"type": "text", "text": f"I am {sid}"}, number=number)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("form", ["database", "files", "events"])
def test_opencode_children_of_any_depth_belong_to_the_session_at_the_top(
    tmp_path: Path, form: str
) -> None:
    """Brief: cycles and missing parents neither hang nor lose rows; gone parents: on its own."""
    for sid, parent in PARENTS.items():
        if form == "database":
            path = tmp_path / ".local/share/opencode/opencode.db"
            opencode_database(path, sid, "/r", nested_talk(sid), parent=parent)
        elif form == "files":
            opencode_storage(tmp_path, sid, "/r", nested_talk(sid), parent=parent)
    if form == "events":
        log = [opencode_events(sid, "/r", nested_talk(sid), parent=PARENTS[sid]) for sid in PARENTS]
        found = pieces(write(tmp_path / "events", b"".join(log)))
    else:
        read = READERS["opencode"].read
        items = [item for source in opencode_sources(tmp_path) for item in read(source, Mark())]
        found = [item for item in items if isinstance(item, Piece)]
    said_by = {piece.blocks[0].text.split()[-1]: piece for piece in found}
    assert len(found) == len(said_by) == len(PARENTS)
    below = {sid: (piece.session, piece.agent_id) for sid, piece in said_by.items()}
    if form == "events":  # a part of what there is: the one that is named stands elsewhere
        expected = {**BELOW, "ses_orphan": ("ses_gone", "ses_orphan"),
                    "ses_its": ("ses_gone", "ses_its")}  # fmt: skip
        assert below == expected
    else:
        assert below == BELOW


def test_opencode_stamp_changes_with_a_part(tmp_path: Path) -> None:
    """Ours: a session that went on is read again."""
    talk = opencode_talk()
    opencode_storage(tmp_path, "ses_1", "/r", talk[:1])
    before = [source.stamp for source in opencode_sources(tmp_path)]
    opencode_storage(tmp_path, "ses_1", "/r", talk)
    assert [source.stamp for source in opencode_sources(tmp_path)] != before


@pytest.mark.parametrize(
    ("holds", "why"),
    [
        (b"not a database at all", "file is not a database"),
        (b"CREATE TABLE other (id)", "no such table: session"),
        (b"", ""),
    ],
)
def test_a_database_that_cannot_be_read_is_named(tmp_path: Path, holds: bytes, why: str) -> None:
    """Issue 7, part 5: reported, not passed over; one that was made a moment ago is nothing."""
    path = write(tmp_path / ".local/share/opencode/opencode.db", b"")
    if holds.startswith(b"CREATE"):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(holds.decode())
    else:
        path.write_bytes(holds)
    sources = list(opencode_sources(tmp_path))
    assert [source.path for source in sources] == ([str(path)] if why else [])
    for source in sources:
        with pytest.raises(sqlite3.Error, match=why):
            list(READERS["opencode"].read(source, Mark()))
    assert READERS["opencode"].sources_in(str(path)) in (None, [])


# the others

PORT = [
    ("user", "text", "which port?"),
    ("assistant", "thinking", None),
    ("assistant", "tool_use", '{"path":"p"}'),
    ("tool", "tool_result", "5432"),
    ("assistant", "text", "Port 5432."),
]


@pytest.mark.parametrize("form", ["gemini", "gemini-changes", "copilot", "pi"])
def test_the_other_agents_give_the_same_talk(tmp_path: Path, form: str) -> None:
    """Issue 7, part 5: one protocol, one module for each agent."""
    data = {
        "gemini": json.dumps(gemini_chat(SID, "abc"), indent=1).encode(),
        "gemini-changes": gemini_changes(SID, "abc"),
        "copilot": copilot_events(SID, "/repo"),
        "pi": pi_entries(SID, "/repo"),
    }[form]
    found = pieces(write(tmp_path / "x.log", data))
    shown = [
        (role, kind, None if kind == "thinking" else text) for role, kind, _, text in said(found)
    ]
    assert shown[:5] == PORT
    assert {piece.session for piece in found} == {SID} and all(piece.at for piece in found)
    rest = said(found)[5:]
    if form == "pi":
        assert rest == [
            ("system", "text", "", "Ports."),
            ("assistant", "tool_use", "bash", '{"command":"ls"}'),
            ("tool", "tool_result", "bash", "p"),
        ]
    else:
        assert rest == []


def test_gemini_folder_is_found_by_its_digest(tmp_path: Path) -> None:
    """Ours: the chats name their project by a digest of its folder."""
    project = hashlib.sha256(b"/work/site").hexdigest()
    write(tmp_path / f".gemini/tmp/{project}/chats/session-1.json",
          json.dumps(gemini_chat(SID, project)).encode())  # fmt: skip
    write(tmp_path / ".gemini/tmp/site/chats/session-2.jsonl", gemini_changes(OTHER, project))
    write(tmp_path / ".gemini/trustedFolders.json", b'{"/work/site": "TRUST_FOLDER"}')
    write(tmp_path / ".gemini/projects.json", b'{"projects": {"/work/site": "site"}}')
    found = list(READERS["gemini-cli"].sources({}, str(tmp_path)))
    assert [source.folder for source in found] == ["/work/site", "/work/site"]


# all


def test_formats_without_a_reader_are_named(tmp_path: Path) -> None:
    """Issue 7, Show it: iFlow and SWE-agent are skipped, and said to be."""
    iflow = {**ClaudeFile(f"session-{SID}", "/r").user("go"), "version": "1.0.0"}
    for data, name in (
        (lines(iflow), "iFlow"),
        (json.dumps({"trajectory": [{"action": "ls"}]}, indent=1).encode(), "SWE-agent"),
        (b"# notes\n", ""),
        (b"", ""),
        (b'{"a": 1}\n', ""),
    ):
        head = head_of(str(write(tmp_path / "x", data)))
        assert reader_for(head) is None and unread_format(head) == name


def test_reading_may_be_taken_up_at_every_mark(tmp_path: Path) -> None:
    """Ours: whatever stands before a mark was given, and what stands behind needs no more of it."""
    file = ClaudeFile(SID, "/repo")
    big = "x" * 700_000
    talk = [file.user("go")]
    for n in range(6):
        talk += [
            file.call(f"a{n}", f"one {n}", answer=f"m{n}"),
            file.result(f"a{n}", f"{n} {big}"),
            file.call(f"b{n}", f"two {n}", answer=f"m{n}"),
            file.result(f"b{n}", f"second {n}"),
        ]
    path = claude(tmp_path, *talk)
    found = items(path)
    marks = [number for number, one in enumerate(found) if isinstance(one, Mark)]
    assert len(marks) >= 3
    for number in marks:
        mark = found[number]
        assert isinstance(mark, Mark)
        state = json.loads(json.dumps(dict(mark.state)))
        again = pieces(path, Mark(offset=mark.offset, line=mark.line, state=state))
        rest = [one for one in found[number:] if isinstance(one, Piece)]
        assert said(again) == said(rest)


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot-cli", "pi"])
def test_a_bad_line_is_reported_with_its_place(tmp_path: Path, agent: str) -> None:
    """Issue 7, part 5: one bad line never hides the rest and is reported."""
    good = {
        "claude-code": lines(*claude_talk(SID, "/repo")),
        "codex": lines(*codex_lines(SID, "/repo", item("user", "go"), item("user", "on"))),
        "copilot-cli": copilot_events(SID, "/repo"),
        "pi": pi_entries(SID, "/repo"),
    }[agent]
    first, rest = good.split(b"\n", 1)
    bad = b'{"type":"user","message":{"role":"user","content":"cut\n'
    other = b'[{"type":"user"}]\n'
    path = write(tmp_path / "x", first + b"\n" + bad + other + rest)
    clean = write(tmp_path / "y", good)
    found = [one for one in items(path) if isinstance(one, Fault)]
    at = len(first) + 1
    assert [(one.line, one.offset) for one in found] == [(2, at), (3, at + len(bad))]
    assert said(pieces(path)) == said(pieces(clean)) != []
