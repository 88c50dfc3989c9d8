"""Which places are read, and that none of them is passed over in silence or waits for good."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openmem.agents.transcripts.files import file_source, files_below, head_of
from openmem.agents.transcripts.registry import READERS, reader_for, unread_format
from openmem.base.errors import NotFound
from openmem.index.sessions.places import Formats, kept_by_agents, named
from tests.fakes.agent_files import claude_talk, lines, write

SID = "11111111-2222-4333-8444-555555555555"
NOBODY = 65534
FORMATS = Formats(
    readers=READERS,
    head_of=head_of,
    file_source=file_source,
    reader_for=reader_for,
    unread_format=unread_format,
)


@contextmanager
def as_a_person() -> Iterator[None]:
    """Root may look anywhere; a person may not."""
    was = os.geteuid()
    if not was:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)


@pytest.fixture
def person() -> Iterator[Path]:
    """A home whose folders are closed to a person one by one."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    yield home
    for folder, _, _ in os.walk(home):
        os.chmod(folder, 0o755)
    shutil.rmtree(home)


@pytest.mark.timeout(20)
def test_a_pipe_is_told_and_never_opened(tmp_path: Path) -> None:
    """Ours: the import waited for good for the pipe's other end."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    write(tmp_path / "a.jsonl", lines(*claude_talk(SID, "/repo")))
    for path in (tmp_path, tmp_path / "pipe.jsonl"):
        sources, unread = named(FORMATS, [str(path)], ())
        assert [one.why for one in unread] == ["a pipe, a socket or a device, not a file"]
        assert len(sources) == (path == tmp_path)


def test_what_is_not_there_is_an_error_and_what_is_closed_is_not(person: Path) -> None:
    """Ours: a file in a closed folder was said not to exist."""
    write(person / "closed/a.jsonl", lines(*claude_talk(SID, "/repo")))
    (person / "closed").chmod(0)
    with as_a_person():
        _, unread = named(FORMATS, [str(person / "closed/a.jsonl"), str(person)], ())
        for missing in (str(person / "none"), ""):
            with pytest.raises(NotFound):
                named(FORMATS, [missing], ())
    assert [(one.path, one.is_fault) for one in unread] == [
        (str(person / "closed/a.jsonl"), True),
        (str(person / "closed"), True),
    ]


@pytest.mark.parametrize(
    ("closed", "agent"),
    [
        (".claude/projects", "claude-code"),
        (".claude/projects/-a", "claude-code"),
        (f".claude/projects/-a/{SID}", "claude-code"),
        (f".claude/projects/-a/{SID}/subagents", "claude-code"),
        (".codex/sessions", "codex"),
        (".codex/sessions/2026/11", "codex"),
        (".gemini/tmp/x", "gemini-cli"),
        (".gemini/tmp/x/chats", "gemini-cli"),
        (".copilot/session-state", "copilot-cli"),
        (".pi/agent/sessions", "pi"),
    ],
)
def test_a_folder_of_an_agent_that_is_closed_is_named_once(
    closed: str, agent: str, person: Path
) -> None:
    """Issue 7, part 5: what is not read is reported; a closed folder looked like an empty one."""
    for path in (
        f".claude/projects/-a/{SID}.jsonl", f".claude/projects/-a/{SID}/subagents/agent-1.jsonl",
        ".codex/sessions/2026/11/30/rollout-a.jsonl", ".gemini/tmp/x/chats/session-a.json",
        ".copilot/session-state/s/events.jsonl", ".pi/agent/sessions/p/s.jsonl",
    ):  # fmt: skip
        write(person / path, b"{}\n")
    for folder, _, _ in os.walk(person):
        os.chmod(folder, 0o755)
    (person / closed).chmod(0)
    with as_a_person():
        found = kept_by_agents(FORMATS, {}, str(person), (agent,))
        told: list[str] = []
        for source in found:
            try:
                with open(source.path, "rb"):
                    pass
            except PermissionError:
                told.append(source.path)
    assert len(told) == 1 and told[0].startswith(str(person / closed))


def test_a_file_that_is_closed_is_a_source_whose_reading_says_why(person: Path) -> None:
    """Ours: in a folder that may be listed and not searched, files were left out."""
    write(person / ".claude/projects/-a/s.jsonl", b"{}\n")
    for folder, _, _ in os.walk(person):
        os.chmod(folder, 0o755)
    (person / ".claude/projects/-a").chmod(0o444)
    with as_a_person():
        found = kept_by_agents(FORMATS, {}, str(person), ("claude-code",))
    assert [source.path for source in found] == [str(person / ".claude/projects/-a/s.jsonl")]


@pytest.mark.timeout(20)
def test_links_in_a_circle_end_and_links_to_elsewhere_are_followed(tmp_path: Path) -> None:
    """Ours: two links to their own folder made 2^40 paths."""
    write(tmp_path / "elsewhere/b.jsonl", b"{}\n")
    write(tmp_path / "root/a.jsonl", b"{}\n")
    write(tmp_path / "root/.hidden/c.jsonl", b"{}\n")
    for name in ("one", "two", "three"):
        (tmp_path / "root" / name).symlink_to(tmp_path / "root")
    (tmp_path / "root/other").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root/self").symlink_to(tmp_path / "root/self")
    root = str(tmp_path / "root")
    assert files_below(root, "**/*.jsonl") == [f"{root}/a.jsonl", f"{root}/other/b.jsonl"]
    assert files_below(root, "*/b.jsonl") == [f"{root}/other/b.jsonl"]
    assert files_below(root, "other/*.jsonl") == [f"{root}/other/b.jsonl"]
    assert files_below(f"{root}/none", "**/*") == files_below(f"{root}/a.jsonl", "*") == []
