"""What an import may not store: policy, redaction and what was forgotten hold here too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.agents.transcripts.registry import READERS
from openmem.context.care.forget import forget_rows, forget_word
from openmem.context.care.select import select_literal, select_rows
from openmem.context.session import Registration, write_registration
from openmem.context.store.catalog import entry_of
from openmem.context.transcript import Item, Mark, Piece, Reader, Source
from openmem.index.sessions.cursors import cursors_file
from tests.fakes.agent_files import (
    claude_talk,
    codex_lines,
    codex_path,
    item,
    lines,
    opencode_database,
    opencode_talk,
    write,
)
from tests.index.conftest import OTHER, SID, Machine

# what may not


def test_a_denied_folder_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    """Design, section 6 point 8: no row, no registration, no cursor, no name."""
    secret = tmp_path / "secret"
    write(secret / ".git/HEAD", b"ref: x\n")
    machine.policy(f'version = 1\n[defaults.git]\nstore = true\n[[rules]]\npath = "{secret}"\n'
                   "store = false\n")  # fmt: skip
    machine.claude(SID, *claude_talk(SID, str(secret)))
    write(
        codex_path(machine.home, OTHER), lines(*codex_lines(OTHER, str(secret), item("user", "x")))
    )
    report = machine.bring_in()
    assert report.sessions == {} and sum(report.denied.values()) == 2
    for path in Path(machine.paths.state_dir).rglob("*"):
        assert SID not in path.name and OTHER not in path.name
        if path.is_file():
            data = path.read_bytes()
            assert SID.encode() not in data and str(secret).encode() not in data


SECRET = """version = 1
[defaults.git]
store = true
[[rules]]
path = "{}"
store = {}
"""


class Reads:
    """Readers that count the pieces they give."""

    def __init__(self) -> None:
        self.pieces = 0

    def __call__(self) -> dict[str, Reader]:
        self.pieces = 0
        return {name: _Counting(reader, self) for name, reader in READERS.items()}


class _Counting:
    def __init__(self, reader: Reader, reads: Reads) -> None:
        self._reader, self._reads = reader, reads
        self.agent, self.title, self.sources = reader.agent, reader.title, reader.sources
        self.sources_in, self.knows = reader.sources_in, reader.knows

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        for one in self._reader.read(source, mark):
            self._reads.pieces += isinstance(one, Piece)
            yield one


def leaves_no_name(machine: Machine, *names: str) -> bool:
    """Whether none of the names stands anywhere below the state folder."""
    for path in Path(machine.paths.state_dir).rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if any(name in path.name or name.encode() in data for name in names):
            return False
    return True


@pytest.mark.parametrize("agent", ["claude-code", "codex", "opencode"])
def test_an_unchanged_denied_source_is_not_read_again_until_the_policy_lets_it(
    machine: Machine, tmp_path: Path, agent: str
) -> None:
    """Brief: unchanged under an unchanged policy: not again; allowed: from the beginning."""
    secret, reads = tmp_path / "secret", Reads()
    write(secret / ".git/HEAD", b"ref: x\n")
    if agent == "claude-code":
        machine.claude(SID, *claude_talk(SID, str(secret)))
    elif agent == "codex":
        talk = [item("user", "go"), item("assistant", "gone"), item("user", "on")]
        write(codex_path(machine.home, SID), lines(*codex_lines(SID, str(secret), *talk)))
    else:
        database = machine.home / ".local/share/opencode/opencode.db"
        opencode_database(database, SID, str(secret), opencode_talk())
    machine.policy(SECRET.format(secret, "false"))
    first = machine.bring_in(readers=reads())
    whole = reads.pieces
    assert first.sessions == {} and sum(first.denied.values()) == 1 and first.unchanged == 0
    again = machine.bring_in(readers=reads())
    assert (again.denied, again.unchanged, again.bytes) == (first.denied, 1, 0)
    assert reads.pieces == 1 and (whole > 1 or agent != "claude-code")
    assert leaves_no_name(machine, SID, str(secret), "secret")
    machine.policy(SECRET.format(secret, "true"))
    assert machine.bring_in(readers=reads()).denied == {}
    assert reads.pieces >= whole and len(machine.texts(SID)) >= 3
    machine.check(SID)
    assert machine.bring_in(readers=reads()).unchanged == 1 and reads.pieces == 0
    machine.policy(SECRET.format(secret, "false"))
    assert machine.bring_in(readers=reads()).unchanged == 1 and reads.pieces == 0


def test_a_denied_source_that_grew_is_read_and_one_turned_repository_too(
    machine: Machine, tmp_path: Path
) -> None:
    """Ours: a folder is in no repository today and in one tomorrow; the policy stays the same."""
    folder, reads = tmp_path / "plain", Reads()
    folder.mkdir()
    talk = claude_talk(SID, str(folder))
    machine.claude(SID, *talk[:-1])
    assert machine.bring_in(readers=reads()).added == 0
    part = reads.pieces
    machine.claude(SID, *talk)
    assert machine.bring_in(readers=reads()).added == 0 and reads.pieces > part
    write(folder / ".git/HEAD", b"ref: x\n")
    report = machine.bring_in(readers=reads())
    assert report.denied == {} and report.added == len(machine.rows(SID)) > 0
    machine.check(SID)


def test_the_denied_part_of_a_file_comes_in_when_the_policy_changes(
    machine: Machine, tmp_path: Path
) -> None:
    """Ours: one file of Claude Code may hold two sessions, of which one was denied."""
    secret = tmp_path / "secret"
    write(secret / ".git/HEAD", b"ref: x\n")
    machine.policy(SECRET.format(secret, "false"))
    mine, other = claude_talk(SID, str(machine.repo)), claude_talk(OTHER, str(secret))
    machine.claude(SID, *mine, *other)
    assert list(machine.bring_in().sessions) == [SID]
    assert machine.bring_in().unchanged == 1 and machine.texts(OTHER) == []
    machine.policy(SECRET.format(secret, "true"))
    report = machine.bring_in()
    assert report.sessions[OTHER].added > 0 and report.sessions[SID].added == 0
    machine.check(SID, OTHER)


def test_what_the_hook_registered_goes_before_what_the_transcript_tells(machine: Machine) -> None:
    """Design, section 6 point 9."""
    write_registration(
        machine.paths,
        Registration(session_id=SID, agent="claude-code", cwd="/elsewhere", bank="",
                     registered_at="2026-09-01T10:00:00Z"),
    )  # fmt: skip
    machine.claude(SID, *claude_talk(SID, str(machine.repo)))
    report = machine.bring_in()
    assert report.added == 0 and list(report.denied) == ["default for other folders"]


def test_a_folder_of_another_machine_is_no_folder(machine: Machine) -> None:
    """Ours: a Windows path, taken from where we stand, must not become part of a repository."""
    machine.claude(SID, *claude_talk(SID, "C:\\exp\\site"))
    report = machine.bring_in()
    assert report.added == 0 and list(report.denied) == ["default for no folder known"]


def test_secrets_are_masked_on_this_path_too(machine: Machine) -> None:
    """Design, section 6 point 9."""
    secret = "AKIA" + "Q3EGVTRWLZ5XKJ7M"
    file = machine.file(SID)
    machine.claude(SID, file.user(f"use {secret}"), file.call("t", f"export KEY={secret}"),
                   file.result("t", f"ok {secret}"))  # fmt: skip
    report = machine.bring_in()
    assert report.sessions[SID].masked >= 3
    for path in Path(machine.paths.state_dir).rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
    machine.check(SID)


def test_what_was_forgotten_does_not_come_back(machine: Machine) -> None:
    """Design, section 6 point 7: rows by their keys, words wherever they stand."""
    talk = claude_talk(SID, str(machine.repo))
    machine.claude(SID, *talk, machine.file(OTHER).user("the name is quokkamarble"))
    machine.bring_in()
    entry = entry_of(machine.paths, SID)
    assert entry is not None
    seq = next(row["seq"] for row in machine.rows(SID) if row["text"] == "contents 1")
    forget_rows(machine.paths, machine.key, select_rows(machine.paths, entry, [seq]))
    word = "quokkamarble"
    forget_word(machine.paths, machine.key, word, select_literal(machine.paths, word, machine.key))
    for sid in (SID, OTHER):
        os.unlink(f"{machine.paths.sessions_dir}/{sid}.v4.db")
    os.unlink(cursors_file(machine.paths))
    machine.bring_in()
    assert "contents 1" not in machine.texts(SID) and "contents 2" in machine.texts(SID)
    assert len(machine.rows(SID)) == 10
    assert machine.texts(OTHER) and word not in machine.texts(OTHER)[0]
    machine.check(SID, OTHER)
