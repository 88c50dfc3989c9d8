"""What a person sees, at 80 columns, as files to be read: `tests/cli/golden/*.txt`.

Source: screens.md; the order is the point: what, why, what stays, what next.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmem.base.clock import seconds_of
from openmem.base.counts import size_text
from openmem.base.io import ABSENT
from openmem.base.paths import Paths
from openmem.base.policy import Decision, Policy, Rule
from openmem.base.workspace import Workspace
from openmem.cli.command import Run
from openmem.cli.console import Console
from openmem.cli.flow import typed
from openmem.cli.render.context import hit_lines, session_lines, status_lines
from openmem.cli.render.doctor import doctor_lines
from openmem.cli.render.plan import plan_lines
from openmem.cli.render.policy import explain_lines, policy_lines
from openmem.cli.render.proxy import proxy_line
from openmem.host.lifecycle import ProxyStatus
from openmem.plan.action import Left, MakeDir, ManualStep, Plan, RemoveFile, RunCommand, WriteFile
from openmem.setup.doctor.finding import Finding
from tests.fakes.golden import assert_golden

GOLDEN = Path(__file__).parent / "golden"
HOME = "/home/dev"
NOW = 1_796_000_000.0  # 2026-11-30T00:53:20Z


def write(path: str, why: str, before: str = ABSENT) -> WriteFile:
    return WriteFile(path=f"{HOME}/{path}", before=before, data=b"x", why=why)


SETUP = Plan(
    actions=(
        MakeDir(path=f"{HOME}/.config/openmem", why="settings of openmem"),
        write(".config/openmem/policy.toml", "who may be stored and recalled"),
        write(".config/openmem/config.toml", "provider local, proxy on port 8913"),
        RunCommand(
            argv=("systemctl", "--user", "enable", "--now", "openmem.socket"),
            why="keeps the proxy reachable",
        ),
        write(".claude/settings.json", "3 hooks, the proxy's address", "sha256:0"),
        write(".claude.json", 'the MCP server "openmem"', "sha256:0"),
    ),
)


def test_a_plan_says_what_why_what_stays_and_what_next() -> None:
    """screens.md, openmem setup --dry-run."""
    lines = plan_lines(
        SETUP,
        home=HOME,
        width=80,
        notes=(
            "Claude Code 2.1.332 found.",
            "Stored: sessions in git repositories. Not stored: everything else.",
            "Behind an address of its own, Claude Code turns off remote control; tool "
            "loading on demand is set back on.",
        ),
        next_steps=(
            "See every byte: openmem setup --dry-run --diff      Go: openmem setup",
            "Go back later:  openmem undo",
        ),
    )
    assert_golden(GOLDEN / "setup-dry-run.txt", lines)


def test_what_is_done_by_hand_warned_of_and_left_is_told_apart() -> None:
    """Users' reports 8 and 10: what is left is named, with the reason."""
    plan = Plan(
        actions=(
            RemoveFile(
                path=f"{HOME}/.local/share/openmem/bin/openmem-hook-with-a-rather-long-name",
                before="sha256:0",
                why="the launcher of the hooks",
            ),
            ManualStep(text="restart Claude Code", why="it read its settings at start"),
        ),
        warnings=("1 session still uses the proxy; it goes on as a plain pass-through.",),
        left=(
            Left(
                path=f"{HOME}/.claude/settings.json",
                why="its value was changed after openmem wrote it",
                keys=("env", "ANTHROPIC_BASE_URL"),
            ),
        ),
    )
    assert_golden(GOLDEN / "uninstall-left.txt", plan_lines(plan, home=HOME, width=80))


def test_an_undo_that_can_take_nothing_back_says_so() -> None:
    """Design, section 4: or says what it left and why."""
    left = Left(path=f"{HOME}/x.txt", why="changed since openmem wrote it; it stays as it is")
    lines = plan_lines(Plan(left=(left,), undoes=(1,)), home=HOME, width=80)
    assert lines == [
        "openmem will change no file.",
        "",
        "Left as it is:",
        "  = ~/x.txt  changed since openmem wrote it; it stays as it is",
    ]


@pytest.mark.parametrize("width", range(40, 101))
def test_a_plan_fits_every_terminal(width: int) -> None:
    """Issue 2, a first run in a split window; 40 columns is the least that a console gives."""
    lines = plan_lines(SETUP, home=HOME, width=width, notes=("Claude Code found. " * 9,))
    for line in lines:
        assert len(line) <= width or line.split()[0] in "+~-$="  # a name is not broken
    shown = " ".join(" ".join(lines).split())
    for text in ("who may be stored and recalled", 'the MCP server "openmem"', "run 1 command"):
        assert text in shown


