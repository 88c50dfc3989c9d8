"""What the terminal gets: data apart from words, nothing a stored text could drive it with."""

from __future__ import annotations

import io

from openmem.cli.console import Console, visible, wrapped
from openmem.cli.render.table import cells, clipped, columns


class Stream(io.TextIOWrapper):
    """A text stream in memory; `terminal`: whether it claims to be one."""

    def __init__(self, encoding: str = "utf-8", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    @property
    def bytes(self) -> bytes:
        self.seek(0)
        return self.buffer.read()


def console(environ: dict[str, str], *, encoding: str = "utf-8", terminal: bool = False) -> Console:
    return Console(
        environ,
        Stream(terminal=terminal),
        Stream(encoding, terminal=terminal),
        Stream(encoding, terminal=terminal),
    )


def test_data_goes_to_stdout_and_words_to_stderr() -> None:
    """Design, section 5."""
    shown = console({})
    shown.out(["data"])
    shown.say("words")
    shown.complain("broken.", "Mend it.")
    assert shown.stdout.bytes == b"data\n"
    assert shown.stderr.bytes == b"words\nopenmem: broken. Mend it.\n"


def test_quiet_silences_words_and_not_errors() -> None:
    """House style, CLI output."""
    shown = console({})
    shown.is_quiet = True
    shown.say("words")
    shown.complain("broken.", "")
    assert shown.stderr.bytes == b"openmem: broken.\n"


def test_a_stream_that_is_not_utf8_gets_ascii_forms_and_never_fails() -> None:
    """Users' contract: ASCII fallback when the encoding is not UTF-8."""
    shown = console({}, encoding="ascii")
    shown.out(["✓ proxy → 8913 · up … – 接続"])
    assert shown.stdout.bytes == b"ok proxy -> 8913 - up ... - \\u63a5\\u7d9a\n"


def test_colour_only_on_a_terminal_and_never_against_no_color() -> None:
    """Users' contract: NO_COLOR, TERM=dumb; colour adds and never carries."""
    cases = [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, False, False),
    ]
    for environ, terminal, coloured in cases:
        shown = console(environ, terminal=terminal)
        shown.out(["  + new.txt  why"])
        text = shown.stdout.bytes.decode()
        assert ("\x1b[" in text) is coloured
        assert "".join(part.split("m", 1)[-1] for part in text.split("\x1b[")) == (
            "  + new.txt  why\n"
        )


def test_stored_text_cannot_drive_the_terminal() -> None:
    """Users' report 32: hidden characters are shown escaped."""
    assert visible("a\x1b[2Jb\u202ec\u200bd\te\n") == "a\\x1b[2Jb\\u202ec\\u200bd\te\n"
    assert visible("żółć 接続 🙂") == "żółć 接続 🙂"


def test_home_is_written_as_a_tilde_in_errors_and_only_whole_folders_are() -> None:
    """screens.md, An error."""
    shown = console({"HOME": "/home/u"})
    assert shown.shortened("/home/u/a and /home/user/b") == "~/a and /home/user/b"


def test_long_words_stay_whole() -> None:
    """Ours: a command or a path that is broken cannot be pasted."""
    lines = wrapped("one two or `openmem setup --without claude-code`, three " + "x" * 90, 40)
    assert "x" * 90 in lines and "`openmem setup --without claude-code`," in lines
    assert all("\x00" not in line for line in lines)


def test_columns_line_up_for_wide_characters() -> None:
    """Ours: a project's folder may be named in any script."""
    rows = columns([["接続", "1"], ["ab", "22"]], right=[1])
    assert {cells(row) for row in rows} == {8}
    assert clipped("接続接続", 5) == "接続…" and clipped("abc", 3) == "abc"
