"""A process that records requests one after the other and says each one that is stored.

`python -m tests.fakes.writer_process SID NAME TURNS [option=value]…`. Options: `busy` seconds a
call waits for a lock, `size` bytes of a message, `per_thread` turns until a new conversation
begins, `limit` bytes that a file may have, `clock` seconds that the clock is wrong by.
Prints the number of each turn that was acknowledged, or `refused CODE` and ends.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, incoming, user

ROOT = Path(__file__).parents[2]


def text_of(name: str, turn: int, size: int = 0) -> str:
    """Return what a writer says at a turn; no two are equal."""
    said = f"{name} says {turn}"
    return said + ("\n" + f"{name} {turn} filler " * (size // 16 + 1))[:size] if size else said


def start_writer(sid: str, name: str, turns: int, **options: float) -> subprocess.Popen[str]:
    """Start a writer with the caller's environment; its HOME says where."""
    words = [f"{key}={value}" for key, value in options.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.writer_process", sid, name, str(turns), *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def main(sid: str, name: str, turns: int, options: dict[str, float]) -> None:
    wrong_by = options.get("clock", 0.0)
    if wrong_by:
        right = time.time
        time.time = lambda: right() + wrong_by
    if "limit" in options:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python does; the write then fails
        limit = int(options["limit"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    size, per_thread = int(options.get("size", 0)), int(options.get("per_thread", 25))
    recorder = Recorder(Paths(dict(os.environ)), KEY, busy_seconds=options.get("busy", 60.0))
    said: list[dict[str, object]] = []
    for turn in range(turns):
        if turn % per_thread == 0:
            said = []
        said.append(user(text_of(name, turn, size)))
        agent = f"{name}-{turn // per_thread}"
        try:
            recorder.record_request(sid, incoming(said, kind="sub-agent", agent_id=agent))
        except StoreUnavailable as error:
            print("refused", error.code, flush=True)
            break
        print(turn, flush=True)
    recorder.close()


if __name__ == "__main__":
    pairs = [word.partition("=") for word in sys.argv[4:]]
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), {key: float(value) for key, _, value in pairs})
