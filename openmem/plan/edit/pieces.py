"""Where a member goes in and what goes out with it: the changes to a text, as pieces.

Invariant: taking out what was put in leaves the text of before. So an insertion adds one line
break (or one space) and one comma, and a removal takes exactly one of each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from openmem.plan.edit.jsonscan import COMMENT, EOL, Box, Member
from openmem.plan.edit.jsonstyle import Style, line_indent, own_line_indent


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a format writes comments. `same_line`: those behind a value, up to the line's end.

    `blocks`: those on one line that something may follow. `rest_is_free`: matches where nothing
    but comments follows on the line. `line_mark`: begins a comment that ends with its line.
    """

    comment: re.Pattern[str]
    same_line: re.Pattern[str]
    blocks: re.Pattern[str]
    rest_is_free: re.Pattern[str]
    line_mark: str


# A lazy repeat could run over the end of one comment into the next, so none ends in one.
JSONC = Syntax(
    comment=COMMENT,
    same_line=re.compile(r"(?:[ \t]*/\*(?:(?!\*/).)*\*/)*(?:[ \t]*//[^\n\r]*)?", re.S),
    blocks=re.compile(r"(?:[ \t]*/\*(?:(?!\*/)[^\n\r])*\*/)*"),
    rest_is_free=re.compile(
        r"(?:[ \t]*/\*(?:(?!\*/)[^\n\r])*\*/)*[ \t]*(?://[^\n\r]*)?(?=[\r\n]|\Z)"
    ),
    line_mark="//",
)
Piece = tuple[int, int, str]  # from, to, the text that takes its place


def spliced(text: str, pieces: list[Piece], start: int, end: int) -> str:
    parts: list[str] = []
    for first, last, new in sorted(pieces):
        parts += [text[start:first], new]
        start = last
    return "".join([*parts, text[start:end]])


def first_piece(
    text: str,
    box: Box,
    style: Style,
    inline: bool,
    rendered: Callable[[str], str],
    syntax: Syntax = JSONC,
) -> list[Piece]:
    """Put the first member between empty brackets, behind the comments that stand there."""
    start, end = box.opening + 1, box.closing
    outer = line_indent(text, box.opening)
    indent = outer + style.unit
    comments = list(syntax.comment.finditer(text, start, end))
    if not comments:
        if inline:
            return [(start, end, rendered(""))]
        return [(start, end, f"{style.eol}{indent}{rendered(indent)}{style.eol}{outer}")]
    last = comments[-1]
    if last[0].startswith(syntax.line_mark) or EOL.search(text, start, end):
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
    text: str,
    last: Member,
    style: Style,
    inline: bool,
    rendered: Callable[[str], str],
    syntax: Syntax = JSONC,
) -> list[Piece]:
    """Put a member behind the last one, behind the comments on its line."""
    has_comma = last.comma >= 0
    anchor = last.comma + 1 if has_comma else last.end
    indent = own_line_indent(text, last.start)
    if inline or indent is None:
        found = syntax.blocks.match(text, anchor)
        anchor = found.end() if found else anchor
        if has_comma:
            return [(anchor, anchor, style.comma[1:] + rendered("") + ",")]
        return [(anchor, anchor, style.comma + rendered(""))]
    found = syntax.same_line.match(text, anchor)
    anchor = found.end() if found else anchor
    new = f"{style.eol}{indent}{rendered(indent)}"
    if has_comma:
        return [(anchor, anchor, new + ",")]
    if anchor == last.end:
        return [(anchor, anchor, "," + new)]
    return [(last.end, last.end, ","), (anchor, anchor, new)]


def removal(text: str, box: Box, number: int, syntax: Syntax = JSONC) -> list[Piece]:
    """Return the cuts that take out a member: itself, its line break, one comma."""
    member = box.members[number]
    previous = box.members[number - 1] if number else None
    following = box.members[number + 1] if number + 1 < len(box.members) else None
    base = previous.comma + 1 if previous else box.opening + 1
    comments = list(syntax.comment.finditer(text, base, member.start))
    base = comments[-1].end() if comments else base
    behind_line_comment = bool(comments) and comments[-1][0].startswith(syntax.line_mark)
    breaks = list(EOL.finditer(text, base, member.start))
    tail = member.comma + 1 if member.comma >= 0 else member.end
    rest_is_free = syntax.rest_is_free.match(text, tail) is not None
    if behind_line_comment and text[member.end : max(member.comma, member.end)].strip():
        rest_is_free = False  # a comment before our comma would be drawn onto the other's line
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
