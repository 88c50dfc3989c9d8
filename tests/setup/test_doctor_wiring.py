"""The doctor's checks of what was written, wired, served and stored."""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from openmem.agents.base import AGENTS, Wanted
from openmem.agents.launchers import HOOK, MCP, launcher_path
from openmem.base.clock import now_text
from openmem.base.paths import Paths
from openmem.cli.app import run
from openmem.hook.delivery import write_delivery
from openmem.hook.notes import log_file, note
from openmem.host.lifecycle import ProxyStatus
from openmem.plan.action import Plan
from openmem.plan.apply import apply
from openmem.plan.edit.planner import plan_write
from openmem.plan.journal import journal_path
from openmem.plan.system import RealSystem
from openmem.setup.doctor import launchers, serving, store, wiring
from openmem.setup.doctor.finding import Finding
from openmem.setup.doctor.round import findings
from tests.fakes.stored import Machine, said

UP = ProxyStatus(
    running=True,
    address="http://127.0.0.1:8913",
    port=8913,
    version="1",
    worker_pid=2,
    supervisor_pid=1,
    mode="recording",
    manager="detached",
)
DOWN = ProxyStatus(running=False, address="", port=0)


@pytest.fixture
def system(home: Path) -> RealSystem:
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{}")
    return RealSystem({**os.environ, "PATH": "/usr/bin:/bin"})


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths(os.environ)


def wire(system: RealSystem, paths: Paths, **wanted: bool) -> None:
    agent = AGENTS["claude-code"]
    detected = agent.detect(system, system.environ)
    assert detected is not None
    plan = agent.wiring(system, paths, detected, Wanted(**wanted))  # type: ignore[arg-type]
    apply(plan, system, paths, label="setup")


def named(found: list[Finding], name: str) -> Finding:
    return next(finding for finding in found if finding.name == name)


def outcomes(found: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.name, finding.outcome) for finding in found}


def test_an_agent_that_is_wired_whole_is_ok_and_one_that_is_not_is_told(
    system: RealSystem, paths: Paths
) -> None:
    """screens.md, openmem doctor."""
    assert named(wiring.check_agents(system, paths), "agent").advice.startswith("openmem install")
    wire(system, paths)
    found = wiring.check_agents(system, paths)
    assert named(found, "agent").outcome == "ok"
    assert "hooks, MCP, proxy" in named(found, "agent").detail
    assert named(found, "delivery").outcome == "info"
    write_delivery(paths, "claude-code", "prompt", "7f3a0c44-x")
    assert "delivered 0 min ago" in named(wiring.check_agents(system, paths), "delivery").detail


def test_a_hook_that_somebody_took_out_is_an_error(
    system: RealSystem, paths: Paths, home: Path
) -> None:
    """Users' report 10: the file lost two of three hooks."""
    wire(system, paths)
    path = home / ".claude/settings.json"
    settings = json.loads(path.read_text())
    del settings["hooks"]["Stop"]
    path.write_text(json.dumps(settings))
    found = wiring.check_agents(system, paths)
    assert ("agent", "error") in outcomes(found)
    assert any("Stop" in finding.detail for finding in found)
    assert ("drift", "warning") in outcomes(wiring.check_runs(system, paths))


def test_settings_that_claude_code_drops_are_an_error_with_the_place(
    system: RealSystem, paths: Paths, home: Path
) -> None:
    """Peers, hands-on: Claude Code silently ignores a settings.json with a comment."""
    (home / ".claude/settings.json").write_text("{\n  // mine\n}\n")
    found = named(wiring.check_agents(system, paths), "agent")
    assert found.outcome == "error" and "line 2" in found.detail


def test_a_run_that_was_cut_off_is_an_error(system: RealSystem, paths: Paths, home: Path) -> None:
    """Issue 2: a journal left behind by a crash."""
    actions = plan_write(system, str(home / "x"), b"x", "something")
    receipt = apply(Plan(actions=tuple(actions)), system, paths, label="setup")
    assert outcomes(wiring.check_runs(system, paths)) == {("runs", "ok")}
    path = Path(journal_path(paths, receipt.number))
    path.write_text(path.read_text().replace('"finished"', '"started"'))
    found = wiring.check_runs(system, paths)
    assert named(found, "interrupted-run").advice.startswith("openmem undo")


def test_a_launcher_without_its_interpreter_is_an_error_that_fix_mends(
    system: RealSystem, paths: Paths
) -> None:
    """Issue 2, doctor: launcher's interpreter exists."""
    assert launchers.check_launchers(system, paths) is None
    wire(system, paths)
    found = launchers.check_launchers(system, paths)
    assert found is not None and found.outcome == "ok"
    for name in (HOOK, MCP):
        path = Path(launcher_path(paths, name))
        text = path.read_text().splitlines(keepends=True)
        gone = [x if not x.startswith("python=") else "python=/opt/gone/python\n" for x in text]
        path.write_text("".join(gone))
    found = launchers.check_launchers(system, paths)
    assert found is not None and found.outcome == "error" and "/opt/gone/python" in found.detail
    assert found.fix is not None
    apply(found.fix, system, paths, label="doctor --fix")
    found = launchers.check_launchers(system, paths)
    assert found is not None and found.outcome == "ok"


