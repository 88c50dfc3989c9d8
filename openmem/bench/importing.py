"""Importing one large transcript: time against `json.loads` a line, and memory.

The file is made up in the proportions of real ones (a third of its bytes is text that is stored,
the rest stands there twice or says nothing), with one line of 12.8 MB. The import is the command as
a person runs it, a process of its own; its memory is that of it and its children together.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from openmem.base.errors import Failed
from openmem.bench.figures import Figure, Report, median
from openmem.bench.stage import Stage
from openmem.bench.store.corpus import Corpus

RATIO_LIMIT = 6.0
MEMORY_LIMIT_MB = 200.0
SIZE_MB = 64
_GIANT_BYTES = 12_800_000
_SID = "5f0c7a52-0000-4000-8000-00000000beac"


def run(*, repeats: int = 3, size_mb: int = SIZE_MB) -> Report:
    """Return time and memory of the import of one file of so many MB."""
    ours: list[float] = []
    floors: list[float] = []
    peaks: list[float] = []
    rows = 0
    for _ in range(repeats):
        with Stage() as stage:
            path = Path(stage.home) / "transcript.jsonl"
            size = write_transcript(path, size_mb << 20, folder=str(stage.project))
            stage.allow_everything()
            floors.append(_floor(path))
            begun = time.perf_counter()
            data, peak = _import(stage, path)
            ours.append(time.perf_counter() - begun)
            peaks.append(peak)
            rows = int(str(data["added"]))
    rate = size / 1e6
    figures = (
        Figure(
            name=f"import {size_mb} MB", unit="s", value=median(ours), floor=median(floors),
            limit=RATIO_LIMIT, samples=repeats,
        ),
        Figure(
            name="memory, of all processes", unit="MB", value=max(peaks), floor=MEMORY_LIMIT_MB,
            limit=1.0, samples=repeats,
        ),
    )  # fmt: skip
    notes = (
        f"{rate / median(ours):.0f} MB/s, {rows:,} rows; floor: json.loads of each line,"
        f" {rate / median(floors):.0f} MB/s",
        "floor of memory: what it may take",
    )
    return Report(bench="import", figures=figures, notes=notes)


def write_transcript(path: Path, size: int, *, folder: str, seed: int = 7) -> int:
    """Write a transcript of about so many bytes and return how many they are."""
    written = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for line in _lines(folder, seed):
            file.write(line + "\n")
            written += len(line) + 1
            if written >= size:
                break
    return os.stat(path).st_size


def _lines(folder: str, seed: int) -> Iterator[str]:
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
            "sessionId": _SID,
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


def _floor(path: Path) -> float:
    begun = time.perf_counter()
    with open(path, "rb") as file:
        for line in file:
            json.loads(line)
    return time.perf_counter() - begun


def _import(stage: Stage, path: Path) -> tuple[dict[str, object], float]:
    """Return the command's data and the peak of resident memory in MB, children included."""
    command = [sys.executable, "-m", "openmem", "context", "import", str(path), "--json"]
    child = subprocess.Popen(
        command, env=stage.environ(), cwd=stage.project, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    peak = 0.0
    try:
        while True:
            peak = max(peak, _resident(child.pid))
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
    data = json.loads(out)["data"]
    return data, peak


def _resident(pid: int) -> float:
    """Return resident memory of a process and its children in MB; 0 where /proc is not there."""
    total = 0.0
    for one in (pid, *_children(pid)):
        try:
            with open(f"/proc/{one}/statm", encoding="ascii") as file:
                total += int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
        except OSError:
            continue  # it has ended, or there is no /proc here
    return total


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []  # it has ended, or there is no /proc here
