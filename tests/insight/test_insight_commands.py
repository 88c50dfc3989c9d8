"""`openmem context` advise, report, trim and status, from the command line down to the store."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmem.cli.app import run
from openmem.context.session import take_trim_request
from tests.fakes.courses import BEGAN, Sessions, Step, growing

SID = "7f3a0c44-1111-4111-8111-000000000091"
OTHER = "019c0000-2222-4222-8222-000000000002"
PRICES = """
[models."claude"]
input = 10.0
output = 50.0
"""


@pytest.fixture
def sessions(home: Path) -> Sessions:
    return Sessions(home)


@pytest.fixture
def data(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def of(*words: str, status: int = 0) -> Any:
        capsys.readouterr()
        assert run([*words, "--json"]) == status
        return json.loads(capsys.readouterr().out)["data"]

    return of


def _trimmed_session(sessions: Sessions, began: float) -> None:
    steps = [
        *growing(8, 12_000),
        Step(prompt=35_000, read=20_000, gone=75_000, kept=(2, 10)),
        *(Step(prompt=35_000 + n * 1_000, read=34_000 + n * 1_000, trimmed=1) for n in range(1, 5)),
        Step(prompt=40_000, read=18_000, trimmed=1, bust="tools", kept=(1, 2)),
    ]
    sessions.record(SID, steps, began=began)
    sessions.record(SID, growing(3, 900, first=9_000), agent_id="a1", began=began)


# --- advise


def test_advise_replays_what_is_stored(
    sessions: Sessions, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 4, part 7: what each setting would have cost, its peaks and trims."""
    sessions.record(SID, growing(150, 2_000))
    sessions.record(OTHER, growing(5, 900))
    sessions.close()
    found = data("context", "advise")
    assert (found["sessions"], found["threads"], found["requests"]) == (2, 2, 155)
    assert len(found["settings"]) == 15
    assert {"soft_tokens", "to_fraction", "share", "cost_units", "dollars", "peak_tokens"} <= set(
        found["settings"][0]
    )
    best = found["recommended"]
    assert best["share"] < found["native_compaction"]["share"] < 1
    assert (
        best["share"] < found["in_force"]["share"] and found["in_force"]["soft_tokens"] == 100_000
    )
    assert run(["context", "advise"]) == 0
    told = capsys.readouterr()
    assert f"openmem config set trim.soft_tokens {best['soft_tokens']}" in told.out
    assert max(map(len, told.out.splitlines())) <= 80 and "$" not in told.out
    assert "Sizes only" in told.err


def test_the_advice_can_be_followed_and_is_then_in_force(
    sessions: Sessions, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """House style: the last line is the next command, and it works."""
    sessions.record(SID, growing(150, 2_000))
    sessions.close()
    assert run(["context", "advise"]) == 0
    commands = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("openmem config")
    ]
    assert commands
    for line in commands:
        assert run([*line.split()[1:], "--yes"]) == 0
    again = data("context", "advise")
    assert again["recommended"] is None and "in force" in again["why"]


