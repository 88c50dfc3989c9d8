"""The memory tools as an agent calls them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmem.base.frame import FRAME_CLOSE, FRAME_OPEN
from openmem.base.paths import Paths
from openmem.mcp.context_tools import context_tools
from openmem.mcp.memory_tools import CORE, memory_tools
from openmem.mcp.tools import Toolbox
from openmem.memory.model import Actor
from openmem.memory.opening import open_memories
from openmem.memory.scope import scope_of
from tests.memory.conftest import POLICY, repository

Call = Callable[..., tuple[str, bool]]
HERON = "The staging database is called heron-42."


class Agent:
    """An agent in a folder. `call`: returns the answer's text and whether it is an error."""

    def __init__(self, home: Path, folder: Path) -> None:
        environ = {
            "HOME": str(home),
            "CLAUDE_PROJECT_DIR": str(folder),
            "CLAUDE_CODE_SESSION_ID": "s-1",
        }
        self.box = Toolbox(memory_tools(environ, "full"))

    def call(self, name: str, **arguments: object) -> tuple[str, bool]:
        content, is_error = self.box.call(name, arguments, {})
        return str(content[0]["text"]), is_error

    def told(self, name: str, **arguments: object) -> str:
        text, is_error = self.call(name, **arguments)
        assert not is_error, text
        return text

    def refused(self, name: str, **arguments: object) -> str:
        text, is_error = self.call(name, **arguments)
        assert is_error, text
        return text


@pytest.fixture
def agent(home: Path) -> Agent:
    folder = home / ".config/openmem"
    folder.mkdir(parents=True)
    (folder / "policy.toml").write_text(POLICY)
    return Agent(home, repository(home / "site", "git@github.com:acme/site.git"))


@pytest.fixture
def elsewhere(home: Path, agent: Agent) -> Agent:
    return Agent(home, repository(home / "other", "git@github.com:acme/other.git"))


@pytest.fixture
def denied(home: Path, agent: Agent) -> Agent:
    (home / "denied").mkdir()
    return Agent(home, home / "denied")


def identity(text: str) -> str:
    return next(word.strip("();:,") for word in text.split() if word.strip("();:,")[:2] == "m-")


def person_accepts(memory_id: str) -> None:
    paths = Paths(os.environ)
    memories = open_memories(paths)
    scope = scope_of(os.environ["HOME"] + "/site", paths, Actor(kind="person"))
    memories.judge(scope, memory_id, "accepted")
    memories.close()


def test_the_short_list_is_core_and_both_lists_are_small() -> None:
    """Issue 5, part 4: core with the context tools at most 5 kB of JSON, full at most 14 kB."""
    environ: dict[str, str] = {}
    sizes = {}
    for which in ("core", "full"):
        specs = (*context_tools(environ), *memory_tools(environ, which))
        sizes[which] = len(json.dumps(Toolbox(specs).listed(), separators=(",", ":")))
    assert sizes["core"] <= 5_000 and sizes["full"] <= 14_000
    assert {spec.name for spec in memory_tools(environ, "core")} == set(CORE)
    assert len(memory_tools(environ, "full")) == 14


def test_what_a_tool_does_is_what_its_annotations_say() -> None:
    """Issue 5, part 4: annotations right; no tool drops a bank."""
    listed = {
        tool["name"]: tool["annotations"] for tool in Agent(Path("/"), Path("/")).box.listed()
    }
    writing = {"memory_add", "memory_correct", "memory_forget", "memory_import"}
    writing |= {"memory_consolidate"}
    assert {name for name, hints in listed.items() if not hints["readOnlyHint"]} == writing
    assert [name for name, hints in listed.items() if hints.get("destructiveHint")] == [
        "memory_forget"
    ]
    assert not any("drop" in name or "bank" in name for name in listed)


def test_what_one_adds_is_found_framed_and_pending(agent: Agent) -> None:
    """Design, section 8; users' report 32: one frame, closing tag once and last."""
    added = agent.told("memory_add", text=HERON)
    assert "pending a person's review" in added
    text = agent.told("memory_search", query="what is the staging database called")
    assert HERON in text and "not reviewed" in text
    assert text.count(FRAME_OPEN) == 1 and text.endswith(FRAME_CLOSE)
    person_accepts(identity(added))
    assert "not reviewed" not in agent.told("memory_search", query="staging database")


