"""Where the values of a JSON file stand, and where and why one does not parse.

Comments and trailing commas are blanked out with spaces, so that a strict decoder, written in C,
reads a text of equal length: its offsets are the file's. That is what makes a megabyte cheap.
JSONC here is what editors call so: comments and trailing commas, nothing else.
"""

from __future__ import annotations

import bisect
import json
import re
from dataclasses import dataclass
from typing import Any

from openmem.base.errors import Unparseable

BOM = b"\xef\xbb\xbf"
EOL = re.compile(r"\r\n|\n|\r")
COMMENT = re.compile(r"//[^\n\r]*|/\*.*?\*/", re.S)
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_STRING_OR_COMMENT = re.compile(_STRING + r"|//[^\n\r]*|/\*.*?\*/", re.S)
_STRING_OR_COMMA = re.compile(_STRING + r"|,(?=[ \t\r\n]*[}\]])", re.S)
_STRING_OR_CONSTANT = re.compile(_STRING + r"|-?(?:NaN|Infinity)", re.S)
_SPACE = re.compile(r"[ \t\r\n]*")
_TRAILING_COMMA = re.compile(r",[ \t\r\n]*[}\]]")
_NOT_EOL = re.compile(r"[^\r\n]")


class _Constant(ValueError):
    """NaN or Infinity, which Python reads and JSON does not know."""


def _refuse_constant(name: str) -> Any:
    raise _Constant(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_scan_string = json.decoder.scanstring  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of a table or list. `start`: of its key, or of its value in a list.

    `value_start`, `end`: span of the value. `comma`: offset of the comma after it, -1 if none.
    """

    key: str | int
    start: int
    value_start: int
    end: int
    comma: int


@dataclass(frozen=True, slots=True)
class Box:
    """A table or list: offsets of its brackets and its members in order."""

    opening: int
    closing: int
    is_table: bool
    members: tuple[Member, ...]


class Scan:
    """A parsed text. `root`: its value, last of equal keys wins."""

    __slots__ = ("commas", "path", "root", "shadow", "text")

    def __init__(self, text: str, path: str, *, strict: bool) -> None:
        self.text, self.path = text, path
        self.commas = self.shadow = text  # `commas`: only the comments blanked
        if not strict:
            self.commas = _without_comments(text)
            self.shadow = _without_trailing_commas(self.commas)
        try:
            self.root = _DECODER.decode(self.shadow)
        except _Constant as error:
            found = (m for m in _STRING_OR_CONSTANT.finditer(self.shadow) if m[0][0] != '"')
            raise self.refusal(next(found).start(), f"{error} is no value of JSON") from None
        except json.JSONDecodeError as error:
            raise self.refusal(*_explained(self.shadow, error, strict)) from None
        except RecursionError:
            raise Unparseable(path, "nested too deeply") from None
        except ValueError:
            raise Unparseable(path, "a number of more than 4,300 digits") from None

    def refusal(self, offset: int, reason: str) -> Unparseable:
        """Return the error for a place; lines and columns count from 1, columns in characters."""
        line, column = place(self.text, offset)
        return Unparseable(self.path, reason, line=line, column=column)

    def skip(self, offset: int) -> int:
        """Return the offset of the next token at or after `offset`."""
        found = _SPACE.match(self.commas, offset)
        assert found is not None
        return found.end()

    def end_of(self, start: int) -> int:
        """Return the end of the value that starts at `start`."""
        return int(_DECODER.raw_decode(self.shadow, start)[1])

    def box(self, opening: int) -> Box:
        """Return the table or list whose bracket is at `opening`."""
        is_table = self.shadow[opening] == "{"
        members: list[Member] = []
        offset = self.skip(opening + 1)
        while self.commas[offset] not in "}]":
            start = offset
            key: str | int = len(members)
            if is_table:
                key, offset = _scan_string(self.shadow, offset + 1, True)
                offset = self.skip(self.skip(offset) + 1)
            end = self.end_of(offset)
            after = self.skip(end)
            comma = after if self.commas[after] == "," else -1
            members.append(Member(key, start, offset, end, comma))
            offset = self.skip(after + 1) if comma >= 0 else after
        return Box(opening, offset, is_table, tuple(members))


def decoded(data: bytes, path: str) -> tuple[bytes, str]:
    """Return the byte order mark, empty if none, and the text. Unparseable if it is not UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unparseable(path, "it is UTF-16, not UTF-8", line=1, column=1)
    bom = BOM if data.startswith(BOM) else b""
    try:
        return bom, data[len(bom) :].decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[len(bom) : len(bom) + error.start].decode("utf-8")
        line, column = place(before, len(before))
        raise Unparseable(path, "it is not UTF-8", line=line, column=column) from None


def place(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of an offset, from 1."""
    starts = [0, *(match.end() for match in EOL.finditer(text, 0, offset))]
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


def _blank(text: str) -> str:
    return _NOT_EOL.sub(" ", text)


def _without_comments(text: str) -> str:
    if "//" not in text and "/*" not in text:
        return text
    return _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else _blank(m[0]), text)


def _without_trailing_commas(text: str) -> str:
    if not _TRAILING_COMMA.search(text):
        return text

    def blank(match: re.Match[str]) -> str:
        if match[0] != ",":
            return match[0]
        # After an opening bracket or another comma it is no trailing comma but a mistake.
        before = match.start() - 1
        while before >= 0 and text[before] in " \t\r\n":
            before -= 1
        return "," if before < 0 or text[before] in "{[,:" else " "

    return _STRING_OR_COMMA.sub(blank, text)


_REASONS_IN_TEXT = {
    "Unterminated string": "a text that is not closed",
    "Invalid control character": "a line break or control character inside a text",
    "Invalid \\": "a wrong escape in a text",
}
_REASONS = {
    "Expecting ':' delimiter": 'a ":" is missing after the key',
    "Expecting ',' delimiter": 'a "," or a closing bracket is missing',
    "Extra data": "something stands after the end",
}


def _explained(text: str, error: json.JSONDecodeError, strict: bool) -> tuple[int, str]:
    """Return offset and reason of a fault, in words for the person who wrote the file."""
    for known, reason in _REASONS_IN_TEXT.items():
        if error.msg.startswith(known):
            return error.pos, reason
    offset = min(error.pos, len(text))
    while offset < len(text) and text[offset] in " \t\r\n":
        offset += 1
    here = text[offset : offset + 2]
    before = text[:offset].rstrip(" \t\r\n")
    if here in ("//", "/*"):
        if strict:
            return offset, "a comment, which this file may not hold"
        return offset, "a comment that is not closed" if here == "/*" else "a stray comment"
    if here[:1] in ("}", "]") and before.endswith(","):
        return len(before) - 1, "a trailing comma, which this file may not hold" if strict else (
            "a comma with nothing before it"
        )
    if error.msg.startswith("Expecting value"):
        if here[:1] == "'":
            return offset, "a text must stand in double quotes"
        if not before:
            return offset, "a value is missing" if here else "it is empty"
        return offset, f'a value is missing after "{before[-1]}"'
    if error.msg.startswith("Expecting property name"):
        return offset, "a key in double quotes is missing"
    for known, reason in _REASONS.items():
        if error.msg.startswith(known):
            return offset, reason
    return offset, error.msg[:1].lower() + error.msg[1:]
