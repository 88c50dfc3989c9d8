"""Where the tables and values of a TOML file stand.

The file has been parsed and found valid before it comes here, so this only has to find places:
headers, `key = value` lines, and what stands between brackets. Trap: `[[name]]` opens the next
entry of a list, and later headers that begin with the name belong to the entry opened last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from openmem.plan.action import Key, Keys
from openmem.plan.edit.jsonscan import Box, Member

_BLANK = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
_SPACE = re.compile(r"[ \t]*")
_TRIVIA = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LITERAL = re.compile(r"'[^'\n]*'")
_BASIC = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_LONG_BASIC = re.compile(r'"""[^"\\]*(?:(?:\\.|"{1,2}(?!"))[^"\\]*)*"{3,5}', re.S)
_LONG_LITERAL = re.compile(r"'''[^']*(?:'{1,2}(?!')[^']*)*'{3,5}", re.S)
_SCALAR = re.compile(r"[^,\]}#\r\n]*[^,\]}#\r\n \t]")
_TEXTS = (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL)
_LINE_END = re.compile(r"[^\n]*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Pair:
    """One `key = value`. `keys`: whole path; `section`: number of its section, -1 at the root.

    `start`, `end`: its line or lines, the last line's end included.
    """

    keys: Keys
    section: int
    start: int
    value_start: int
    value_end: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """One header. `keys`: whole path, with the number of the entry for `[[name]]`.

    `start`: of its line; `header_end`: end of that line; `end`: end of its last pair's line,
    without the comments and blank lines that follow, which belong to what comes next.
    """

    keys: Keys
    is_entry: bool
    start: int
    header_end: int
    end: int


class TomlScan:
    """The statements of a valid file, in order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pairs: list[Pair] = []
        self.sections: list[Section] = []
        self._counts: dict[Keys, int] = {}
        offset = 0
        while offset < len(text):
            blank = _BLANK.match(text, offset)
            if blank:
                offset = blank.end()
                continue
            start = _end(_SPACE, text, offset)
            offset = (
                self._header(offset, start) if text[start] == "[" else self._pair(offset, start)
            )

    def _header(self, line: int, start: int) -> int:
        is_entry = self.text.startswith("[[", start)
        names, _ = self._names(start + (2 if is_entry else 1))
        keys: Keys = ()
        for place, name in enumerate(names):
            keys = (*keys, name)
            if is_entry and place == len(names) - 1:
                self._counts[keys] = self._counts.get(keys, -1) + 1
            if keys in self._counts:
                keys = (*keys, self._counts[keys])
        end = _end(_LINE_END, self.text, self._after_names(start, is_entry))
        self.sections.append(Section(keys, is_entry, line, end, end))
        return end

    def _after_names(self, start: int, is_entry: bool) -> int:
        return self._names(start + (2 if is_entry else 1))[1]

    def _pair(self, line: int, start: int) -> int:
        names, offset = self._names(start)
        value_start = _end(_SPACE, self.text, offset + 1)
        value_end = self.end_of(value_start)
        end = _end(_LINE_END, self.text, value_end)
        number = len(self.sections) - 1
        above = self.sections[number].keys if self.sections else ()
        self.pairs.append(Pair((*above, *names), number, line, value_start, value_end, end))
        if self.sections:
            last = self.sections[number]
            self.sections[number] = Section(
                last.keys, last.is_entry, last.start, last.header_end, end
            )
        return end

    def _names(self, offset: int) -> tuple[list[str], int]:
        """Return the names of a dotted key and the offset behind it and the space after it."""
        names: list[str] = []
        while True:
            offset = _end(_SPACE, self.text, offset)
            found = _BARE_KEY.match(self.text, offset)
            if found:
                names.append(found[0])
            else:
                pattern = _BASIC if self.text[offset] == '"' else _LITERAL
                found = pattern.match(self.text, offset)
                assert found is not None
                names.append(_unquoted(found[0]))
            offset = _end(_SPACE, self.text, found.end())
            if self.text[offset] != ".":
                return names, offset
            offset += 1

    def end_of(self, start: int) -> int:
        """Return the end of the value that starts at `start`."""
        if self.text[start] in "[{":
            return self.box(start).closing + 1
        for pattern in _TEXTS:
            found = pattern.match(self.text, start)
            if found:
                return found.end()
        return _end(_SCALAR, self.text, start)

    def box(self, opening: int) -> Box:
        """Return the list or inline table whose bracket is at `opening`."""
        is_table = self.text[opening] == "{"
        members: list[Member] = []
        offset = _end(_TRIVIA, self.text, opening + 1)
        while self.text[offset] not in "]}":
            start, key = offset, len(members)
            name: Key = key
            if is_table:
                names, offset = self._names(offset)
                name = names[0] if len(names) == 1 else "\n".join(names)
                offset = _end(_SPACE, self.text, offset + 1)
            end = self.end_of(offset)
            after = _end(_TRIVIA, self.text, end)
            comma = after if self.text[after] == "," else -1
            members.append(Member(name, start, offset, end, comma))
            offset = _end(_TRIVIA, self.text, after + 1) if comma >= 0 else after
        return Box(opening, offset, is_table, tuple(members))


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    import tomllib

    return str(tomllib.loads(f"k = {text}")["k"])


def _end(pattern: re.Pattern[str], text: str, offset: int) -> int:
    found = pattern.match(text, offset)
    return found.end() if found else offset
