"""What the tools answer: whole lines, right counts, nothing that a model would misread."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.mcp.context_tools import context_tools
from openmem.mcp.get_answer import PAGE_CHARACTERS
from openmem.mcp.protocol import Json
from openmem.mcp.tools import Toolbox
from tests.fakes.session_v3 import OldRow, write_old_session
from tests.fakes.stored import Machine, answered, called, said

LOG = "svc=api ERROR 1\n  svc=web ERROR 2\nsvc=api ok\n\tindented\ttab"


class Agent:
    """An agent in a folder that calls the tools."""

    def __init__(self, machine: Machine, folder: Path, **environ: str) -> None:
        values = {"HOME": str(machine.home), "CLAUDE_PROJECT_DIR": str(folder), **environ}
        self.toolbox = Toolbox(context_tools(values))

    def blocks(self, name: str, meta: Json | None = None, **arguments: object) -> list[Json]:
        content, is_error = self.toolbox.call(name, arguments, meta or {})
        assert not is_error, content
        return content

    def text(self, name: str, meta: Json | None = None, **arguments: object) -> str:
        (block,) = self.blocks(name, meta, **arguments)
        return str(block["text"])

    def search(self, meta: Json | None = None, **arguments: object) -> list[str]:
        return self.text("smart_compact_search", meta, **arguments).split("\n")

    def refusal(self, name: str, **arguments: object) -> str:
        (block,), is_error = self.toolbox.call(name, arguments, {})
        assert is_error, block
        return str(block["text"])


@pytest.fixture
def machine(home: Path) -> Iterator[Machine]:
    made = Machine(home)
    yield made
    made.close()


@pytest.fixture
def agent(machine: Machine) -> Agent:
    site = machine.repository("site")
    machine.record(
        "s1",
        site,
        [
            said("we rotate the signing key every 90 days\nthe next is on 14 January"),
            answered("Noted: the signing key, 90 days."),
            *called("Bash", {"command": "cat log"}, LOG),
            *called("mcp__openmem__smart_compact_search", {"query": "ERROR"}, LOG, id="toolu_2"),
            said("thanks"),
        ],
    )
    return Agent(machine, site)


def test_a_matching_stored_line_stands_whole_unindented_and_unmarked(agent: Agent) -> None:
    """Issue 2, part 7."""
    lines = agent.search(query="signing key")
    assert lines[0] == "1 row match (any word) · 1 line match (every word) · 1 session searched"
    assert "we rotate the signing key every 90 days" in lines
    assert lines[2].startswith("s1:1 · user · 20")
    by_pattern = agent.search(pattern=r"svc=\w+ ERROR")
    assert "svc=api ERROR 1" in by_pattern
    assert "  svc=web ERROR 2" in by_pattern  # its own indent, and none of ours
    assert "\tindented\ttab" in agent.search(query="indented")


def test_assistant_answers_and_our_own_results_come_only_when_asked_for(agent: Agent) -> None:
    """Issue 3, part 1: the role and echo rules."""
    assert "1 row match · 2 lines match" in agent.search(pattern="ERROR")[0]
    with_echo = agent.search(pattern="ERROR", include_echo=True)
    assert "2 rows match · 4 lines match" in with_echo[0]
    assert agent.search(query="Noted")[0].startswith("0 rows match")
    assert "Noted: the signing key, 90 days." in agent.search(query="Noted", role="assistant")
    assert agent.search(query="signing", role="all")[0].startswith("2 rows match")
    assert agent.search(query="signing", role=["user", "assistant"])[0].startswith("2 rows")


def test_nothing_found_says_what_was_left_out(agent: Agent) -> None:
    """Ours: an empty answer must not be taken for "never said"."""
    lines = agent.search(query="heron")
    assert lines[0] == "0 rows match · 0 lines match · 1 session searched"
    assert "assistant answers (role=all)" in lines[-1]
    assert "include_echo=true" in lines[-1]
    everything = agent.search(query="heron", role="all", include_echo=True)
    assert everything == [lines[0]]


def test_the_count_form_counts_lines_by_what_the_pattern_captures(agent: Agent) -> None:
    """Issue 3, part 1: no SQL for the common question."""
    assert agent.search(pattern=r"svc=(\w+)", count=True) == [
        "1 row match · 3 lines match · 1 session searched",
        "lines\tcaptured",
        "2\tapi",
        "1\tweb",
    ]
    assert agent.search(pattern="ERROR", count=True) == [
        "1 row match · 2 lines match · 1 session searched"
    ]
    assert agent.search(query="ERROR", count=True)[0].startswith("1 row match · 2 lines match")


def test_neighbours_come_before_and_after_in_their_order(agent: Agent) -> None:
    """Context store contract, Search, `context`."""
    lines = agent.search(query="rotate", context=1)
    places = [line for line in lines if line.startswith("s1:")]
    assert [place.split(" · ")[0] for place in places] == ["s1:1", "s1:2"]
    assert places[1].endswith("after") and "Noted: the signing key, 90 days." in lines


def test_a_hard_pattern_says_that_its_time_was_up(machine: Machine) -> None:
    """Issue 3, show it."""
    site = machine.repository("hard")
    machine.record("hard", site, [said("a" * 60 + "b"), answered("x"), said("aab")])
    lines = Agent(machine, site).search(pattern=r"^aab$|(a+)+[c0]")
    assert "[time was up: counts are of what was reached; narrow the pattern]" in lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give query or pattern."),
        ({"query": " "}, "give query or pattern."),
        ({"query": "a", "pattern": "b"}, "not both"),
        ({"pattern": "a(b"}, "pattern does not compile at character 2"),
        ({"pattern": "a" * 201}, "the limit is 200"),
        ({"query": "a", "limit": 0}, "limit is 0, expected a whole number from 1 to 50"),
        ({"query": "a", "limit": "many"}, "limit is 'many', expected a whole number"),
        ({"query": "a", "context": 6}, "context is 6, expected a whole number from 0 to 5"),
        ({"query": "a", "role": "system"}, "role is 'system', expected one of user, tool"),
        ({"query": "a", "in_context": "maybe"}, "in_context is 'maybe', expected true or false"),
        ({"query": "a", "mode": "hybrid"}, "no argument 'mode'"),
        ({"query": "a", "session_id": "gone"}, "no session gone is stored"),
        ({"query": "a", "session_id": "../x"}, "is not the id of a session"),
    ],
)
def test_a_wrong_argument_names_itself(agent: Agent, arguments: Json, said: str) -> None:
    """Issue 2, bad input; house style, errors."""
    assert said in agent.refusal("smart_compact_search", **arguments)


@pytest.mark.parametrize("query", ['"', "NEAR(", "AND", "col:x", "100%", "it's", "*", "(", "悬空"])
def test_no_query_is_an_error_whatever_signs_it_holds(agent: Agent, query: str) -> None:
    """Users' report 23."""
    assert "match" in agent.search(query=query)[0]


