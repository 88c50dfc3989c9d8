"""A marked block in a text file that is the person's: a shell profile, a note for an agent.

The block stands last, between two lines that name it, and only those lines and what is between
them are ours. Line ends are the file's; a missing final newline stays missing. A block that is
opened and not closed, or stands twice, is refused with its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from openmem.base.errors import NotFound, Refused
from openmem.plan.action import Json, Keys
from openmem.plan.edit.jsonscan import EOL, decoded

_MARK = re.compile(
    r"^[ \t]*\S+ (?P<arrows>>>>|<<<) (?P<name>[\w.-]+) (?P=arrows)(?: -->)?[ \t]*$",
    re.M,
)
"""The line before and after a block: `# >>> openmem >>>` and `# <<< openmem <<<`."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Offsets: of the opening line, of the lines between, of the closing line, and its end."""

    start: int
    body: int
    closing: int
    end: int


class BlockText:
    """A text file with named blocks. Keys: one, `"# openmem"`; the value is the block's lines.

    What stands before the name makes a line a comment: `#`, `//`, or `<!--` in Markdown.
    """

    __slots__ = ("_bom", "_text", "path")

    def __init__(self, bom: bytes, text: str, path: str) -> None:
        self._bom, self._text, self.path = bom, text, path

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        """Return the file. Unparseable when it is not UTF-8."""
        return cls(*decoded(data, path), path)

    @property
    def data(self) -> bytes:
        return self._bom + self._text.encode("utf-8")

    def has(self, keys: Keys) -> bool:
        return not keys or self._span(keys) is not None

    def value(self, keys: Keys = ()) -> Json:
        """Return the lines of a block, `\\n` between them; the whole text for no keys."""
        return EOL.sub("\n", self.text(keys)) if keys else self._text

    def text(self, keys: Keys) -> str:
        """Return the lines of a block as they stand, without the last line end."""
        span = self._span(keys)
        if span is None:
            raise NotFound(f"{self.path} has no block {keys[0]}.")
        body = self._text[span.body : span.closing]
        last = list(EOL.finditer(body))
        return body[: last[-1].start()] if last else body

    def blank(self, keys: Keys) -> str:
        return ""

    def set(self, keys: Keys, value: Json) -> Self:
        """Return it with a block that holds `value`, in place or at the end."""
        return self.set_text(keys, EOL.sub(self._eol(), str(value)))

    def set_text(self, keys: Keys, text: str, *, index: int = -1) -> Self:
        eol = self._eol()
        span = self._span(keys)
        body = text + eol if text else ""
        if span is not None:
            return self._with(self._text[: span.body] + body + self._text[span.closing :])
        first, last = _marks(keys)
        block = first + eol + body + last
        if not self._text:
            return self._with(block + eol)
        if self._text.endswith(("\n", "\r")):
            return self._with(self._text + block + eol)
        return self._with(self._text + eol + block)

    def append(self, keys: Keys, value: Json) -> Self:
        raise Refused(f"{self.path}: a block is no list.", code="unexpected-kind")

    def remove(self, keys: Keys, *, blank: str = "") -> Self:
        span = self._span(keys)
        if span is None:
            return self
        before, after = self._text[: span.start], self._text[span.end :]
        closing = EOL.match(after)
        if closing:
            return self._with(before + after[closing.end() :])
        # The file had no final newline: the one before the block is ours.
        opening = list(EOL.finditer(before))
        return self._with(before[: opening[-1].start()] if opening else before)

    def _with(self, text: str) -> Self:
        return type(self)(self._bom, text, self.path)

    def _eol(self) -> str:
        found = EOL.search(self._text)
        return found[0] if found else "\n"

    def _span(self, keys: Keys) -> _Span | None:
        name = str(keys[0]).rpartition(" ")[2]
        marks = [m for m in _MARK.finditer(self._lines()) if m["name"] == name]
        if not marks:
            return None
        arrows = [mark["arrows"] for mark in marks]
        if arrows != [">>>", "<<<"]:
            line = self._text.count("\n", 0, marks[0].start()) + 1
            raise Refused(
                f"{self.path}: the block {name} (line {line}) is not opened and closed once. "
                "Nothing was written.",
                hint="Take out its lines by hand, then run it again.",
                code="damaged-block",
            )
        opening, closing = marks
        found = EOL.match(self._text, opening.end())
        body = found.end() if found else opening.end()
        return _Span(opening.start(), body, closing.start(), closing.end())

    def _lines(self) -> str:
        """Return the text with CR as a space, so that `$` finds the end of a CRLF line."""
        return self._text.replace("\r\n", " \n").replace("\r", "\n")


def _marks(keys: Keys) -> tuple[str, str]:
    prefix, _, name = str(keys[0]).rpartition(" ")
    close = " -->" if prefix == "<!--" else ""
    return f"{prefix or '#'} >>> {name} >>>{close}", f"{prefix or '#'} <<< {name} <<<{close}"
