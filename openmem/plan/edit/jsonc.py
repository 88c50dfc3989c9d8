"""JSON and JSONC edited by spans: what an edit does not mean, it does not touch.

Comments, order, indent, tabs, CRLF, byte order mark, trailing commas and a missing final newline
stay; a table on one line stays on one line. Invariant: `set` or `append` and then `remove` gives
back the bytes of before (with `blank` for brackets that were empty). Trap: a comma goes right
behind the value it ends, before a comment on that line, so two pieces of text change, not one.
"""

from __future__ import annotations

from typing import Self

from openmem.base.errors import NotFound, OpenmemError, Refused
from openmem.plan.action import Json, Key, Keys, same
from openmem.plan.edit.jsonscan import COMMENT, EOL, Box, Member, Scan, decoded
from openmem.plan.edit.jsonstyle import line_indent, own_line_indent, style_of
from openmem.plan.edit.pieces import (
    Piece,
    first_piece,
    piece_before,
    pieces_after,
    removal,
    spliced,
)
from openmem.plan.edit.values import lookup, named, updated, without


class JsonText:
    """A parsed JSON file; every edit gives a new one. `strict`: no comments, no trailing commas."""

    __slots__ = ("_bom", "_scan", "path", "strict")

    def __init__(self, bom: bytes, scan: Scan, *, strict: bool) -> None:
        self._bom, self._scan, self.path, self.strict = bom, scan, scan.path, strict

    @classmethod
    def parse(cls, data: bytes, path: str, *, strict: bool) -> Self:
        """Return the file. Unparseable names line and column of the first fault."""
        bom, text = decoded(data, path)
        return cls(bom, Scan(text, path, strict=strict), strict=strict)

    @property
    def data(self) -> bytes:
        return self._bom + self._scan.text.encode("utf-8")

    def has(self, keys: Keys) -> bool:
        """Return whether something stands at `keys`."""
        return lookup(self._scan.root, keys)[0]

    def value(self, keys: Keys = ()) -> Json:
        """Return the value at `keys`; of equal keys the last. NotFound when nothing is there."""
        found, value = lookup(self._scan.root, keys)
        if not found:
            raise NotFound(f"{self.path} has no {named(keys)}.")
        return value

    def text(self, keys: Keys) -> str:
        """Return the source text of the value at `keys`. NotFound when nothing is there."""
        member = self._walk(keys)[-1][1]
        if member is None:
            raise NotFound(f"{self.path} has no {named(keys)}.")
        return self._scan.text[member.value_start : member.end]

    def blank(self, keys: Keys) -> str:
        """Return what stands between the brackets at `keys` if that is white space only."""
        box = self._box(keys)
        inner = self._scan.text[box.opening + 1 : box.closing]
        return "" if inner.strip(" \t\r\n") else inner

    def set(self, keys: Keys, value: Json) -> Self:
        """Return it with `value` at `keys`; missing tables above are made.

        Itself when the value stands there already. Refused when a key on the way stands twice or
        something on the way is no table.
        """
        found, current = lookup(self._scan.root, keys)
        if found and same(current, value):
            self._walk(keys)
            return self
        path = self._walk(keys)
        box, member = path[-1]
        if member is not None:
            style = style_of(self._scan, box)
            old = self._scan.text[member.value_start : member.end]
            one_line = self._is_inline(path) or (old[0] in "{[" and _is_one_line_full(old))
            indent = line_indent(self._scan.text, member.start)
            text = style.inline(value) if one_line else style.block(value, indent)
            return self._with(
                [(member.value_start, member.end, text)], updated(self._scan.root, keys, value)
            )
        made = keys[len(path) :]
        for key in reversed(made):
            value = {_name(self.path, key): value}
        return self._inserted(path, keys[: len(path)], value)

    def set_text(self, keys: Keys, text: str, *, index: int = -1) -> Self:
        """Return it with the value that `text` is the source of; `index`: place of a new one."""
        value = Scan(text, self.path, strict=self.strict).root
        path = self._walk(keys)
        member = path[-1][1]
        if member is not None:
            piece = (member.value_start, member.end, text)
            return self._with([piece], updated(self._scan.root, keys, value))
        if len(path) < len(keys):
            return self.set(keys, value)
        return self._inserted(path, keys, value, raw=text, index=index)

    def append(self, keys: Keys, value: Json) -> Self:
        """Return it with `value` last in the list at `keys`; the list is made if missing."""
        if not self.has(keys):
            return self.set(keys, [value])
        box = self._box(keys)
        if box.is_table:
            raise self._wrong_kind(keys, box.opening, "a list")
        path = [*self._walk(keys), (box, None)]
        return self._inserted(path, (*keys, len(box.members)), value)

    def remove(self, keys: Keys, *, blank: str = "") -> Self:
        """Return it without what stands at `keys`; itself when nothing does.

        `blank`: white space for the brackets if they are empty then.
        """
        if not self.has(keys):
            return self
        box, member = self._walk(keys)[-1]
        assert member is not None
        pieces = removal(self._scan.text, box, box.members.index(member))
        if len(box.members) == 1:
            inner = spliced(self._scan.text, pieces, box.opening + 1, box.closing)
            if not inner.strip(" \t\r\n"):
                pieces = [(box.opening + 1, box.closing, blank)]
        return self._with(pieces, without(self._scan.root, keys))

    def _walk(self, keys: Keys) -> list[tuple[Box, Member | None]]:
        """Return the boxes on the way to `keys`, each with its member; the last may be None."""
        scan = self._scan
        path: list[tuple[Box, Member | None]] = []
        offset = scan.skip(0)
        for depth, key in enumerate(keys):
            if scan.shadow[offset] not in "{[" or (scan.shadow[offset] == "{") != isinstance(
                key, str
            ):
                kind = "an object" if isinstance(key, str) else "a list"
                raise self._wrong_kind(keys[:depth], offset, kind)
            box = scan.box(offset)
            found = [member for member in box.members if member.key == key]
            if len(found) > 1:
                line = scan.refusal(found[0].start, "").line
                raise scan.refusal(
                    found[1].start, f'the key "{key}" stands twice, first in line {line}'
                )
            path.append((box, found[0] if found else None))
            if not found:
                return path
            offset = found[0].value_start
        return path

    def _box(self, keys: Keys) -> Box:
        offset = self._scan.skip(0)
        if keys:
            member = self._walk(keys)[-1][1]
            if member is None:
                raise NotFound(f"{self.path} has no {named(keys)}.")
            offset = member.value_start
        if self._scan.shadow[offset] not in "{[":
            raise self._wrong_kind(keys, offset, "an object or a list")
        return self._scan.box(offset)

    def _wrong_kind(self, keys: Keys, offset: int, expected: str) -> Refused:
        error = self._scan.refusal(offset, "")
        return Refused(
            f"{self.path}: {named(keys)} (line {error.line}, column {error.column}) is not "
            f"{expected}. Nothing was written.",
            code="unexpected-kind",
        )

    def _is_inline(self, path: list[tuple[Box, Member | None]]) -> bool:
        """Return whether what goes into the last box goes on the line of its neighbours."""
        text = self._scan.text
        for box, _ in reversed(path):
            if box.members:
                return own_line_indent(text, box.members[-1].start) is None
            if EOL.search(text, box.opening, box.closing):
                return False
            if COMMENT.search(text, box.opening, box.closing):
                return True
        return False

    def _inserted(
        self,
        path: list[tuple[Box, Member | None]],
        keys: Keys,
        value: Json,
        *,
        raw: str = "",
        index: int = -1,
    ) -> Self:
        """Return it with a new member in the last box of `path`."""
        box, key = path[-1][0], keys[-1]
        style = style_of(self._scan, box)
        inline = self._is_inline(path)
        name = style.inline(key) + style.colon if isinstance(key, str) else ""

        def rendered(indent: str) -> str:
            return name + (raw or (style.inline(value) if inline else style.block(value, indent)))

        if not box.members:
            pieces = first_piece(self._scan.text, box, style, inline, rendered)
        elif 0 <= index < len(box.members):
            pieces = piece_before(self._scan.text, box.members[index], style, inline, rendered)
        else:
            index = len(box.members)
            pieces = pieces_after(self._scan.text, box.members[-1], style, inline, rendered)
        place = (*keys[:-1], max(index, 0)) if not box.is_table else keys
        return self._with(pieces, updated(self._scan.root, place, value, insert=True))

    def _with(self, pieces: list[Piece], intended: Json) -> Self:
        """Return the edited file, parsed again and compared with what was meant."""
        text = spliced(self._scan.text, pieces, 0, len(self._scan.text))
        new = self.parse(self._bom + text.encode("utf-8"), self.path, strict=self.strict)
        if new._scan.root != intended:
            raise OpenmemError(
                f"{self.path}: an edit of openmem came out other than meant. Nothing was written.",
                hint="This is a fault of openmem; please report it.",
                code="edit-mismatch",
            )
        return new


def _name(path: str, key: Key) -> str:
    if isinstance(key, str):
        return key
    raise NotFound(f"{path}: there is no list entry {key} to change.")


def _is_one_line_full(text: str) -> bool:
    return not EOL.search(text) and bool(text[1:-1].strip())
