"""The proxy's log: rare lines that say what happened to which process, never what was said.

Idea: a line is opened, appended and closed, so that supervisor and worker share one file and a
rotation needs no signal. Invariant: no message content and no secret. A fault is written as its
type and its place in our code, not its text, because the text of an exception can quote what was
being parsed. Trap: a log must never be the reason that the proxy ends; a full disk loses lines.
"""

from __future__ import annotations

import os

from openmem.base.clock import now_text
from openmem.base.fault import described
from openmem.base.paths import Paths

_LIMIT_BYTES = 1 << 20


class Logbook:
    """Appends lines to `logs/proxy.log`; at 1 MB the file becomes `proxy.log.1`."""

    __slots__ = ("path", "who")

    def __init__(self, paths: Paths, who: str) -> None:
        self.path = f"{paths.logs_dir}/proxy.log"
        self.who = who

    def line(self, text: str) -> None:
        """Write one line. `text`: ours, without content; a newline in it becomes a space."""
        one = text.replace("\n", " ").replace("\r", " ")
        self._append(f"{now_text()} {self.who}[{os.getpid()}] {one}\n".encode())

    def fault(self, where: str, error: BaseException) -> None:
        """Write an exception as type and place."""
        self.line(f"{where}: {described(error)}")

    def rotate(self) -> None:
        """Set a grown file aside. Only the supervisor calls this, so one renames at a time."""
        try:
            if os.stat(self.path).st_size > _LIMIT_BYTES:
                os.replace(self.path, self.path + ".1")
        except OSError:
            pass  # not there yet, or the folder is gone: nothing to set aside

    def _append(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(self.path, flags, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError:
            pass  # folder removed or disk full: serving the agent matters more than the line
