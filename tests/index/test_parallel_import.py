"""Several processes import what one would, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from openmem.agents.transcripts.registry import READERS
from openmem.base.errors import Failed
from openmem.index.sessions import parallel
from openmem.index.sessions.importing import Means
from openmem.index.sessions.report import Report
from tests.fakes.agent_files import (
    ClaudeFile,
    claude_talk,
    codex_lines,
    codex_path,
    item,
    lines,
    write,
)
from tests.index.conftest import Machine

CODEX = "66666666-2222-4333-8444-555555555555"


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "SMALL_BYTES", 0)


def sid_of(number: int) -> str:
    return f"{number:08d}-2222-4333-8444-555555555555"


def lay(machine: Machine) -> list[str]:
    """Write six sessions in three projects, one with a sub-agent and a bad line, and a rollout."""
    sids = [sid_of(number) for number in range(6)]
    for number, sid in enumerate(sids):
        folder = machine.home / f".claude/projects/p{number % 3}"
        talk = lines(*claude_talk(sid, str(machine.repo)))
        write(folder / f"{sid}.jsonl", (b"no json\n" if number == 1 else b"") + talk)
    helper = ClaudeFile(sids[0], str(machine.repo), agent_id="a1").user("task")
    write(machine.home / f".claude/projects/p0/{sids[0]}/subagents/agent-a1.jsonl", lines(helper))
    write(codex_path(machine.home, CODEX),
          lines(*codex_lines(CODEX, str(machine.repo), item("user", "go"))))  # fmt: skip
    return [*sids, CODEX]


def run(
    machine: Machine,
    progress: Callable[[int, int, str], None] = lambda done, total, title: None,
    *,
    processes: int = 3,
) -> Report:
    sources = [one for r in READERS.values() for one in r.sources({}, str(machine.home))]
    means = Means(paths=machine.paths, key=machine.key, readers=READERS, progress=progress)
    return parallel.import_all(means, sources, Report(), processes=processes)


def test_processes_beside_each_other_come_to_the_same(machine: Machine) -> None:
    """Ours: every session once, every fault named, progress to the end."""
    sids = lay(machine)
    seen: list[tuple[int, int]] = []
    report = run(machine, lambda done, total, title: seen.append((done, total)))
    assert set(report.sessions) == set(sids) and report.added == 62
    assert [(Path(one.path).stem, one.line) for one in report.skipped] == [(sids[1], 1)]
    assert len(report.sessions[sids[0]].sources) == 2 and report.sessions[sids[0]].added == 11
    assert report.places == 8 and report.seconds > 0
    assert seen[-1][0] == seen[-1][1] > 0
    machine.check(*sids)
    again = run(machine)
    assert (again.added, again.unchanged) == (0, 8)


def test_few_sources_need_no_other_process(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: one processor, one group, or nothing new."""
    lay(machine)

    def no_pool(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(parallel, "ProcessPoolExecutor", no_pool)
    assert run(machine, processes=1).added == 62
    assert run(machine).unchanged == 8  # nothing is new


def test_who_breaks_off_ends_every_process(machine: Machine) -> None:
    """Issue 7: interrupted; children end, and what they stored is whole."""
    sids = lay(machine)

    def broken(done: int, total: int, title: str) -> None:
        raise Failed("enough")

    with pytest.raises(Failed):
        run(machine, broken)
    stored = [sid for sid in sids if machine.rows(sid)]
    machine.check(*stored)
    run(machine)
    assert sum(len(machine.texts(sid)) for sid in sids) == 62
    machine.check(*sids)
