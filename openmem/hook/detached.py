"""A child that nobody waits for: the agent ends its hooks, and the worker has no children to reap.

Idea: a shell starts the program in the background and is gone at once; whoever adopts orphans
reaps it. Invariant: the child inherits no output of the agent's, no key and no token.
Trap: a pipe takes 64 KiB before anybody reads; what is handed over must fit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from openmem.hook.revive import clean_environment

LIMIT_BYTES = 60_000
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
        os.waitpid(pid, 0)  # the shell's; it ends at once


def command(module: str) -> list[str]:
    """Return the argument list that runs a module of ours with this interpreter and this code."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        return [sys.executable, "-P", "-m", module]
    code = f"import sys; sys.path.insert(0, {root!r}); from {module} import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", code]
