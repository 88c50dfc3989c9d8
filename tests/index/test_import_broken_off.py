"""Imports that are interrupted, meet faults, run beside others, or only look."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.transcripts.registry import READERS
from openmem.context.care.sweep import due
from openmem.context.transcript import Item, Mark, Source
from openmem.index.sessions.report import Report
from tests.fakes.agent_files import (
    claude_talk,
    codex_call,
    codex_lines,
    codex_path,
    item,
    lines,
    write,
)
from tests.index.conftest import OTHER, SID, Machine, messages_of, record

# interruptions


class Broken:
    """A reader that is interrupted after so many pieces, once."""

    agent, title = "claude-code", "Claude Code"

    def __init__(self, after: int, fault: BaseException) -> None:
        self.after, self.fault = after, fault
        self.sources = READERS["claude-code"].sources
        self.sources_in = READERS["claude-code"].sources_in
        self.knows = READERS["claude-code"].knows

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        for number, one in enumerate(READERS["claude-code"].read(source, mark)):
            if number == self.after:
                raise self.fault
            yield one


def test_an_import_that_is_broken_off_goes_on_where_it_was(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 7: interrupted; the rows before the last cursor are there, and none comes twice."""
    monkeypatch.setattr("openmem.index.sessions.importing._CHECKPOINT_BYTES", 1)
    file = machine.file(SID)
    talk = [file.user(f"question {n} " + "x" * 400_000) for n in range(12)]
    machine.claude(SID, *talk)
    with pytest.raises(KeyboardInterrupt):
        machine.bring_in(readers={"claude-code": Broken(11, KeyboardInterrupt())})
    stored = len(machine.rows(SID))
    assert 0 < stored < 12
    report = machine.bring_in()
    assert report.added == 12 - stored and len(machine.texts(SID)) == 12
    machine.check(SID)


def test_a_fault_in_one_file_hides_no_other(machine: Machine) -> None:
    """Oddities: one bad file must never hide the rest."""
    machine.claude(SID, *claude_talk(SID, str(machine.repo)))
    broken = Broken(3, OSError(5, "Input/output error"))
    write(codex_path(machine.home, OTHER),
          lines(*codex_lines(OTHER, str(machine.repo), item("user", "go"))))  # fmt: skip
    report = machine.bring_in(readers={**READERS, "claude-code": broken})
    assert [entry.why for entry in report.unread] == ["Input/output error"]
    assert report.unread[0].is_fault and report.sessions[OTHER].added == 1
    assert machine.bring_in().sessions[SID].added + len(machine.rows(SID)) >= 10
    assert len(machine.texts(SID)) == 10


def test_two_imports_at_once_store_everything_once(machine: Machine) -> None:
    """Issue 7: two imports at once."""
    sids = [f"{n:08d}-2222-4333-8444-555555555555" for n in range(8)]
    for sid in sids:
        machine.claude(sid, *claude_talk(sid, str(machine.repo), turns=4))
    reports: list[Report] = []
    threads = [
        threading.Thread(target=lambda: reports.append(machine.bring_in())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sum(report.added for report in reports) == 8 * 20
    assert all(len(machine.texts(sid)) == 20 for sid in sids)
    machine.check(*sids)


def test_an_import_beside_the_proxy_matches_anew(machine: Machine) -> None:
    """Ours: the proxy writes to the session between two batches of the import."""
    talk = claude_talk(SID, str(machine.repo))
    machine.claude(SID, *talk)
    readers = {"claude-code": Meanwhile(lambda: record(machine, SID, *messages_of(talk[:7])))}
    report = machine.bring_in(readers=readers)
    assert report.added == 3 and report.known == 7
    assert len([text for text in machine.texts(SID) if text != "date"]) == 10
    machine.check(SID)


class Meanwhile(Broken):
    """A reader during which something happens once."""

    def __init__(self, act: Any) -> None:
        super().__init__(-1, RuntimeError())
        self.act = act

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        for number, one in enumerate(READERS["claude-code"].read(source, mark)):
            if number == 5 and self.act:
                act, self.act = self.act, None
                act()
            yield one


# the rest


def test_a_dry_run_counts_and_writes_nothing(machine: Machine) -> None:
    """Design, section 5: a dry run changes no file."""
    talk = claude_talk(SID, str(machine.repo))
    machine.claude(SID, *talk)
    record(machine, OTHER, {"role": "user", "content": "x"})
    record(machine, SID, *messages_of(talk[:4]))
    before = {path: path.read_bytes() for path in Path(machine.paths.state_dir).rglob("*.*")}
    report = machine.bring_in(is_dry=True)
    after = {path: path.read_bytes() for path in Path(machine.paths.state_dir).rglob("*.*")}
    assert (report.added, report.known) == (6, 4) and after == before
    assert machine.bring_in().added == 6


def test_since_leaves_older_sessions_where_they_are(machine: Machine) -> None:
    """Issue 7: --since."""
    old, new = (machine.claude(sid, *claude_talk(sid, str(machine.repo))) for sid in (SID, OTHER))
    os.utime(old, (1_700_000_000, 1_700_000_000))
    assert new.exists()
    report = machine.bring_in(since=1_750_000_000)
    assert list(report.sessions) == [OTHER] and report.older == 1


def test_what_was_imported_stays_when_the_agent_deletes_its_files(machine: Machine) -> None:
    """Users' report 48: transcripts 29, 31 and 400 days old, deleted after the import."""
    now = time.time()
    files = []
    for number, days in enumerate((29, 31, 400)):
        sid = f"{number:08d}-2222-4333-8444-555555555555"
        files.append(machine.claude(sid, *claude_talk(sid, str(machine.repo))))
        os.utime(files[-1], (now - days * 86_400,) * 2)
    report = machine.bring_in()
    assert report.added == 30
    for file in files:
        file.unlink()
    assert machine.bring_in().places == 0
    due_now = due(machine.paths, 30, now=now + 29 * 86_400)
    assert (
        due_now.sessions == () and len(due(machine.paths, 30, now=now + 31 * 86_400).sessions) == 3
    )
    assert all(len(machine.texts(sid)) == 10 for sid in report.sessions)


def test_progress_ends_where_everything_is_read(machine: Machine) -> None:
    """Issue 7: a progress bar."""
    for sid in (SID, OTHER):
        machine.claude(sid, *claude_talk(sid, str(machine.repo)))
    seen: list[tuple[int, int]] = []
    machine.bring_in(progress=lambda done, total, title: seen.append((done, total)))
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1] > 0


def test_a_rollout_without_an_id_is_named_after_its_file(machine: Machine) -> None:
    """Oddities: catatafishen/agentbridge#40."""
    write(
        codex_path(machine.home, SID),
        lines(
            {"type": "turn_context", "payload": {"cwd": str(machine.repo)}},
            {"type": "response_item", "payload": item("user", "go")},
            *[{"type": "response_item", "payload": one} for one in codex_call("c", "ls", "a")],
        ),
    )
    report = machine.bring_in()
    assert list(report.sessions) == [SID] and report.added == 3
