"""What an import may not store: policy, redaction and what was forgotten hold here too."""

from __future__ import annotations

import os
from pathlib import Path

from openmem.context.care.forget import forget_rows, forget_word
from openmem.context.care.select import select_literal, select_rows
from openmem.context.session import Registration, write_registration
from openmem.context.store.catalog import entry_of
from openmem.index.sessions.cursors import cursors_file
from tests.fakes.agent_files import (
    claude_talk,
    codex_lines,
    codex_path,
    item,
    lines,
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