def test_recall_abstains_where_search_finds(agent: Agent) -> None:
    """Issue 5, part 2: a relevance floor below which nothing is returned."""
    agent.told("memory_add", text=HERON)
    query = "is the database migration tested with the checkout page of the mobile app?"
    assert HERON in agent.told("memory_search", query=query)
    assert agent.told("memory_recall", query=query) == "nothing clearly fits"
    assert HERON in agent.told("memory_recall", query="the staging database")
    assert HERON in agent.told("memory_recall")


def test_correcting_and_forgetting_go_by_id(agent: Agent) -> None:
    """Issue 5, part 4."""
    first = identity(agent.told("memory_add", text=HERON))
    corrected = agent.told("memory_correct", id=first, text="The staging database is ibis-7.")
    assert "replaced" in corrected
    second = corrected.split("new: ")[1].split(" ")[0]
    assert "heron" not in agent.told("memory_search", query="staging database")
    assert "not-active" in agent.refused("memory_correct", id=first, text="again")
    assert "forgotten" in agent.told("memory_forget", id=second)
    assert "forgotten" in agent.refused("memory_forget", id=second)
    assert "forgotten" in agent.refused("memory_add", text="the staging database is IBIS-7")
    history = agent.told("memory_history", id=second)
    assert [line.split("\t")[1] for line in history.splitlines()[1:]] == ["add", "forget"]


def test_an_agent_cannot_take_an_accepted_statement_away_by_a_correction(agent: Agent) -> None:
    """Ours."""
    first = identity(agent.told("memory_add", text=HERON))
    person_accepts(first)
    said = agent.told("memory_correct", id=first, text="The staging database is ibis-7.")
    assert "stays until a person accepts" in said
    text = agent.told("memory_search", query="staging database")
    assert "heron" in text and "ibis" in text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_search", {"query": "staging", "bank": "github.com/acme/site"}),
        ("memory_recall", {"query": "staging", "bank": "github.com/acme/site"}),
        ("memory_reflect", {"query": "staging", "bank": "github.com/acme/site"}),
        ("memory_list", {"bank": "github.com/acme/site"}),
        ("memory_export", {"bank": "github.com/acme/site"}),
        ("memory_correct", {"id": "ID", "text": "x y z"}),
        ("memory_forget", {"id": "ID"}),
        ("memory_history", {"id": "ID"}),
    ],
)
def test_no_tool_reaches_another_workspaces_bank(
    agent: Agent, elsewhere: Agent, name: str, arguments: dict[str, str]
) -> None:
    """Design, section 8: one scope, enforced."""
    memory_id = identity(agent.told("memory_add", text=HERON))
    given = {key: memory_id if value == "ID" else value for key, value in arguments.items()}
    assert "wrong-bank" in elsewhere.refused(name, **given)
    assert HERON in agent.told("memory_search", query="staging database")


def test_a_denied_workspace_gets_no_tool_and_leaves_no_file(home: Path, denied: Agent) -> None:
    """Design, section 4."""
    needed: dict[str, dict[str, Any]] = {
        "memory_add": {"text": HERON},
        "memory_search": {"query": "x"},
        "memory_reflect": {"query": "x"},
        "memory_correct": {"id": "m-1", "text": "x"},
        "memory_forget": {"id": "m-1"},
        "memory_import": {"records": "{}"},
    }
    for tool in denied.box.listed():
        text = denied.refused(tool["name"], **needed.get(tool["name"], {}))
        assert text.startswith("policy-denied:") and "policy allow" in text
    assert not (home / ".local/share/openmem").exists()


def test_scope_status_and_provider_say_where_one_stands(agent: Agent) -> None:
    """Issue 5, part 4."""
    agent.told("memory_add", text=HERON)
    scope = agent.told("memory_project_scope")
    assert "bank github.com/acme/site" in scope and "retain: yes" in scope
    status = agent.told("memory_status")
    assert "1 statement (1 pending review)" in status and "problem" not in status
    info = agent.told("memory_provider_info")
    assert "provider local" in info and "cannot: reflect, consolidate, wait" in info