def test_advise_with_prices_counts_dollars(
    sessions: Sessions, home: Path, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 4, part 7: `--price-file`; and the setting of the same purpose."""
    sessions.record(SID, growing(2, 1_000, first=99_000))
    sessions.close()
    path = home / "prices.toml"
    path.write_text(PRICES)
    # 99,000 and 1,000 written at 1.25, 99,000 read at 0.1, 2 × 100 of output at 5; 10 $ a million.
    wanted = pytest.approx((100_000 * 1.25 + 99_000 * 0.1 + 200 * 5) * 10 / 1e6)
    found = data("context", "advise", "--price-file", str(path))
    assert found["keep_everything"]["dollars"] == wanted
    assert run(["config", "set", "context.price_file", "~/prices.toml", "--yes"]) == 0
    assert data("context", "advise")["keep_everything"]["dollars"] == wanted
    capsys.readouterr()
    assert run(["context", "advise"]) == 0 and "($1.36)" in capsys.readouterr().out
    path.write_text(PRICES.replace("claude", "gpt"))
    assert data("context", "advise")["keep_everything"]["dollars"] is None
    assert run(["context", "advise"]) == 0 and "has no price" in capsys.readouterr().err


def test_advise_reads_a_transcript(home: Path, data: Callable[..., Any]) -> None:
    """Issue 4, part 7: or transcripts; nothing has to be stored for it."""
    lines = []
    for number in range(40):
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 2_000, "output_tokens": 50}
        usage["cache_read_input_tokens"] = 20_000 + 2_000 * number
        message = {"id": f"m{number}", "model": "claude-opus-4-6", "usage": usage}
        stamp = f"2026-11-30T10:{number:02d}:00Z"
        lines.append(json.dumps({"type": "assistant", "timestamp": stamp, "message": message}))
    path = home / "t.jsonl"
    path.write_text("\n".join(lines))
    found = data("context", "advise", "--transcript", str(path))
    assert (found["threads"], found["requests"]) == (1, 40)
    assert found["keep_everything"]["peak_tokens"] == 100_004
    assert sorted(entry.name for entry in home.iterdir()) == ["t.jsonl"]


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        ([], 1, "no recorded request"),
        (["--session", "nope"], 1, "no stored session"),
        (["--transcript", "/nowhere.jsonl"], 1, "/nowhere.jsonl"),
        (["--price-file", "/nowhere.toml"], 4, "/nowhere.toml"),
        (["--session", "a", "--transcript", "b"], 2, "exclude"),
    ],
)
def test_advise_without_ground_says_what_is_missing(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, named: str
) -> None:
    """House style, errors."""
    assert run(["context", "advise", *words]) == status
    assert named in " ".join(capsys.readouterr().err.split())


# --- report


def test_the_report_is_of_the_last_used_session_or_the_one_named(
    sessions: Sessions, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 4: `openmem context report [--html FILE]`."""
    sessions.record(OTHER, growing(2, 500))
    _trimmed_session(sessions, BEGAN)
    sessions.close()
    found = data("context", "report")
    assert found["session_id"] == SID and found["totals"]["trims"] == 1
    main, sub = found["threads"]
    assert (main["kind"], main["trims"], main["removed_tokens"]) == ("main", 1, 75_000)
    assert main["busts"] == {"tools": 1} and sub["agent_id"] == "a1"
    assert main["requests"][8]["untrimmed_tokens"] == 110_000
    assert [one["cause"] for one in main["happenings"]] == ["trim", "tools"]
    assert data("context", "report", "--session", "019c")["session_id"] == OTHER
    assert run(["context", "report"]) == 0
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert "T trim (soft)" in told and "110k to 35k" in told and "L tools changed" in told
    assert told.splitlines()[-1].endswith("--html FILE")


def test_the_page_is_one_private_file_and_replaces_an_older_one(
    sessions: Sessions, home: Path, data: Callable[..., Any]
) -> None:
    """Design, section 6: files 600; nothing else is written."""
    _trimmed_session(sessions, BEGAN)
    sessions.close()
    path = home / "report.html"
    path.write_text("older")
    before = {entry.name for entry in home.iterdir()}
    found = data("context", "report", "--html", str(path))
    assert found["html"] == str(path) and path.read_text().startswith("<!doctype html>")
    assert path.stat().st_mode & 0o777 == 0o600
    assert {entry.name for entry in home.iterdir()} == before


def test_the_report_fails_with_the_name_of_what_is_wrong(
    sessions: Sessions, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """House style, errors."""
    assert run(["context", "report"]) == 1 and "no session is kept" in capsys.readouterr().err
    _trimmed_session(sessions, BEGAN)
    sessions.close()
    assert run(["context", "report", "--html", str(home / "no" / "r.html")]) == 1
    assert "r.html cannot be written" in " ".join(capsys.readouterr().err.split())


# --- trim


def test_a_trim_is_asked_for_with_the_turns_to_keep(
    sessions: Sessions, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 4: `openmem context trim SESSION [--keep N]` trims on the next request."""
    sessions.record(SID, growing(2, 500))
    sessions.close()
    assert data("context", "trim", "7f3a", "--keep", "5") == {
        "session_id": SID,
        "keep": 5,
        "proxy_trims": True,
    }
    assert take_trim_request(sessions.paths, SID) == 5
    assert run(["context", "trim", "7f3a"]) == 0
    told = capsys.readouterr()
    assert f"{SID} is trimmed at its next request." in told.out
    assert "openmem proxy start" in told.err  # nobody is there to do it
    assert take_trim_request(sessions.paths, SID) == 0
    assert take_trim_request(sessions.paths, SID) is None


def test_a_trim_that_will_not_happen_is_told(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: a wish nobody will grant is no success to be silent about."""
    sessions.record(SID, growing(2, 500))
    sessions.close()
    monkeypatch.setenv("OPENMEM_TRIM_ENABLED", "false")
    assert run(["context", "trim", SID]) == 0
    assert "trim.enabled" in capsys.readouterr().err
    assert run(["context", "trim", "nope"]) == 1
    assert run(["context", "trim", SID, "--keep", "-1"]) == 2
    assert not Path(sessions.paths.sessions_dir, "nope.force").exists()


# --- status


def test_status_says_what_was_spared_today(
    sessions: Sessions, home: Path, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 4: limit, trims, what was removed, busts with causes, against no trimming today."""
    _trimmed_session(sessions, time.time() - 1)
    sessions.fault(SID, time.time())
    sessions.close()
    found = data("context", "status")
    (session,) = found["sessions"]
    assert (session["limit_tokens"], session["prompt_tokens"]) == (200_000, 40_000)
    assert (session["removed_tokens"], session["removed_messages"]) == (75_000, 31)
    assert session["bust_reasons"] == [["tools", 1], ["trim", 1]]
    sub, main = sorted(session["threads"], key=lambda thread: thread["kind"], reverse=True)
    assert (main["kind"], main["removed_tokens"], sub["removed_tokens"]) == ("main", 75_000, 0)
    assert main["bust_reasons"] == [["tools", 1], ["trim", 1]] and sub["limit_tokens"] == 200_000
    today = found["today"]
    assert today["requests"] == 17 and today["fail_opens"] == 1
    assert today["untrimmed_tokens"] - today["input_tokens"] == 6 * 75_000
    assert today["units"] < today["untrimmed_units"] and today["dollars"] is None
    assert run(["context", "status"]) == 0
    told = capsys.readouterr().out
    assert "40k of 200k" in told and "1 tools" in told and "1 trim" in told and "75k" in told
    assert "fail-opens today: 1" in told and "Against no trimming, today:" in told
    assert max(map(len, told.splitlines())) <= 80 and "$" not in told
    (home / "prices.toml").write_text(PRICES)
    os.environ["OPENMEM_CONTEXT_PRICE_FILE"] = str(home / "prices.toml")
    try:
        assert run(["context", "status"]) == 0
    finally:
        del os.environ["OPENMEM_CONTEXT_PRICE_FILE"]
    assert " of $" in capsys.readouterr().out


def test_yesterday_is_not_today(sessions: Sessions, data: Callable[..., Any]) -> None:
    """Screens, context status: today."""
    steps = growing(2, 500)
    sessions.record(SID, steps, began=time.time() - 3 * 86_400)
    sessions.close()
    found = data("context", "status")
    assert found["today"]["requests"] == 0 and found["today"]["input_tokens"] == 0
    assert found["sessions"][0]["removed_tokens"] == 0


def test_a_price_file_that_is_gone_hides_no_session(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: what is stored can be listed without prices."""
    sessions.record(SID, growing(2, 500))
    sessions.close()
    monkeypatch.setenv("OPENMEM_CONTEXT_PRICE_FILE", "/nowhere.toml")
    assert run(["context", "status"]) == 0
    told = capsys.readouterr()
    assert "7f3a…91" in told.out and "/nowhere.toml" in told.err


def test_insight_reads_and_leaves_no_trace(sessions: Sessions, home: Path) -> None:
    """Design, section 5: read-only commands."""
    _trimmed_session(sessions, BEGAN)
    sessions.close()

    def snapshot() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file()}

    before = snapshot()
    for words in (["advise"], ["report"], ["status"]):
        assert run(["context", *words]) == 0
    assert snapshot() == before
