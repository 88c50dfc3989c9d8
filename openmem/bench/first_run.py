"""What openmem adds to `claude -p`: the same prompt with and without it, in turns.

Both HOMEs point at the same upstream on loopback; in one of them `openmem setup --yes` has run, so
hooks, MCP server and proxy are those that a person gets. Whole-process wall time, median.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time

from openmem.base.errors import Failed, Missing
from openmem.bench.figures import Figure, Report, median
from openmem.bench.hook import wire
from openmem.bench.stage import Stage

LIMIT_SECONDS = 0.15


def run(*, repeats: int = 9, claude: str = "") -> Report:
    """Return the figure. `claude`: path of the binary, else PATH's. Missing when there is none."""
    binary = claude or shutil.which("claude")
    if not binary:
        raise Missing("Claude Code was not found on PATH.", hint="Name it: --claude PATH.")
    with Stage() as plain, Stage() as wired:
        upstream = plain.upstream()
        url = f"http://127.0.0.1:{upstream}"
        try:
            wire(wired, upstream)
            without: list[float] = []
            with_us: list[float] = []
            for turn in range(repeats + 1):
                pair = [(plain, url, without), (wired, "", with_us)]
                for stage, base_url, samples in pair if turn % 2 else reversed(pair):
                    seconds = _one(binary, stage, base_url)
                    if turn:  # the first run of a HOME sets it up
                        samples.append(seconds)
        finally:
            wired.openmem("uninstall", "--purge", "--yes")
    figure = Figure(
        name="claude -p with openmem",
        unit="s",
        value=median(with_us),
        floor=median(without),
        compare="difference",
        limit=LIMIT_SECONDS,
        samples=repeats,
    )
    return Report(bench="first-run", figures=(figure,), notes=("floor: claude -p without it",))


def _one(binary: str, stage: Stage, base_url: str) -> float:
    environ = stage.environ(
        ANTHROPIC_API_KEY="made-up",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_TELEMETRY="1",
        DISABLE_ERROR_REPORTING="1",
        DISABLE_AUTOUPDATER="1",
        CLAUDE_CODE_MAX_RETRIES="1",
        TERM="dumb",
        **({"ANTHROPIC_BASE_URL": base_url} if base_url else {}),
    )
    command = [binary, "-p", "Say a word.", "--model", "claude-opus-5-5"]
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        env=environ,
        cwd=stage.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    seconds = time.perf_counter() - begun
    if done.returncode != 0 or "word" not in done.stdout:
        words = (done.stdout + done.stderr)[-500:]
        raise Failed(f"{os.path.basename(binary)} -p ended with {done.returncode}: {words}")
    return seconds