@pytest.mark.parametrize(
    ("problems", "counters", "expected"),
    [
        ((), {}, ""),
        ((), {"fail_opens_today": 1}, ", 1 request not kept today (openmem doctor)"),
        (("the recorder is off.",), {}, ", with a problem (openmem doctor)"),
    ],
)
def test_a_proxy_that_keeps_nothing_does_not_look_well(
    problems: tuple[str, ...], counters: dict[str, int], expected: str
) -> None:
    """README: a fault of ours is counted in `openmem context status`, on a full disk too."""
    status = ProxyStatus(
        running=True,
        address="http://127.0.0.1:8913",
        port=8913,
        mode="recording",
        started_at="2026-11-30T11:00:00Z",
        problems=problems,
        counters=counters,
    )
    now = seconds_of("2026-11-30T11:00:01Z")
    assert proxy_line(status, now) == f"proxy 127.0.0.1:8913 up just now{expected}"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("plan",), "openmem setup --yes"),
        (
            ("plan", "--no-mcp", "--out", "p.json", "--exit-code", "--diff"),
            "openmem setup --yes --no-mcp",
        ),
        (("plan", "--out=p.json", "--port", "9000"), "openmem setup --yes --port 9000"),
        (("setup", "--dry-run", "--no-mcp"), "openmem setup --no-mcp"),
    ],
)
def test_what_a_dry_run_advises_does_it(argv: tuple[str, ...], expected: str) -> None:
    """House style, CLI output: what next. `openmem plan` again would change nothing."""
    run = Run(argv=argv, console=Console.of_process(), paths=Paths({"HOME": HOME}), is_json=False)
    assert typed(run) == expected


def test_a_second_run_says_nothing_to_do() -> None:
    """House style, CLI output."""
    assert plan_lines(Plan(), home=HOME, width=80) == ["Nothing to do."]


def test_the_policy_reads_as_a_table() -> None:
    """Issue 2, part 3."""
    yes = {"store": True, "recall": True, "retain": True}
    policy = Policy(
        defaults={"git": yes, "other": {}},
        rules=(
            Rule(path=f"{HOME}/work/secret", uses=(("store", False),), why="client's code"),
            Rule(remote="github.com/acme/*", uses=(("retain", False), ("recall", True))),
        ),
    )
    assert_golden(GOLDEN / "policy.txt", policy_lines(policy, f"{HOME}/p.toml", HOME, 80))


def test_explain_gives_the_reason_of_each_answer_and_wraps_it() -> None:
    """Issue 2, part 3: policy explain PATH."""
    workspace = Workspace(
        folder=f"{HOME}/work/site", git_root=f"{HOME}/work/site", remotes=("github.com/acme/site",)
    )
    decision = Decision(
        store=True,
        recall=True,
        retain=False,
        reasons={
            "store": "default for git repositories",
            "recall": "default for git repositories",
            "retain": "rule for remote github.com/acme/*: the client asked that nothing of its "
            "sessions is kept longer than the session",
        },
    )
    assert_golden(
        GOLDEN / "policy-explain.txt", explain_lines(workspace, workspace.bank, decision, HOME, 80)
    )


def test_the_doctor_names_what_is_wrong_and_what_to_do() -> None:
    """screens.md, openmem doctor."""
    findings = [
        Finding(name="python", outcome="ok", detail="python 3.11.9, sqlite 3.45.1 with FTS5"),
        Finding(
            name="agent",
            outcome="warning",
            subject="claude-code",
            detail=f"{HOME}/.claude/settings.json holds a comment on line 3, and Claude Code "
            "ignores the whole file because of it; no hook runs",
            advice="take the comment out, then `openmem install-coding-agent`",
        ),
        Finding(
            name="proxy",
            outcome="error",
            subject="proxy",
            detail="not running, though claude-code is sent to port 8913",
            advice="openmem doctor --fix   starts it (plan shown first)",
        ),
        Finding(name="network", outcome="skipped", detail="network (--no-network)"),
        Finding(name="policy", outcome="ok", detail="policy read"),
    ]
    assert_golden(GOLDEN / "doctor.txt", doctor_lines(findings, HOME, 80))


def session(**held: Any) -> dict[str, Any]:
    return {
        "session_id": "7f3a0c44-0000-4000-8000-000000000091",
        "agent": "claude-code",
        "cwd": f"{HOME}/src/openmem",
        "bank": "github.com/acme/openmem",
        "rows": 812,
        "bytes": 3_400_000,
        "prompt_tokens": 88_200,
        "trims": 2,
        "busts": 2,
        "cache_read_tokens": 970_000,
        "cache_creation_tokens": 20_000,
        "input_tokens": 10_000,
        "output_tokens": 41_000,
        "fail_opens": 0,
        "last_at": "2026-11-30T00:51:00Z",
        "threads": [],
        "bust_reasons": [("trim", 2)],
        "removed_tokens": 310_000,
        "cleared_tokens": 0,
        "limit_tokens": 200_000,
        **held,
    }


