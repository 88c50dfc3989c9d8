"""A file of JSON records, read as a stream: one value a line, whatever became of the line.

Idea: agents append one JSON object a line, and are killed while they do. What stands there is read
as far as it can be: two objects on one line are two, a half object before a whole one is one and a
fault, and a fault hides nothing else.
Invariant: a last line that does not parse yet is left for the next time; one that parses is taken
although no line end follows it.
Trap: lines end at the byte `\\n` and nowhere else (JSON text may hold U+2028); the fast decoder
refuses lone surrogates and NUL, which real files hold, so the standard library's is the second try.
Source: users' reports 24, 26 and 27; openai/codex#24425, anthropics/claude-code#50347.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

LINE_LIMIT_BYTES = 128 << 20
"""A line longer than that is passed over, and said to be."""
DOCUMENT_LIMIT_BYTES = 100 << 20
"""A file that is one JSON document has to be read whole."""

_DECODER = msgspec.json.Decoder()
_SCAN = json.JSONDecoder(strict=False)
_BOM = b"\xef\xbb\xbf"
_PREFIX_CHARACTERS = 9  # of a record: `{"type":"`, `{"timesta`; enough to tell where one begins
_CUT = "a record that breaks off"


class Record(NamedTuple):
    """One value of a file. `line`: from 1; `start`, `end`: bytes of the line with its end.

    `problem`: what is wrong there instead of a value, "" for a value.
    """

    line: int
    start: int
    end: int
    value: Any = None
    problem: str = ""


def records(
    file: BinaryIO, offset: int = 0, line: int = 1, *, limit: int = LINE_LIMIT_BYTES
) -> Iterator[Record]:
    """Yield the values and the faults of a file from an offset on, in order. OSError.

    `line`: the number of the line that begins at `offset`. An unfinished last line is not yielded.
    """
    file.seek(offset)
    while data := file.readline(limit + 1):
        start = offset
        offset += len(data)
        if len(data) > limit and not data.endswith(b"\n"):
            offset += _pass_over(file)
            yield Record(line, start, offset, problem=f"a line of {(offset - start) >> 20} MB")
            line += 1
            continue
        data = data.removeprefix(_BOM)  # also of a later line: files are joined end to end
        if data and not data.isspace():
            values, problem = decoded(data)
            if not data.endswith(b"\n") and (problem or not values):
                return  # still being written
            del data  # a giant line need not be held while what it says is stored
            while values:
                yield Record(line, start, offset, value=values.pop(0))
            if problem:
                yield Record(line, start, offset, problem=problem)
        line += 1


def _pass_over(file: BinaryIO) -> int:
    size = 0
    while piece := file.readline(1 << 20):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def decoded(data: bytes) -> tuple[list[Any], str]:
    """Return the values of a line, and what is wrong with the rest of it, "" for nothing."""
    try:
        return [_DECODER.decode(data)], ""
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass  # the second try says what is wrong
    # Bytes that are no UTF-8 become lone surrogates, which are stored escaped: seen, not lost.
    text = data.decode("utf-8", "surrogateescape").strip(" \t\r\n\x00")
    values: list[Any] = []
    problem = ""
    at = 0
    while at < len(text):
        try:
            value, at = _SCAN.raw_decode(text, at)
            values.append(value)
        except RecursionError:
            return values, "a record nested too deeply"
        except ValueError:
            problem = _problem_of(text)
            at = _next_start(text, at)
            if at < 0:
                break
        while at < len(text) and text[at] in " \t\r\n\x00":
            at += 1
    return values, problem


def _problem_of(text: str) -> str:
    return _CUT if text.startswith("{") else "a line that is no JSON"


def _next_start(text: str, at: int) -> int:
    """Return where the next record of a line may begin: it begins as the broken one did; or -1."""
    prefix = text[at : at + _PREFIX_CHARACTERS]
    if len(prefix) < _PREFIX_CHARACTERS or not prefix.startswith("{"):
        return -1
    return text.find(prefix, at + 1)


def document(path: str, *, limit: int = DOCUMENT_LIMIT_BYTES) -> Any:
    """Return a file that is one JSON value. OSError; ValueError says what is wrong with it."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ValueError(f"a document of {size >> 20} MB")
        data = file.read()
    values, problem = decoded(data.removeprefix(_BOM))
    if problem or len(values) != 1:
        raise ValueError(problem or "not one JSON document")
    return values[0]