def test_numbers_and_switches_written_as_text_are_taken(agent: Agent) -> None:
    """Ours: models write "5" for 5."""
    lines = agent.search(query="signing", limit="1", context="0", in_context="true")
    assert lines[0].startswith("1 row match")
    assert agent.search(query=90)[0].startswith("1 row match")
    assert agent.search(query="signing", session_id=None)[0].startswith("1 row match")


def test_a_row_is_given_whole_by_its_place(agent: Agent) -> None:
    """Ours: what a search shows in part can be read in full."""
    head, _, body = agent.text("smart_compact_get", id="s1:4").partition("\n")
    assert head.startswith("s1:4 · tool Bash · ") and body == LOG
    assert "has no row 99" in agent.refusal("smart_compact_get", id="s1:99")
    assert "neither 16 hex digits nor" in agent.refusal("smart_compact_get", id="latest")
    assert "id is missing" in agent.refusal("smart_compact_get")


def test_a_long_row_comes_in_pages_that_add_up(machine: Machine) -> None:
    """Ours: Claude Code refuses a result of more than 25,000 tokens."""
    site = machine.repository("long")
    text = "\n".join(f"line {number} of a long result" for number in range(5_000))
    machine.record("long", site, [said("go"), *called("Bash", {}, text)])
    agent = Agent(machine, site)
    offset, pages = 0, list[str]()
    while True:
        page = agent.text("smart_compact_get", id="long:3", offset=offset).partition("\n")[2]
        assert len(page) <= PAGE_CHARACTERS + 100
        body, mark, rest = page.rpartition("\n[characters ")
        if not mark:
            pages.append(page)
            break
        pages.append(body)
        offset = int(rest.rpartition("=")[2].rstrip("]"))
    assert len(pages) > 2 and "\n".join(pages) == text
    assert "the text has" in agent.refusal("smart_compact_get", id="long:3", offset=10**7)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def test_an_image_that_left_the_context_can_be_seen_again(machine: Machine) -> None:
    """Design, section 6, item 6: images are kept once, as blobs."""
    site = machine.repository("images")
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(PNG).decode("ascii"),
    }
    content = [{"type": "image", "source": source}, {"type": "text", "text": "a caption"}]
    machine.record("images", site, [said("look"), *called("Read", {}, content)])
    agent = Agent(machine, site)
    table = agent.text(
        "smart_compact_sql",
        session_id="images",
        sql="SELECT blob_id FROM messages WHERE blob_id IS NOT NULL",
    )
    blob = table.split("\n")[1]
    (block,) = agent.blocks("smart_compact_get", id=blob)
    assert block["type"] == "image" and block["mimeType"] == "image/png"
    assert base64.b64decode(str(block["data"])) == PNG