@pytest.mark.parametrize("name", [HOOK, MCP])
@pytest.mark.parametrize("fault", ["is gone", "may not be run", "installation that is gone"])
def test_a_launcher_that_does_not_run_is_an_error_and_off_in_the_status(
    name: str, fault: str, system: RealSystem, paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: with a launcher that was gone no hook ran, and `status` said yes to all of them."""
    wire(system, paths)
    path = Path(launcher_path(paths, name))
    if fault == "is gone":
        path.unlink()
    elif fault == "may not be run":
        path.chmod(0o600)
    else:
        text = path.read_text().splitlines(keepends=True)
        path.write_text(
            "".join(x if x[:5] != "root=" else "root='/opt/it is gone'\n" for x in text)
        )
    found = launchers.check_launchers(system, paths)
    assert found is not None and found.outcome == "error" and fault in found.detail
    assert run(["status"]) == 0
    shown = capsys.readouterr().out
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("claude-code")]
    assert row[1:3] == (["off", "yes"] if name == HOOK else ["yes", "off"])
    assert fault in " ".join(shown.split())
    assert found.fix is not None
    apply(found.fix, system, paths, label="doctor --fix")
    found = launchers.check_launchers(system, paths)
    assert found is not None and found.outcome == "ok"
    assert run(["status"]) == 0 and "off" not in capsys.readouterr().out


def test_the_status_says_when_agents_are_sent_where_nothing_answers(
    system: RealSystem, paths: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    """Facts, agents: a dead proxy hangs the agent. The matrix alone says yes."""
    wire(system, paths, proxy=False)
    assert run(["status"]) == 0 and "proxy start" not in capsys.readouterr().out
    wire(system, paths)
    assert run(["status"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "not running, though sent to it: claude-code; openmem proxy start" in shown


def test_hooks_that_a_setting_keeps_from_running_are_off(
    system: RealSystem, paths: Paths, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: `status` said yes, where `doctor` knew that none runs."""
    wire(system, paths)
    file = home / ".claude/settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "disableAllHooks": True}))
    assert run(["status"]) == 0
    shown = capsys.readouterr().out
    assert "off: ~/.claude/settings.json has disableAllHooks set; no hook runs" in shown
    found = named(wiring.check_agents(system, paths), "agent")
    assert found.outcome == "warning" and "disableAllHooks" in found.detail


def test_hooks_that_failed_lately_are_told_and_old_ones_are_not(
    system: RealSystem, paths: Paths
) -> None:
    """Design, section 7: fails open, and the fault is found somewhere."""
    assert wiring.check_hook_log(paths) is None
    note(paths, "prompt", "claude-code", "cannot write: No space left on device")
    found = wiring.check_hook_log(paths)
    assert found is not None and found.outcome == "warning" and "No space left" in found.detail
    path = Path(log_file(paths))
    path.write_text(path.read_text().replace(now_text()[:4], "2020"))
    assert wiring.check_hook_log(paths) is None


@pytest.mark.parametrize(
    ("status", "addressed", "expected", "words"),
    [
        (UP, {"claude-code": 8913}, ("proxy", "ok"), "serves 127.0.0.1:8913"),
        (UP, {"claude-code": 9000}, ("port", "error"), "sent to port 9000"),
        (replace(UP, stale=True), {}, ("stale", "warning"), "older"),
        (replace(UP, mode="plain"), {}, ("mode", "warning"), "without recording"),
        (replace(UP, restarts=9), {}, ("restarts", "warning"), "9 times"),
        (replace(UP, problems=("it is off.",)), {}, ("problem", "error"), "it is off"),
        (
            replace(UP, counters={"fail_opens_today": 2}),
            {},
            ("fail_opens", "warning"),
            "2 requests",
        ),
        (
            DOWN,
            {"claude-code": 1},
            ("proxy", "error"),
            "not running, though sent to port 1: claude-code",
        ),
        (DOWN, {}, ("proxy", "info"), "not running"),
        (replace(DOWN, stopped=True), {}, ("proxy", "info"), "stopped by you"),
    ],
)
def test_the_proxy_is_judged_by_what_the_agents_need(
    paths: Paths,
    status: ProxyStatus,
    addressed: dict[str, int],
    expected: tuple[str, str],
    words: str,
) -> None:
    """Issue 2, doctor: proxy reachable, stale, port."""
    found = serving.check_proxy(paths, status, addressed, 8913)
    assert expected in outcomes(found)
    assert any(words in finding.detail for finding in found)
    is_fixable = any(finding.fix is not None for finding in found)
    assert is_fixable == (status is DOWN and bool(addressed))


def test_stores_that_cannot_be_read_are_told_by_kind(home: Path, paths: Paths) -> None:
    """Issue 2, Bad input: store file newer than ours."""
    assert outcomes(store.check_store(paths)) == {("store", "ok")}
    machine = Machine(home)
    for sid in ("newer", "broken", "fine"):
        machine.record(sid, None, [said("x")])
    machine.close()
    folder = Path(paths.sessions_dir)
    assert outcomes(store.check_store(paths)) == {("store", "ok")}
    connection = sqlite3.connect(folder / "newer.v4.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    (folder / "broken.v4.db").write_bytes(b"not a database at all" * 100)
    (folder / "x.v4.db.damaged-2026").write_bytes(b"")
    found = store.check_store(paths)
    assert outcomes(found) == {("store", "warning"), ("store", "error"), ("damaged", "warning")}
    os.unlink(paths.key_file)
    assert ("key", "error") in outcomes(store.check_store(paths))


def test_a_check_that_breaks_is_a_finding_and_leaves_no_other_out(
    system: RealSystem, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours."""

    def broken(_: Paths) -> list[Finding]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store, "check_store", broken)
    found = findings(system, paths, has_network=False)
    assert ("store", "error") in outcomes(found) and ("policy", "warning") in outcomes(found)
    assert found[-1].outcome == "skipped"
    assert len({finding.name for finding in found}) >= 8
