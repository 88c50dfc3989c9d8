"""A bar on the terminal while something long goes on; in a pipe there is none."""

from __future__ import annotations

import time
from types import TracebackType

from openmem.base.counts import size_text
from openmem.cli.console import Console, is_utf8
from openmem.cli.render.table import clipped

_EVERY_SECONDS = 0.1
_CELLS = 24


class Bar:
    """Shows how much of so many bytes is done, on standard error, and takes itself away."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stream = console.stderr
        self._is_shown = self._stream.isatty() and not console.is_quiet
        self._begun = self._last = time.monotonic()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._write("")

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show that `done` of `total` bytes are read; `what`: whose."""
        now = time.monotonic()
        if not self._is_shown or now - self._last < _EVERY_SECONDS:
            return
        self._last = now
        line = bar_line(done, total, what, now - self._begun, plain=not is_utf8(self._stream))
        self._write(clipped(line, self._console.width - 1))

    def _write(self, line: str) -> None:
        try:
            self._stream.write(f"\r{line}\x1b[K")
            self._stream.flush()
        except OSError:
            self._is_shown = False  # the terminal is gone; what we are doing goes on


def bar_line(done: int, total: int, what: str, seconds: float, *, plain: bool = False) -> str:
    """Return one state of the bar."""
    share = min(1.0, done / total) if total else 1.0
    full, empty = ("#", ".") if plain else ("█", "░")
    filled = int(share * _CELLS)
    rate = f", {done / 1e6 / seconds:.0f} MB/s" if seconds >= 1 else ""
    sizes = f"{size_text(done)} of {size_text(total)}"
    return f"{full * filled}{empty * (_CELLS - filled)} {share:4.0%}  {sizes}{rate}  {what}"