def test_what_a_provider_cannot_do_is_an_error_by_name(agent: Agent) -> None:
    """Design, section 4: unsupported raises, never an empty success."""
    assert agent.refused("memory_consolidate").startswith("unsupported:")
    assert "consolidate" in agent.refused("memory_consolidate")


def test_reflecting_without_a_route_gives_the_memories_and_says_so(agent: Agent) -> None:
    """Issue 5, part 8: no model call unless a route is configured."""
    agent.told("memory_add", text=HERON)
    text = agent.told("memory_reflect", query="which database does staging use?")
    assert "no model route is configured" in text and HERON in text
    assert "nothing that fits" in agent.told("memory_reflect", query="zebra crossing")


def test_an_export_goes_in_again_elsewhere_and_waits_for_a_person(
    agent: Agent, elsewhere: Agent
) -> None:
    """Issue 5, part 7."""
    memory_id = identity(agent.told("memory_add", text=HERON))
    person_accepts(memory_id)
    agent.told("memory_add", text="Deploys need the VPN.")
    text = agent.told("memory_export", limit=1)
    assert "go on with offset 1" in text
    records = "\n".join(line for line in text.splitlines() if line.startswith("{"))
    records += "\n" + "\n".join(
        line for line in agent.told("memory_export", offset=1).splitlines() if line[:1] == "{"
    )
    dry = elsewhere.told("memory_import", records=records + "\nnot json", dry_run=True)
    assert "would add 2" in dry and "line 3: not JSON" in dry
    assert "0 known" in elsewhere.told("memory_recall")
    assert "added 2" in elsewhere.told("memory_import", records=records)
    found = elsewhere.told("memory_search", query="staging database")
    assert HERON in found and "not reviewed" in found
    assert "known 2" in elsewhere.told("memory_import", records=records)


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("memory_add", {"text": HERON, "valid_from": "soon"}, "usage"),
        ("memory_add", {"text": "x" * 5_000}, "usage"),
        ("memory_add", {}, "usage"),
        ("memory_search", {"query": "x", "as_of": "then"}, "usage"),
        ("memory_forget", {"id": "m-0123456789abcdef"}, "not-found"),
        ("memory_forget", {"id": "what?"}, "usage"),
        ("memory_correct", {"id": "m-0123456789abcdef", "text": "x y"}, "not-found"),
        ("memory_list", {"trust": "rejected"}, "usage"),
        ("memory_search", {"query": "x", "bank": "two words"}, "usage"),
    ],
)
def test_bad_input_is_one_clear_error_with_a_code(
    agent: Agent, name: str, arguments: dict[str, str], code: str
) -> None:
    """Issue 5, bad input; nothing half done."""
    assert agent.refused(name, **arguments).startswith(f"{code}:")
    assert "0 known statements" in agent.told("memory_recall")


@pytest.mark.parametrize(
    ("text", "which"),
    [("", "core"), ('[mcp]\ntools = "full"\n', "full"), ('[mcp]\ntools = "all"\n', "core")],
)
def test_the_settings_say_which_tools_are_listed(
    home: Path, agent: Agent, text: str, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users' report 29: every setting has a reader; a bad one does not take the tools away."""
    from openmem.mcp.__main__ import _which_tools

    (home / ".config/openmem/config.toml").write_text(text)
    assert _which_tools() == which
    assert ("mcp.tools" in capsys.readouterr().err) == ("all" in text)


@pytest.mark.parametrize("text", ['["mc\\u0070"]\ntools = "full"\n', '"mcp".tools = "full"\n'])
def test_the_settings_are_read_however_they_name_the_tools(
    home: Path, agent: Agent, text: str
) -> None:
    """Ours: a start reads no TOML where nothing can name them; a key has several spellings."""
    from openmem.mcp.__main__ import _which_tools

    (home / ".config/openmem/config.toml").write_text(text)
    assert _which_tools() == "full"


def test_the_environment_says_which_tools_are_listed(
    home: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users' report 29; and without any word it is the setting's own default."""
    from openmem.base.config import setting_of
    from openmem.mcp.__main__ import _which_tools

    (home / ".config/openmem/config.toml").unlink(missing_ok=True)
    assert _which_tools() == setting_of("mcp.tools").default
    monkeypatch.setenv("OPENMEM_MCP_TOOLS", "full")
    assert _which_tools() == "full"
