"""The benches at a tiny size: they run, measure what they say, and leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.bench import first_run, hook, importing, proxy, stream
from openmem.bench.__main__ import main
from openmem.bench.figures import Report
from openmem.bench.stage import Stage
from openmem.bench.target import Target
from openmem.bench.traffic import Conversation
from openmem.bench.upstream import SLOW_EVENTS
from tests.fakes.claude import claude_binary
from tests.fakes.installation import wait_for
from tests.fakes.openmem import needs_openmem

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stages are made below this folder, so that a test sees what they leave."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def _is_whole(report: Report, *, figures: int, limited: int) -> None:
    assert len(report.figures) == figures
    for figure in report.figures:
        assert figure.value > 0 and figure.floor > 0 and figure.samples > 0
    assert sum(figure.limit > 0 for figure in report.figures) == limited


def test_the_bare_pass_through_carries_a_request_and_its_answer() -> None:
    """Ours: the floor must do the same work, less the recording."""
    with Stage() as stage:
        upstream = stage.upstream()
        conversation = Conversation("s", size_bytes=10_000, folder=stage.project)
        for port in (upstream, stage.passthrough(upstream)):
            target = Target(port)
            times = [target.ask(conversation, conversation.body()) for _ in range(3)]
            target.close()
            assert all(0 < first <= last for first, last in times)


def test_a_stage_takes_its_children_and_its_folder_with_it(scratch: Path) -> None:
    """House style, tests: every process is ended."""
    with Stage() as stage:
        port = stage.upstream()
        children = list(stage._children)
        assert port > 0 and os.listdir(scratch)
    assert [child.poll() for child in children] == [0]
    assert os.listdir(scratch) == []


@needs_openmem
def test_the_proxy_bench_records_while_it_measures(scratch: Path) -> None:
    """Issue 2, "Show it": time to first byte while recording."""
    report = proxy.run(repeats=3, sizes=(("10 KB", 10_000, 1.3),))
    _is_whole(report, figures=2, limited=1)
    assert any(note.startswith("recorded meanwhile") for note in report.notes)
    assert os.listdir(scratch) == []


def test_a_slow_stream_tells_when_each_event_was_sent() -> None:
    """Ours: lateness needs a time on every event, and none may be lost on the way."""
    with Stage() as stage:
        upstream = stage.upstream()
        conversation = Conversation("s", size_bytes=2_000, folder=stage.project)
        for port in (upstream, stage.passthrough(upstream)):
            target = Target(port)
            late = target.lateness(conversation, conversation.body())
            target.close()
            assert len(late) == SLOW_EVENTS and min(late) > 0


@needs_openmem
def test_the_trimming_bench_has_limits_of_its_own(scratch: Path) -> None:
    """Issue 3, "Show it": added time with trimming and compression on."""
    report = proxy.run(repeats=2, sizes=(("300 KB", 300_000, 1.5),), trims=True)
    _is_whole(report, figures=2, limited=1)
    assert report.bench == "proxy-trimming"
    assert os.listdir(scratch) == []


@needs_openmem
def test_the_stream_bench_records_beside_the_stream(scratch: Path) -> None:
    """Issue 2, trial (c): new content recorded beside a streaming session."""
    report = stream.run(repeats=1, new_bytes=100_000)
    assert len(report.figures) == 2
    assert all(figure.value > 0 and figure.floor > 0 for figure in report.figures)
    assert os.listdir(scratch) == []


@needs_openmem
def test_the_hook_bench_measures_both_ways(scratch: Path) -> None:
    """Issue 2, "Show it": by the socket, and standalone."""
    report = hook.run(repeats=2)
    _is_whole(report, figures=8, limited=8)
    assert os.listdir(scratch) == []


@needs_openmem
@pytest.mark.real_agent
def test_the_first_run_bench_compares_with_and_without(scratch: Path) -> None:
    """Issue 2, "Show it": beside runs without us in the same minute."""
    report = first_run.run(repeats=1, claude=claude_binary() or "")
    _is_whole(report, figures=1, limited=1)
    assert report.figures[0].compare == "difference"
    assert os.listdir(scratch) == []


def test_an_unknown_bench_is_wrong_usage() -> None:
    """Design, section 5: exit 2."""
    command = [sys.executable, "-m", "openmem.bench", "nothing"]
    folder = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2


def test_a_missing_agent_is_said_with_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Design, section 5: 6, something needed is missing."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert main(["first-run"]) == 6
    assert "--claude" in capsys.readouterr().err


@needs_openmem
def test_json_is_one_value_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """House style, CLI output: data to stdout, nothing else."""
    assert main(["hook", "--json", "--repeats", "1"]) in (0, 3)
    assert json.loads(capsys.readouterr().out)["bench"] == "hook"


def test_import_is_measured_beside_reading_the_lines(tmp_path: Path) -> None:
    """Issue 7, part 5: MB/s beside `json.loads` a line, and memory; the file is like real ones."""
    path = tmp_path / "t.jsonl"
    size = importing.write_transcript(path, 14 << 20, folder="/repo")
    lines = path.read_bytes().split(b"\n")
    kinds = {json.loads(line)["type"] for line in lines if line}
    assert kinds == {"user", "assistant", "progress", "attachment"} and len(lines) > 500
    assert size >= 14 << 20 and max(map(len, lines)) > 6_000_000
    report = importing.run(repeats=1, size_mb=1)
    _is_whole(report, figures=4, limited=4)
    assert [figure.name for figure in report.figures][:2] == ["read 1 MB", "import 1 MB"]


def test_a_bench_that_is_told_to_end_takes_its_folder_with_it(scratch: Path) -> None:
    """Ours: folders of ended benches, proxies beside them, lay about in /tmp."""
    bench = subprocess.Popen(
        [sys.executable, "-m", "openmem.bench", "proxy"],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: list(scratch.glob("openmem-bench-*/proxy.log")), "its proxy was started", 60)
    bench.terminate()
    assert bench.wait(30) != 0
    assert not os.listdir(scratch)
