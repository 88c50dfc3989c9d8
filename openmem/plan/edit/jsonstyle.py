"""How a file writes things, read off its neighbours: line ends, indent, spaces around `:` `,`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from openmem.plan.action import Json
from openmem.plan.edit.jsonscan import EOL, Box, Scan

_INDENTED = re.compile(r"(?:\r\n|\n|\r)([ \t]+)[^ \t\r\n]")
_COLON = re.compile(r'"(?P<before>[ \t]*):(?P<after>[ \t]*)[^ \t\r\n]')
_DEFAULT_UNIT = "  "


@dataclass(frozen=True, slots=True)
class Style:
    """`unit`: one step of indent. `colon`, `comma`: as written on one line."""

    eol: str
    unit: str
    colon: str
    comma: str

    def inline(self, value: Json) -> str:
        """Return a value on one line."""
        return _dumps(value, None, (self.comma, self.colon))

    def block(self, value: Json, indent: str) -> str:
        """Return a value over several lines; the first goes where the caller puts it."""
        text = _dumps(value, self.unit, (",", self.colon))
        return text.replace("\n", self.eol + indent)


def _dumps(value: Json, indent: str | None, separators: tuple[str, str]) -> str:
    text = json.dumps(
        value, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False
    )
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate can only stand escaped
        return json.dumps(value, indent=indent, separators=separators, allow_nan=False)
    return text


def style_of(scan: Scan, box: Box) -> Style:
    """Return the style for what is put into `box`: its own, else the file's."""
    text = scan.text
    eol = EOL.search(text)
    colon = ": "
    found = None
    if box.is_table and box.members:
        key_end = scan.shadow.rindex(":", box.members[0].start, box.members[0].value_start)
        before = scan.shadow[box.members[0].start : key_end].rstrip(" \t")
        found = _COLON.match(scan.shadow, box.members[0].start + len(before) - 1)
    else:
        found = _COLON.search(scan.shadow)
    if found:
        colon = f"{found['before']}:{found['after']}"
    comma = "," if colon.endswith(":") else ", "
    if len(box.members) > 1:
        first, second = box.members[0], box.members[1]
        comma = ", " if scan.commas[first.comma + 1 : second.start] else ","
    return Style(eol[0] if eol else "\n", _unit(scan, box), colon, comma)


def _unit(scan: Scan, box: Box) -> str:
    outer = line_indent(scan.text, box.opening)
    if box.members:
        inner = own_line_indent(scan.text, box.members[0].start)
        if inner is not None and inner.startswith(outer) and inner != outer:
            return inner[len(outer) :]
    found = _INDENTED.search(scan.commas)
    return found[1] if found else _DEFAULT_UNIT


def line_indent(text: str, offset: int) -> str:
    """Return the white space at the start of the line that holds `offset`."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    end = start
    while end < offset and text[end] in " \t":
        end += 1
    return text[start:end]


def own_line_indent(text: str, offset: int) -> str | None:
    """Return the indent of a token that is the first on its line, None when it is not."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    before = text[start:offset]
    return before if start and not before.strip(" \t") else None
