"""Importing one large transcript: time against `json.loads` a line, and memory.

The file is made up in the proportions of real ones (a third of its bytes is text that is stored,
the rest stands there twice or says nothing), with one line of 12.8 MB. Reading is what a reader
does; the import is the command as a person runs it, with the processes it starts, and masks,
indexes and stores what it reads.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from openmem.agents.transcripts.files import file_source
from openmem.agents.transcripts.registry import READERS
from openmem.base.errors import Failed
from openmem.bench.figures import Figure, Report, median
from openmem.bench.stage import Stage
from openmem.bench.store.corpus import Corpus
from openmem.context.transcript import Mark

TIME_LIMIT = 6.0
MEMORY_LIMIT_MB = 200.0
SIZE_MB = 500
_GIANT_BYTES = 12_800_000
_PROJECTS = 4
_SID = "5f0c7a52-0000-4000-8000-00000000beac"


def run(*, repeats: int = 3, size_mb: int = SIZE_MB) -> Report:
    """Return time and memory of reading and of importing one file of so many MB."""
    reads: list[float] = []
    imports: list[float] = []
    several: list[float] = []
    floors: list[float] = []
    peaks: list[float] = []
    size = rows = 0
    for _ in range(repeats):
        with Stage() as stage:
            path = Path(stage.home) / "transcript.jsonl"
            size = write_transcript(path, size_mb << 20, folder=str(stage.project))
            stage.allow_everything()
            reads.append(_timed(_read, path))
            floors.append(_timed(_floor, path))
            begun = time.perf_counter()
            rows, peak = _import(stage, str(path))
            imports.append(time.perf_counter() - begun)
            peaks.append(peak)
            for number in range(_PROJECTS):
                folder = Path(stage.home) / f".claude/projects/p{number}"
                folder.mkdir(parents=True)
                part = folder / f"{number}{_SID[1:]}.jsonl"
                write_transcript(part, (size_mb << 20) // _PROJECTS, folder=str(stage.project),
                                 seed=number + 1, sid=part.stem)  # fmt: skip
            begun = time.perf_counter()
            _import(stage)
            several.append(time.perf_counter() - begun)
    floor = median(floors)
    figures = (
        Figure(
            name=f"read {size_mb} MB", unit="s", value=median(reads), floor=floor,
            limit=TIME_LIMIT, samples=repeats,
        ),
        Figure(
            name=f"import {size_mb} MB", unit="s", value=median(imports), floor=floor,
            limit=TIME_LIMIT, samples=repeats,
        ),
        Figure(
            name=f"{_PROJECTS} projects, {size_mb} MB", unit="s", value=median(several),
            floor=floor, limit=TIME_LIMIT, samples=repeats,
        ),
        Figure(
            name="memory of the import", unit="MB", value=max(peaks), floor=MEMORY_LIMIT_MB,
            limit=1.0, samples=repeats,
        ),
    )  # fmt: skip
    mb = size / 1e6
    notes = (
        f"read {mb / median(reads):.0f} MB/s, import {mb / median(imports):.0f} MB/s with masking"
        " and index,",
        f"{rows:,} rows; floor: json.loads of each line, {mb / floor:.0f} MB/s;"
        " of memory: what it may take",
    )
    return Report(bench="import", figures=figures, notes=notes)


def _timed(act: Callable[[Path], None], path: Path) -> float:
    begun = time.perf_counter()
    act(path)
    return time.perf_counter() - begun


def _read(path: Path) -> None:
    source = file_source("claude-code", str(path))
    assert source is not None  # it was written a moment ago
    for _ in READERS["claude-code"].read(source, Mark()):
        pass


def write_transcript(path: Path, size: int, *, folder: str, seed: int = 7, sid: str = _SID) -> int:
    """Write a transcript of about so many bytes and return how many they are."""
    written = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for line in _lines(folder, seed, sid):
            file.write(line + "\n")
            written += len(line) + 1
            if written >= size:
                break
    return os.stat(path).st_size


def _lines(folder: str, seed: int, sid: str) -> Iterator[str]:
    corpus, chance = Corpus(seed), random.Random(seed)
    number = 0

    def line(kind: str, **rest: object) -> str:
        nonlocal number
        number += 1
        second = number % 60
        record = {
            "parentUuid": f"{number - 1:08x}-0000-4000-8000-000000000000",
            "isSidechain": False,
            "userType": "external",
            "cwd": folder,
            "sessionId": sid,
            "version": "2.1.332",
            "gitBranch": "main",
            "type": kind,
            "uuid": f"{number:08x}-0000-4000-8000-000000000000",
            "timestamp": f"2026-11-{1 + number // 86400 % 28:02d}T10:{number // 60 % 60:02d}:"
            f"{second:02d}.000Z",
            **rest,
        }
        return json.dumps(record, ensure_ascii=False)

    def says(role: str, *content: object, **rest: object) -> str:
        message = {"role": role, "content": list(content), "usage": {"input_tokens": 1000}}
        if role == "assistant":
            message |= {"id": f"msg_{number:08x}", "model": "claude-opus-5-5", "type": "message"}
        return line(role, message=message, **rest)

    turn = 0
    while True:
        turn += 1
        yield line("user", message={"role": "user", "content": corpus.line()})
        if turn == 3:
            text = "\n".join(corpus.lines(1 + _GIANT_BYTES // 110))
            block = {
                "type": "tool_result",
                "tool_use_id": "t0",
                "content": text[: _GIANT_BYTES // 2],
            }
            yield says("user", block, toolUseResult=text[: _GIANT_BYTES // 2])
        for step in range(chance.randint(2, 9)):
            call = f"toolu_{turn:06x}{step:02x}"
            yield says("assistant", {"type": "thinking", "thinking": " ".join(corpus.lines(4)),
                                     "signature": "k3Jd" * 220})  # fmt: skip
            command = {"command": corpus.line(), "description": corpus.line()}
            yield says("assistant", {"type": "tool_use", "id": call, "name": "Bash",
                                     "input": command})  # fmt: skip
            for _ in range(chance.randint(0, 2)):
                yield line("progress", data={"type": "bash_progress", "output": corpus.line(),
                                             "fullOutput": "\n".join(corpus.lines(6))})  # fmt: skip
            text = "\n".join(corpus.lines(chance.choice((2, 8, 20, 60))))
            result = {"type": "tool_result", "tool_use_id": call, "content": text}
            yield says("user", result, toolUseResult={"stdout": text, "stderr": "",
                                                      "interrupted": False})  # fmt: skip
        yield says("assistant", {"type": "text", "text": "\n".join(corpus.lines(5))})
        yield line("attachment", attachment={"type": "task_reminder", "content": corpus.lines(8)})


def _floor(path: Path) -> None:
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)


def _import(stage: Stage, *paths: str) -> tuple[int, float]:
    """Return how many rows the command stored, and the peak of its resident memory in MB, with
    that of the processes it started."""
    command = [sys.executable, "-m", "openmem", "context", "import", *paths, "--json"]
    child = subprocess.Popen(
        command, env=stage.environ(), cwd=stage.project, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    peak = 0.0
    try:
        while True:
            peak = max(peak, sum(map(_resident, _with_children(child.pid))))
            try:
                out, err = child.communicate(timeout=0.05)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    if child.returncode != 0:
        raise Failed(f"the import ended with {child.returncode}: {err[-400:]}")
    return int(json.loads(out)["data"]["added"]), peak


def _with_children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [pid, *map(int, file.read().split())]
    except OSError:
        return [pid]  # it has ended, or there is no /proc here


def _resident(pid: int) -> float:
    """Return the most memory that a process held so far in MB; 0 where /proc is not there."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            found = next((line for line in file if line.startswith("VmHWM:")), "")
    except OSError:
        return 0.0  # it has ended, or there is no /proc here
    return int(found.split()[1]) / 1e3 if found else 0.0