def test_context_status_is_one_line_a_session() -> None:
    """screens.md, openmem context status."""
    thread = {key: value for key, value in session(agent_id="a1", prompt_tokens=12_000).items()}
    threads = [{**thread, "kind": kind} for kind in ("main", *["sub-agent"] * 4, "side")]
    causes = [("trim", 5), ("messages", 2), ("tools", 1), ("idle", 1)]
    sessions = [
        session(threads=threads),
        session(
            session_id="ses_8f00d",
            agent="opencode",
            cwd=f"{HOME}/a-project-with-a-long-name",
            prompt_tokens=119_000,
            limit_tokens=128_000,
            busts=9,
            bust_reasons=causes,
        ),
        session(
            session_id="short",
            agent="",
            cwd="",
            bank="",
            prompt_tokens=0,
            busts=0,
            bust_reasons=[],
            removed_tokens=0,
            limit_tokens=0,
            trims=0,
            cache_read_tokens=0,
            cache_creation_tokens=0,
            input_tokens=0,
            fail_opens=2,
            last_at="",
        ),
    ]
    head = "proxy 127.0.0.1:8913 up 3 d · store 214 MB in 61 sessions · policy: git repos"
    today = {
        "requests": 412,
        "input_tokens": 1_900_000,
        "untrimmed_tokens": 4_400_000,
        "units": 310_000.0,
        "untrimmed_units": 690_000.0,
        "dollars": 3.1,
        "untrimmed_dollars": 6.9,
        "fail_opens": 2,
    }
    lines = status_lines(sessions, head=head, now_seconds=NOW, width=80, today=today, passed=14)
    assert_golden(GOLDEN / "context-status.txt", lines)
    assert max(map(len, lines)) <= 80
    empty = status_lines([], head=head, now_seconds=NOW, width=80)
    assert empty[-1].startswith("No session is kept yet")


def test_context_search_shows_hits_with_their_neighbours() -> None:
    """screens.md, openmem context search."""

    def row(seq: int, role: str, text: str) -> dict[str, Any]:
        return {"seq": seq, "role": role, "kind": "text", "name": "", "excerpt": text}

    sid = "7f3a0c44-0000-4000-8000-000000000091"
    data = {
        "total_matches": 3,
        "line_matches": 5,
        "mode": "lexical",
        "hits": [
            {
                "session_id": sid,
                "seq": 412,
                "role": "user",
                "kind": "text",
                "name": "",
                "in_context": False,
                "excerpt": "… we rotate the [signing key] every 90 days, \x1b[31mnow",
                "before": [],
                "after": [row(413, "assistant", "Noted: rotation\nevery 90 days. " + "x" * 90)],
                "created_at": "2026-11-28T00:00:00Z",
                "cwd": "/home/dev/src/openmem",
            },
            {
                "session_id": sid,
                "seq": 230,
                "role": "tool",
                "kind": "tool_result",
                "name": "Bash",
                "in_context": True,
                "excerpt": "[signing key] fingerprint 4A:1F:…",
                "before": [],
                "after": [],
                "created_at": "2026-11-28T00:00:00Z",
                "cwd": "/home/dev/src/openmem",
            },
        ],
    }
    assert_golden(GOLDEN / "context-search.txt", hit_lines(data, now_seconds=NOW, width=80))
    nothing = {"hits": [], "total_matches": 0, "line_matches": 0, "mode": "lexical"}
    assert hit_lines(nothing, now_seconds=NOW, width=80) == ["Nothing found."]


def test_a_session_is_shown_row_by_row() -> None:
    """Ours: context show SESSION."""
    rows = [
        {"seq": 1, "role": "user", "kind": "text", "name": "", "text": "fix\nit", "in_context": 1},
        {
            "seq": 2,
            "role": "assistant",
            "kind": "image",
            "name": "",
            "text": "",
            "in_context": False,
        },
    ]
    lines = session_lines(rows, head="session 7f3a, claude-code, 2 rows", width=80)
    assert_golden(GOLDEN / "context-show.txt", lines)


def test_sizes_are_read_at_a_glance() -> None:
    """screens.md."""
    assert [size_text(n) for n in (0, 999, 14_200, 214_000_000, 1_230_000_000)] == [
        "0 B",
        "999 B",
        "14 kB",
        "214 MB",
        "1.2 GB",
    ]
