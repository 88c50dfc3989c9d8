"""Whose sessions a call may read: this workspace's, the running one, and what policy grants."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.workspace import workspace_of
from openmem.mcp.context_tools import context_tools
from openmem.mcp.tools import Toolbox
from tests.fakes.mcp_process import McpProcess
from tests.fakes.stored import POLICY, Machine, said

SECRET = "heron-42 is the other project's word"
PNG = b"\x89PNG\r\n\x1a\n" + b"the other project's picture" * 100


@pytest.fixture
def machine(home: Path) -> Iterator[Machine]:
    made = Machine(home)
    made.record("mine", made.repository("work/site"), [said("our own word is heron-7")])
    picture = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(PNG).decode("ascii"),
        },
    }
    made.record(
        "other",
        made.repository("work/other"),
        [said(SECRET), {"role": "user", "content": [picture]}],
    )
    made.record("nowhere", None, [said("heron-99 of no known folder")])
    yield made
    made.close()


def tools(machine: Machine, folder: str, **environ: str) -> Toolbox:
    values = {"HOME": str(machine.home), "CLAUDE_PROJECT_DIR": str(machine.home / folder)}
    return Toolbox(context_tools({**values, **environ}))


def call(toolbox: Toolbox, name: str, **arguments: object) -> tuple[str, bool]:
    (block,), is_error = toolbox.call(name, arguments, {})
    return str(block.get("text", block["type"])), is_error


def test_the_default_search_sees_this_workspace_only(machine: Machine) -> None:
    """Issue 2, part 7."""
    text, _ = call(tools(machine, "work/site"), "smart_compact_search", query="heron", role="all")
    assert "heron-7" in text and "heron-42" not in text and "heron-99" not in text
    status, _ = call(tools(machine, "work/site"), "context_status")
    assert "mine" in status and "other" not in status and "nowhere" not in status


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("smart_compact_search", {"query": "heron"}),
        ("smart_compact_search", {"pattern": "heron"}),
        ("smart_compact_sql", {"sql": "SELECT text FROM messages"}),
    ],
)
@pytest.mark.parametrize("sid", ["other", "nowhere"])
def test_another_workspaces_session_is_refused_by_name(
    machine: Machine, name: str, arguments: dict[str, object], sid: str
) -> None:
    """Issue 2, part 7: an explicit id outside the workspace is refused."""
    text, is_error = call(tools(machine, "work/site"), name, session_id=sid, **arguments)
    assert is_error and text.startswith("policy-denied:")
    assert f"session {sid} belongs to another workspace" in text and "heron" not in text


def test_another_workspaces_rows_and_blobs_are_not_to_be_had_by_their_ids(
    machine: Machine,
) -> None:
    """Seed, review: blobs were read by id without asking whose they were."""
    text, is_error = call(tools(machine, "work/site"), "smart_compact_get", id="other:1")
    assert is_error and text.startswith("policy-denied:")
    (blob,) = Path(machine.paths.blobs_dir).iterdir()
    text, is_error = call(tools(machine, "work/site"), "smart_compact_get", id=blob.stem)
    assert is_error and "no blob" in text
    assert call(tools(machine, "work/other"), "smart_compact_get", id=blob.stem) == (
        "image",
        False,
    )


def test_a_grant_in_the_policy_opens_another_bank(machine: Machine) -> None:
    """Issue 2, part 7: unless policy grants it."""
    bank = workspace_of(str(machine.home / "work/other")).bank
    machine.write_policy(
        f'{POLICY}[[grants]]\npath = "{machine.home}/work/site"\nbank = "{bank}"\n'
    )
    toolbox = tools(machine, "work/site")
    text, is_error = call(toolbox, "smart_compact_search", query="heron", session_id="other")
    assert not is_error and SECRET in text
    # A grant is for asking by name: the default search stays with this workspace.
    assert SECRET not in call(toolbox, "smart_compact_search", query="heron")[0]
    (blob,) = Path(machine.paths.blobs_dir).iterdir()
    assert call(toolbox, "smart_compact_get", id=blob.stem) == ("image", False)
    # And it is not mutual.
    text, is_error = call(
        tools(machine, "work/other"), "smart_compact_search", query="a", session_id="mine"
    )
    assert is_error and text.startswith("policy-denied:")


ALL = [
    ("smart_compact_search", {"query": "heron"}),
    ("smart_compact_get", {"id": "mine:1"}),
    ("smart_compact_sql", {"session_id": "mine", "sql": "SELECT text FROM messages"}),
    ("context_status", {}),
]
NO = {
    "no policy": None,
    "not TOML": "version = ",
    "another version": "version = 2\n",
    "recall is off": POLICY.replace("recall = true", "recall = false"),
    "a rule for the folder": POLICY
    + '[[rules]]\npath = "~/work"\nrecall = false\nwhy = "secret"\n',
}


@pytest.mark.parametrize("name", NO)
@pytest.mark.parametrize(("tool", "arguments"), ALL)
def test_without_a_yes_to_recall_every_tool_says_no_and_why(
    machine: Machine, name: str, tool: str, arguments: dict[str, object]
) -> None:
    """Issue 2, part 3: missing, unreadable or invalid is a no."""
    policy = NO[name]
    if policy is None:
        Path(machine.paths.policy_file).unlink()
    else:
        machine.write_policy(policy)
    text, is_error = call(tools(machine, "work/site"), tool, **arguments)
    assert is_error and text.startswith("policy-denied: nothing may be recalled in ")
    assert "heron" not in text and "openmem policy allow" in text
    if name == "a rule for the folder":
        assert "secret" in text


def test_a_policy_that_changes_counts_from_the_next_call_on(machine: Machine) -> None:
    """Ours: the server lives as long as the agent does."""
    toolbox = tools(machine, "work/site")
    assert not call(toolbox, "context_status")[1]
    machine.write_policy(POLICY.replace("recall = true", "recall = false"))
    assert call(toolbox, "context_status")[1]
    machine.write_policy(POLICY)
    assert not call(toolbox, "context_status")[1]


@pytest.mark.parametrize("sid", ["..", ".", "a/b", "../other", "a\\b", "", " ", "other\0", "a b"])
def test_an_id_that_could_be_a_path_is_refused(machine: Machine, sid: str) -> None:
    """Context store contract, Session id."""
    sql = "SELECT 1"
    text, is_error = call(tools(machine, "work/site"), "smart_compact_sql", session_id=sid, sql=sql)
    assert is_error and text.startswith("usage:")


def test_the_running_session_may_be_read_though_no_folder_is_known_for_it(
    machine: Machine,
) -> None:
    """Ours: its hook may have failed; what the agent was given, it may read again."""
    toolbox = tools(machine, "work/site", CLAUDE_CODE_SESSION_ID="nowhere")
    text, is_error = call(toolbox, "smart_compact_search", query="heron", session_id="nowhere")
    assert not is_error and "heron-99 of no known folder" in text
    text, _ = call(toolbox, "smart_compact_search", query="heron")
    assert text.startswith("2 rows match") and "heron-99" in text and "heron-42" not in text
    text, _ = call(toolbox, "smart_compact_search", pattern="heron-(\\d+)", count=True)
    assert text.split("\n")[1:] == ["lines\tcaptured", "1\t7", "1\t99"]


def test_worktrees_and_subfolders_reach_the_same_sessions(machine: Machine) -> None:
    """Design, section 8: one scope function."""
    site = machine.home / "work/site"
    (site / "deep/down").mkdir(parents=True)
    for words in (
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", str(machine.home / "tree")],
    ):
        subprocess.run(["git", *words], cwd=site, check=True, stdin=subprocess.DEVNULL)
    for folder in ("work/site/deep/down", "tree"):
        text, _ = call(tools(machine, folder), "smart_compact_search", query="heron")
        assert "heron-7" in text and "heron-42" not in text


def test_an_agent_that_passes_on_almost_no_environment_is_served(machine: Machine) -> None:
    """Facts, agents section 2: Codex gives HOME, PATH, LANG and TERM, and starts in the project."""
    environ = {"HOME": str(machine.home), "LANG": "C.UTF-8", "TERM": "dumb"}
    machine.close()
    with McpProcess(machine.home / "work/site", environ) as server:
        text, is_error = server.call("smart_compact_search", query="heron")
        assert not is_error and "our own word is heron-7" in text.split("\n")
        assert "heron-42" not in text


def test_a_folder_that_is_gone_is_no_workspace(machine: Machine, tmp_path: Path) -> None:
    """Ours: fails closed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    with McpProcess(gone, {"HOME": str(machine.home)}) as server:
        server.ask("ping")
        gone.rmdir()
        text, is_error = server.call("context_status")
        assert is_error and text.startswith("policy-denied:") and "is gone" in text
