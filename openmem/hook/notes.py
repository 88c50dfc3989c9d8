"""`logs/hook.log`: one line for each hook that could not do its work, and why.

Idea: a hook that fails open is silent, so its faults must be found somewhere. Invariant: a line
holds a time, names of ours and a reason in our own words; no content, no path, no environment.
Trap: it is written where a fault has just happened; it gives up rather than fault again.
"""

from __future__ import annotations

import os

from openmem.base.clock import now_text
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths

_LIMIT_BYTES = 256 * 1024


def log_file(paths: Paths) -> str:
    """Return the path of the log."""
    return f"{paths.logs_dir}/hook.log"


def note(paths: Paths, event: str, agent: str, what: str) -> None:
    """Append one line; a log that has grown too long becomes `hook.log.1`."""
    path = log_file(paths)
    words = " ".join(f"{now_text()} {_word(agent)} {_word(event)} {what}".split())
    try:
        ensure_private_dir(paths.logs_dir)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            os.write(descriptor, words.encode("ascii", "replace") + b"\n")
            is_long = os.fstat(descriptor).st_size > _LIMIT_BYTES
        finally:
            os.close(descriptor)
        if is_long:
            os.replace(path, f"{path}.1")
    except OSError:
        pass  # a full or read-only disk: there is nowhere left to say it, and the agent goes on


def _word(text: str) -> str:
    """Return a name from the command line as one short harmless word."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in text[:32])
    return kept or "-"
