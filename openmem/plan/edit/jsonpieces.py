"""Where a member goes in and what goes out with it: the changes to a text, as pieces.

Invariant: taking out what was put in leaves the text of before. So an insertion adds one line
break (or one space) and one comma, and a removal takes exactly one of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from openmem.plan.edit.jsonscan import COMMENT, EOL, Box, Member, Scan
from openmem.plan.edit.jsonstyle import Style, line_indent, own_line_indent

_SAME_LINE = re.compile(r"(?:[ \t]*/\*.*?\*/)*(?:[ \t]*//[^\n\r]*)?", re.S)
_BLOCKS = re.compile(r"(?:[ \t]*/\*[^\n\r]*?\*/)*")
_REST_IS_FREE = re.compile(r"(?:[ \t]*/\*[^\n\r]*?\*/)*[ \t]*(?://[^\n\r]*)?(?=[\r\n]|\Z)")
Piece = tuple[int, int, str]  # from, to, the text that takes its place


def spliced(text: str, pieces: list[Piece], start: int, end: int) -> str:
    parts: list[str] = []
    for first, last, new in sorted(pieces):
        parts += [text[start:first], new]
        start = last
    return "".join([*parts, text[start:end]])


def first_piece(
    scan: Scan, box: Box, style: Style, inline: bool, rendered: Callable[[str], str]
) -> list[Piece]:
    """Put the first member between empty brackets, behind the comments that stand there."""
    text, start, end = scan.text, box.opening + 1, box.closing
    outer = line_indent(text, box.opening)
    indent = outer + style.unit
    comments = list(COMMENT.finditer(text, start, end))
    if not comments:
        if inline:
            return [(start, end, rendered(""))]
        return [(start, end, f"{style.eol}{indent}{rendered(indent)}{style.eol}{outer}")]
    last = comments[-1]
    if last[0].startswith("//") or EOL.search(text, start, end):
        found = own_line_indent(text, last.start())
        indent = indent if found is None else found
        return [(last.end(), last.end(), f"{style.eol}{indent}{rendered(indent)}")]
    return [(last.end(), last.end(), " " + rendered(indent))]


def piece_before(
    text: str, member: Member, style: Style, inline: bool, rendered: Callable[[str], str]
) -> list[Piece]:
    indent = own_line_indent(text, member.start)
    if inline or indent is None:
        return [(member.start, member.start, rendered("") + style.comma)]
    return [(member.start, member.start, f"{rendered(indent)},{style.eol}{indent}")]


def pieces_after(
    text: str, last: Member, style: Style, inline: bool, rendered: Callable[[str], str]
) -> list[Piece]:
    """Put a member behind the last one, behind the comments on its line."""
    has_comma = last.comma >= 0
    anchor = last.comma + 1 if has_comma else last.end
    indent = own_line_indent(text, last.start)
    if inline or indent is None:
        found = _BLOCKS.match(text, anchor)
        anchor = found.end() if found else anchor
        if has_comma:
            return [(anchor, anchor, style.comma[1:] + rendered("") + ",")]
        return [(anchor, anchor, style.comma + rendered(""))]
    found = _SAME_LINE.match(text, anchor)
    anchor = found.end() if found else anchor
    new = f"{style.eol}{indent}{rendered(indent)}"
    if has_comma:
        return [(anchor, anchor, new + ",")]
    if anchor == last.end:
        return [(anchor, anchor, "," + new)]
    return [(last.end, last.end, ","), (anchor, anchor, new)]


def removal(text: str, box: Box, number: int) -> list[Piece]:
    """Return the cuts that take out a member: itself, its line break, one comma."""
    member = box.members[number]
    previous = box.members[number - 1] if number else None
    following = box.members[number + 1] if number + 1 < len(box.members) else None
    base = previous.comma + 1 if previous else box.opening + 1
    comments = list(COMMENT.finditer(text, base, member.start))
    base = comments[-1].end() if comments else base
    behind_line_comment = bool(comments) and comments[-1][0].startswith("//")
    breaks = list(EOL.finditer(text, base, member.start))
    tail = member.comma + 1 if member.comma >= 0 else member.end
    rest_is_free = _REST_IS_FREE.match(text, tail) is not None
    start, stop = base, tail
    if breaks and (rest_is_free or not (following or behind_line_comment)):
        start = breaks[-1].start()
    elif breaks or (previous is None and following and not comments):
        start = member.start
        while stop < len(text) and text[stop] in " \t":
            stop += 1
    pieces: list[Piece] = [(start, member.end, "")]
    if member.comma >= 0:
        pieces.append((member.comma, stop, ""))
    elif stop > member.end:
        pieces.append((member.end, stop, ""))
    if following is None and member.comma < 0 and previous is not None:
        pieces.append((previous.comma, previous.comma + 1, ""))
    return pieces
