"""A child that nobody waits for: the agent ends its hooks, and the worker has no children to reap.

Idea: a shell starts the program in the background and is gone at once; whoever adopts orphans
reaps it. Invariant: the child inherits no output of the agent's, no key and no token.
Trap: a pipe takes 64 KiB before anybody reads; what is handed over must fit.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping

from openmem.hook.revive import clean_environment

LIMIT_BYTES = 60_000
# The agent that ended its turn has work to do, and few processors to do it on. Said by the child
# itself: whoever spawns one waits until it runs.
_NO_HURRY = "os.nice(10); "
_SCRIPT = 'exec 3<&0; "$@" <&3 3<&- >/dev/null 2>&1 &'


def start_detached(module: str, stdin: bytes, environ: Mapping[str, str]) -> None:
    """Run `python -m module` with `stdin` in the background. OSError; ValueError when too long."""
    if len(stdin) > LIMIT_BYTES:
        raise ValueError("too much to hand over")
    read_end, write_end = os.pipe()
    try:
        streams = [
            (os.POSIX_SPAWN_DUP2, read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_CLOSE, write_end),
        ]
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", _SCRIPT, "sh", *command(module)],
            clean_environment(environ),
            file_actions=streams,
            setpgroup=0,
        )
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)  # or a write would wait for a child that is gone
    try:
        os.write(write_end, stdin)
    finally:
        os.close(write_end)
        _reap(pid)


def _reap(pid: int) -> None:
    """Take the shell's end, without waiting for it: it ends at once, but where the processors are
    busy its child may run first, for 50 ms, and an agent waits for this hook."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.Thread(target=_wait, args=(pid,), daemon=True).start()
    # Else this is a hook's own process: it is gone in a moment, and who adopts orphans reaps it.


def _wait(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):  # somebody else in this process waited for all
        os.waitpid(pid, 0)


def command(module: str) -> list[str]:
    """Return the argument list that runs a module of ours with this interpreter and this code."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    is_installed = os.path.basename(root) in ("site-packages", "dist-packages")
    code = f"import os, sys; {_NO_HURRY}"
    code += "" if is_installed else f"sys.path.insert(0, {root!r}); "
    return [sys.executable, "-P", "-c", f"{code}from {module} import main; sys.exit(main())"]
