"""The store's bench at a tiny size: it runs, measures what it says, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from openmem.bench.store import many
from openmem.bench.store.bench import Sizes, run
from openmem.bench.store.corpus import COMMON, RARE, Corpus, incoming_of, rows_of
from openmem.bench.store.memory import memory_mb, processes_of
from openmem.bench.store.timing import beside, elapsed_ms

pytestmark = pytest.mark.timeout(300)
TINY = Sizes(
    ingest_lines=400,
    resent_bytes=20_000,
    scan_lines=2_000,
    sessions=4,
    session_rows=20,
    large_bytes=20_000,
    requests=10,
)


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform != "linux", reason="memory is told otherwise; 2026-11-30")
def test_every_figure_of_the_issue_is_there_beside_its_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 3, "Show it", the bench: its ratios, in one run; tiny sizes say nothing of limits."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(many.shutil, "which", lambda name: None)
    report = run(repeats=1, sizes=TINY)
    limits = {figure.name: figure.limit for figure in report.figures}
    assert limits == {
        "store a history": 30.0,
        "store it, unmasked": 0.0,
        "file against its text": 3.2,
        "a resent history against SHA-256": 3.0,
        "rare word, 2,000 lines": 0.01,
        "word in each tenth line": 1.0,
        "LIKE over a row's 20,000 lines": 3.0,
        "LIKE over that row's whole text": 0.0,
        "memory after sixteen large requests": 2.5,
        "memory after 10 against a fifth": 1.1,
    }
    assert all(figure.value > 0 and figure.floor > 0 for figure in report.figures)
    assert any("ripgrep (rg) is not installed" in note for note in report.notes)
    assert max(len(line) for line in report.lines()) <= 100
    assert [name for name in os.listdir(tmp_path) if name.startswith("openmem-bench-")] == []


def test_the_lines_are_drawn_from_a_seed_and_hold_the_words_as_often_as_said() -> None:
    """Brief: data seeded."""
    lines = Corpus(5).lines(20_000, rare_at=(7, 11))
    assert lines == Corpus(5).lines(20_000, rare_at=(7, 11)) != Corpus(6).lines(20_000)
    assert [number for number, line in enumerate(lines) if RARE in line] == [7, 11]
    assert 0.09 < sum(COMMON in line for line in lines) / len(lines) < 0.13
    assert sum(not line.isascii() for line in lines) > 100
    texts = rows_of(lines[:100], 10)
    assert len(texts) == 10 and "\n".join(texts) == "\n".join(lines[:100])
    assert incoming_of(texts).view.messages


def test_ours_and_the_floor_take_turns() -> None:
    """Brief: ratios in one run."""
    seen: list[str] = []
    figure = beside(
        "x", lambda: seen.append("a"), lambda: seen.append("b"), limit=1, repeats=4,
        measure=elapsed_ms,
    )  # fmt: skip
    assert sorted(seen[:2]) == ["a", "b"] and seen[2:] == list("baabbaab")
    assert figure.samples == 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; 2026-11-30")
def test_memory_is_that_of_a_process_and_its_children() -> None:
    """Ours."""
    assert processes_of(os.getpid())[0] == os.getpid()
    assert 1 < memory_mb(os.getpid()) < 4_000
