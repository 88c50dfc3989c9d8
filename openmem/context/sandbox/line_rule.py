r"""What it means that a pattern matches a line: one rule for searching and for forgetting.

`^` and `$` mean the ends of a line, and a carriage return before one is not part of it. A pattern
that can cross a line end (`\n`, `(?s)`, `[\s\S]`) is tried on whole rows; a match counts for the
line it begins on.
Trap: half a surrogate pair is stored as the text `\ud83d`; a pattern with such a half in it
compiles, matches nothing, and cannot be handed to SQLite.
"""

from __future__ import annotations

import re

_CROSSES_LINES = re.compile(r"\\n|\n|\(\?[a-zA-Z]*s|\[\\s\\S\]|\[\\S\\s\]")


class LineRule:
    """A compiled pattern. re.error, OverflowError, RecursionError when it does not compile.

    `on_rows`: the form for whole rows, None when the pattern stays inside a line.
    """

    def __init__(self, pattern: str) -> None:
        self.on_lines = re.compile(pattern)
        self.on_rows: re.Pattern[str] | None = None
        if _CROSSES_LINES.search(pattern):
            self.on_rows = re.compile(self.on_lines.pattern, self.on_lines.flags | re.MULTILINE)

    def match(self, line: str) -> re.Match[str] | None:
        """Return where a line matches; only for a rule without `on_rows`."""
        return self.on_lines.search(line[:-1] if line.endswith("\r") else line)

    def matching_line(self, text: str) -> str | None:
        """Return the first line of a row that matches, None when none does."""
        if self.on_rows is None:
            return next((line for line in text.split("\n") if self.match(line)), None)
        found = self.on_rows.search(text)
        if found is None:
            return None
        begin = text.rfind("\n", 0, found.start()) + 1
        return text[begin:].partition("\n")[0]
