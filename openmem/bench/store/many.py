"""Searching many sessions at once, beside ripgrep on the same text.

A search opens the files anew each time ("opened first") or keeps them open; before the recorder had
a quiet moment there are no filters yet of what was just written, which is a figure of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.bench.figures import Figure
from openmem.bench.store.corpus import COMMON, RARE, Corpus, incoming_of, json_lines, rows_of
from openmem.bench.store.timing import beside, elapsed_ms
from openmem.context.search.engine import Searcher, search
from openmem.context.search.query import Query, Scope
from openmem.context.store import word_filter
from openmem.context.store.recorder import Recorder

COLD_LIMIT = 1.0
WARM_LIMIT = 0.2
_ROW_LINES = 5
_FILTER_SECONDS = 600.0
_EVERYWHERE = Scope(all_workspaces=True)


def figures(paths: Paths, *, sessions: int, rows: int, repeats: int) -> tuple[list[Figure], str]:
    """Return the figures, and a note. Without ripgrep: no figure, and a note that says so."""
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        return [], "many sessions: left out, ripgrep (rg) is not installed"
    folder = f"{paths.state_dir}/text"
    os.makedirs(folder, mode=0o700)
    recorder = Recorder(paths, ensure_key(paths))
    size = 0
    for number in range(sessions):
        lines = rows * _ROW_LINES
        rare_at = (lines // 2,) if number in (3, sessions // 2, sessions - 2) else ()
        texts = rows_of(Corpus(1000 + number).lines(lines, rare_at=rare_at), _ROW_LINES)
        recorder.record_request(f"many-{number}", incoming_of(texts))
        path = f"{folder}/{number}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json_lines(texts))
        size += os.stat(path).st_size
    recorder.close()

    def grep(word: str) -> None:
        # Its exit status is 1 where nothing is found; that is not ours to judge here.
        subprocess.run(
            [ripgrep, "--count", "--ignore-case", "--fixed-strings", word, folder],
            stdout=subprocess.DEVNULL,
            check=False,
        )

    kept = Searcher(paths)
    found = [
        beside(
            f"{sessions} sessions, just written (elapsed)",
            lambda: search(paths, Query(text=RARE, limit=8), _EVERYWHERE),
            lambda: grep(RARE),
            limit=0.0,
            repeats=repeats,
            measure=elapsed_ms,
        ),
    ]
    # What the recorder does in its first quiet moment.
    word_filter.refresh(paths, seconds=_FILTER_SECONDS, settled_seconds=0.0)
    found += [
        beside(
            f"{sessions} sessions, opened first (elapsed)",
            lambda: search(paths, Query(text=RARE, limit=8), _EVERYWHERE),
            lambda: grep(RARE),
            limit=COLD_LIMIT,
            repeats=repeats,
            measure=elapsed_ms,
        ),
        beside(
            f"{sessions} sessions, kept open (elapsed)",
            lambda: kept.search(Query(text=RARE, limit=8), _EVERYWHERE),
            lambda: grep(RARE),
            limit=WARM_LIMIT,
            repeats=repeats,
            measure=elapsed_ms,
        ),
        beside(
            "a word in each tenth line of them (elapsed)",
            lambda: kept.search(Query(text=COMMON, limit=8), _EVERYWHERE),
            lambda: grep(COMMON),
            limit=0.0,
            repeats=max(1, repeats // 3),
            measure=elapsed_ms,
        ),
    ]
    kept.close()
    return found, f"many sessions: {sessions} of {rows} rows, {size / 1e6:.0f} MB as JSON lines"
