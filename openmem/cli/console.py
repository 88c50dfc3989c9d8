"""Where words go: data to stdout, everything for people to stderr.

Renderings are plain lines, made by pure functions at a given width; this is the only place that
knows the terminal. Data that cannot be delivered is an error; words for people that nobody reads
any more are let go, so that a change under way is not broken off half-way. Colour is added here by
the mark a line begins with, so it never carries a meaning of its own. A stream that is not UTF-8
gets ASCII forms, and text that came from a session is shown with its control characters made
visible, so that nothing stored can drive the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import TextIO

WIDTH = 80
_WIDEST = 100  # longer lines are hard to read, and the renderings are made for 80

_ASCII = str.maketrans(
    {
        "✓": "ok",
        "✗": "x",
        "→": "->",
        "·": "-",
        "…": "...",
        "–": "-",
        "—": "-",
        "└": "`",
        "•": "*",
        "“": '"',
        "”": '"',
        "’": "'",
        "≤": "<=",
        "×": "x",
        **dict(zip("▁▂▃▄▅▆▇█", ".:-=+*#@", strict=True)),
    }
)
# C0 and C1 but for tab and newline, and the characters that reorder or hide text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
)
_STYLES = (
    (re.compile(r"^\s*(\+|✓|ok)(?=\s)"), "green"),
    (re.compile(r"^\s*(~|warning|denied)(?=\s)"), "yellow"),
    (re.compile(r"^\s*(-|✗|error)(?=\s)"), "red"),
    (re.compile(r"^\s*(=|skipped|info|not asked)(?=\s)"), "dim"),
)

# A command that is broken over two lines cannot be pasted.
_COMMAND = re.compile(r"\bopenmem(?: [a-z]+(?:-[a-z]+)*){1,2}(?: --[a-z-]+(?: [a-z]+-[a-z-]+)?)*")
_GLUE = "\x00"


def visible(text: str) -> str:
    """Return text with control, reordering and hidden characters written out (`\\x1b`)."""
    return _UNSAFE.sub(lambda m: ascii(m.group())[1:-1], text)


def is_utf8(stream: TextIO) -> bool:
    """Return whether a stream can take any character."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") in ("utf8", "utf8sig")


class Console:
    """The two streams of one run and what they can show. `home`: shown as `~` in messages."""

    def __init__(
        self, environ: Mapping[str, str], stdin: TextIO, stdout: TextIO, stderr: TextIO
    ) -> None:
        self.environ = environ
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        for stream in (stdout, stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")  # a name we cannot show is no fault
        self.is_quiet = False

    @classmethod
    def of_process(cls) -> Console:
        """Return the console of this process; a stream that it was started without is empty."""
        for descriptor in range(3):
            _hold(descriptor)
        return cls(
            os.environ,
            sys.stdin or _nowhere(0),
            sys.stdout or _nowhere(1),
            sys.stderr or _nowhere(2),
        )

    @property
    def width(self) -> int:
        """Columns to render for: the terminal's or `COLUMNS`, 80 in a pipe, at most 100."""
        columns = shutil.get_terminal_size((WIDTH, 24)).columns
        return max(40, min(columns, _WIDEST))

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked something: a terminal on both ends."""
        return _is_terminal(self.stdin) and _is_terminal(self.stdout)

    def out(self, lines: Iterable[str]) -> None:
        """Print data."""
        self._print(self.stdout, lines)

    def say(self, *lines: str) -> None:
        """Print something for people; silent under `--quiet`."""
        if not self.is_quiet:
            self._tell(lines)

    def complain(self, message: str, hint: str) -> None:
        """Print an error in one paragraph; said even under `--quiet`."""
        text = " ".join(part for part in (message, hint) if part)
        self._tell(wrapped(f"openmem: {visible(self.shortened(text))}", self.width))

    def shortened(self, text: str) -> str:
        """Return text with the home folder written as `~`."""
        return tilde(text, self.environ.get("HOME", ""))

    def _tell(self, lines: Iterable[str]) -> None:
        try:
            self._print(self.stderr, lines)
        except OSError:  # the reader is gone or its disk is full: what we are doing goes on
            abandon(self.stderr)

    def _print(self, stream: TextIO, lines: Iterable[str]) -> None:
        plain = not is_utf8(stream)
        shown = [line.translate(_ASCII) if plain else line for line in lines]
        if shown and self._has_colour(stream):
            self._paint(stream, shown)
        else:
            stream.write("".join(f"{line}\n" for line in shown))
        stream.flush()

    def _has_colour(self, stream: TextIO) -> bool:
        if self.environ.get("NO_COLOR"):
            return False
        if self.environ.get("FORCE_COLOR"):
            return True
        return _is_terminal(stream) and self.environ.get("TERM", "dumb") != "dumb"

    def _paint(self, stream: TextIO, lines: list[str]) -> None:
        from rich.console import Console as Painter
        from rich.text import Text

        painter = Painter(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        for line in lines:
            text = Text(line)
            for pattern, style in _STYLES:
                match = pattern.match(line)
                if match:
                    text.stylize(style, *match.span(1))
            painter.print(text)


def abandon(stream: TextIO) -> None:
    """Point a stream at nowhere, so that the interpreter's last flush does not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def _hold(descriptor: int) -> None:
    """Occupy a standard descriptor that is closed: the next file opened would become it."""
    try:
        os.fstat(descriptor)
    except OSError:  # closed; descriptors below it are held, so the lowest free one is this
        os.open(os.devnull, os.O_RDWR)


def _nowhere(descriptor: int) -> TextIO:
    return open(descriptor, "r" if descriptor == 0 else "w", encoding="utf-8", closefd=False)


def tilde(text: str, home: str) -> str:
    """Return a sentence with the home folder written as `~`, wherever a path of it stands."""
    home = home.rstrip("/")
    return re.sub(rf"(?<![\w/.-]){re.escape(home)}(?![\w.-])", "~", text) if home else text


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return text as lines of at most `width`; paths and commands of ours stay whole."""
    glued = _COMMAND.sub(lambda match: match.group().replace(" ", _GLUE), text)
    lines = textwrap.wrap(
        glued,
        width,
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=indent,
        initial_indent=indent,
    )
    return [line.replace(_GLUE, " ") for line in lines]


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False  # closed or missing: nobody is there
