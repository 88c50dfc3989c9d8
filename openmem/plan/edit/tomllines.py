"""Lines of a TOML file put in and cut out.

Invariant: each cut takes exactly what the matching insertion added: a table with the one blank
line before it, the only line above all headers with the one behind it, and in a file without a
final newline the line end before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from openmem.plan.edit.pieces import Piece
from openmem.plan.edit.tomlscan import Pair, Section, TomlScan

IMPLIED = "implied"  # said by `blank`: the table had no header of its own


def eol_of(text: str) -> str:
    """Return the file's line end, `\\n` when it has none."""
    found = re.search(r"\r?\n", text)
    return found[0] if found else "\n"


def with_block(scan: TomlScan, block: str, before: Sequence[Section] = ()) -> str:
    """Return the text with a table's lines at its end, or before the first of some sections."""
    text, eol = scan.text, eol_of(scan.text)
    if before:
        start = before[0].start
        return text[:start] + block + eol * 2 + text[start:]
    if not text:
        return block + eol
    if text.endswith("\n"):
        return text + eol + block + eol
    return text + eol * 2 + block


def with_line(text: str, place: int, line: str) -> str:
    """Return the text with a line behind the one that ends at `place`."""
    before, after = text[:place], text[place:]
    if before and not before.endswith("\n"):
        return before + eol_of(text) + line + after
    return before + line + eol_of(text) + after


def with_root_pair(scan: TomlScan, line: str) -> str:
    """Return the text with a line above all headers."""
    roots = [pair for pair in scan.pairs if pair.section < 0]
    if roots:
        return with_line(scan.text, roots[-1].end, line)
    if not scan.sections:
        return with_line(scan.text, len(scan.text), line)
    head = scan.text[: scan.sections[0].start]
    gaps = list(re.finditer(r"^[ \t]*\r?\n", head, re.M))
    place = gaps[-1].end() if gaps else 0
    return with_line(scan.text, place, line + eol_of(scan.text))


def cut_pair(scan: TomlScan, pair: Pair, blank: str) -> Piece:
    """Return the cut of one line; `blank` IMPLIED: its header goes too when it is the last."""
    in_section = [other for other in scan.pairs if other.section == pair.section]
    if blank == IMPLIED and len(in_section) == 1 and pair.section >= 0:
        section = scan.sections[pair.section]
        return cut(scan.text, section.start, section.end, is_block=True)
    if pair.section < 0 and len(in_section) == 1 and scan.sections:
        gap = re.compile(r"\r?\n").match(scan.text, pair.end)
        return (pair.start, gap.end() if gap else pair.end, "")
    return cut(scan.text, pair.start, pair.end)


def cut(text: str, start: int, end: int, *, is_block: bool = False) -> Piece:
    """Return the cut of whole lines; with a block goes the blank line before it."""
    if is_block:
        gap = re.search(r"(?:\A|\n)(\r?\n)\Z", text[:start])
        start = gap.start(1) if gap else start
    if end == len(text) and not text.endswith("\n"):
        gap = re.search(r"\r?\n\Z", text[:start])
        start = gap.start() if gap else start
    return (start, end, "")


def merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Return cuts that do not overlap: neighbours may share a blank line."""
    found: list[Piece] = []
    for start, end, text in sorted(pieces):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), text)
        else:
            found.append((start, end, text))
    return found
