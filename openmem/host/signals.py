"""Signals as something to wait for, beside sockets, instead of code that runs in between.

Idea: the interpreter writes each signal's number to a socket pair; the loop reads it when it has
time. Invariant: what was installed before is put back, because in the foreground the process is
the command line's. Trap: a handler must be set or the number is not written.
"""

from __future__ import annotations

import signal
import socket
from types import FrameType


class SignalPipe:
    """Catches `signals` until closed. Waitable by `fileno`."""

    __slots__ = ("_before", "_read_end", "_wakeup", "_write_end")

    def __init__(self, signals: tuple[signal.Signals, ...]) -> None:
        self._read_end, self._write_end = socket.socketpair()
        self._read_end.setblocking(False)
        self._write_end.setblocking(False)
        self._before = {number: signal.signal(number, _written_elsewhere) for number in signals}
        self._wakeup = signal.set_wakeup_fd(self._write_end.fileno(), warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._read_end.fileno()

    def receive(self) -> bytes:
        """Return the numbers of the signals that came, empty when none did."""
        try:
            return self._read_end.recv(4096)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._read_end.close()
        self._write_end.close()


def _written_elsewhere(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor carries the number to the loop."""