def test_sql_answers_with_names_then_rows(agent: Agent) -> None:
    """Issue 3, part 1."""
    sql = "SELECT seq, role, name FROM messages WHERE role = 'tool' AND NOT echo"
    assert agent.text("smart_compact_sql", session_id="s1", sql=sql) == (
        "seq\trole\tname\n4\ttool\tBash"
    )
    lines = "SELECT count(*) FROM lines WHERE role IN ('user','tool') AND NOT echo AND text REGEXP "
    assert agent.text("smart_compact_sql", session_id="s1", sql=lines + "'ERROR'") == (
        "count(*)\n2"
    )
    said_no = agent.refusal("smart_compact_sql", session_id="s1", sql="DELETE FROM messages")
    assert said_no.startswith("sql-refused:") and "DELETE was refused" in said_no
    said_no = agent.refusal("smart_compact_sql", session_id="s1", sql="SELECT nope FROM messages")
    assert "no such column: nope" in said_no and "There are: messages(" in said_no


def test_the_status_shows_this_projects_sessions(agent: Agent, machine: Machine) -> None:
    """Issue 2, part 7."""
    lines = agent.text("context_status").split("\n")
    assert "1 session stored" in lines[0] and "recall: yes" in lines[0]
    header, row = (line.split("\t") for line in lines[1:])
    values = dict(zip(header, row, strict=True))
    assert values["session_id"] == "s1" and values["rows"] == "7" and values["trims"] == "0"
    empty = Agent(machine, machine.repository("empty"))
    assert "Nothing of this project is stored yet" in empty.text("context_status")


def test_an_earlier_systems_session_is_searched_read_and_queried(machine: Machine) -> None:
    """Issue 2, part 4: versions 1 to 3 are read."""
    site = machine.repository("old")
    machine.record("new", site, [said("nothing")])
    folder = Path(machine.paths.sessions_dir)
    write_old_session(folder / "old.db", [OldRow(role="user", text="heron-42\nand more")])
    registration = {
        "session_id": "old",
        "agent": "claude-code",
        "cwd": str(site),
        "bank": "coding-agent::old",
        "registered_at": "2026-10-29T17:00:00Z",
    }
    (folder / "old.json").write_text(json.dumps(registration))
    agent = Agent(machine, site)
    assert "heron-42" in agent.search(query="heron-42")
    assert "heron-42" in agent.search(pattern=r"^heron-\d+$")
    assert agent.text("smart_compact_get", id="old:1").endswith("heron-42\nand more")
    sql = "SELECT count(*) FROM lines"
    assert agent.text("smart_compact_sql", session_id="old", sql=sql) == "count(*)\n2"
    assert "old" in agent.text("context_status")


def test_the_running_session_is_shown_first_and_marked(machine: Machine) -> None:
    """Ours: what was removed from here must not stand behind a neighbour's copy."""
    site = machine.repository("site")
    machine.record("mine", site, [said("the port is 5432")])
    for number in range(3):
        machine.record(f"other{number}", site, [said(f"the port is 5432 or {number}")] * 1)
    agent = Agent(machine, site, CLAUDE_CODE_SESSION_ID="mine")
    lines = agent.search(query="port 5432", limit=2)
    places = [line for line in lines if " · user · " in line]
    assert places[0].startswith("mine:1") and places[0].endswith("this session")
    assert len(places) == 2 and places[1].startswith("other")
    assert lines[0].startswith("4 rows match")
    codex: Json = {"x-codex-turn-metadata": {"session_id": "other1"}}
    assert agent.search(codex, query="port")[2].startswith("other1:1")
    status = agent.text("context_status").split("\n")
    assert status[1] == "this session: mine" and status[3].startswith("mine\t")
    unknown = Agent(machine, site, CLAUDE_CODE_SESSION_ID="new").text("context_status")
    assert "this session: new (not stored)" in unknown


def test_a_lone_surrogate_in_an_argument_or_a_row_breaks_nothing(agent: Agent) -> None:
    """Users' report 24."""
    assert "match" in agent.search(query="\ud83d signing")[0]
    assert "\\ud83d" in agent.refusal("smart_compact_get", id="\ud83d")


def test_the_server_changes_no_file(agent: Agent, machine: Machine) -> None:
    """Design: the tools only read; nothing may appear beside a database."""
    machine.close()

    def listing() -> dict[str, tuple[int, int]]:
        return {
            os.path.join(folder, name): (
                os.stat(os.path.join(folder, name)).st_size,
                os.stat(os.path.join(folder, name)).st_mtime_ns,
            )
            for folder, _, names in os.walk(machine.home)
            for name in names
        }

    before = listing()
    agent.search(query="signing", context=2)
    agent.search(pattern="ERROR", count=True)
    agent.text("smart_compact_get", id="s1:1")
    agent.text("smart_compact_sql", session_id="s1", sql="SELECT 1")
    agent.text("context_status")
    assert listing() == before
