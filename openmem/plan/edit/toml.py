"""TOML edited by spans; values and keys are spelled by tomlkit.

Why not through tomlkit's own document: it keeps comments, but what it adds it cannot take away
without a trace (a blank line, a missing final newline), and into a CRLF file it writes LF. Here
an edit adds lines with the file's own ends and a removal takes the same lines. Invariant: `set`
or `append` and then `remove` gives back the bytes of before. Trap: a new table goes last, behind
one blank line that counts as its own; a table's source text begins with a line break, which tells
it from a value's.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Self

import tomlkit

from openmem.base.errors import NotFound, OpenmemError, Refused, Unparseable
from openmem.plan.action import Json, Keys, same
from openmem.plan.edit.jsonscan import EOL, Box, Member, decoded
from openmem.plan.edit.jsonstyle import Style, own_line_indent
from openmem.plan.edit.pieces import (
    Piece,
    Syntax,
    first_piece,
    piece_before,
    pieces_after,
    removal,
    spliced,
)
from openmem.plan.edit.tomllines import (
    IMPLIED,
    cut,
    cut_pair,
    eol_of,
    merged,
    with_block,
    with_line,
    with_root_pair,
)
from openmem.plan.edit.tomlscan import Pair, TomlScan
from openmem.plan.edit.values import lookup, named, updated, without

_TOML = Syntax(
    comment=re.compile(r"#[^\n\r]*"),
    same_line=re.compile(r"(?:[ \t]*#[^\n\r]*)?"),
    blocks=re.compile(r""),
    rest_is_free=re.compile(r"[ \t]*(?:#[^\n\r]*)?(?=[\r\n]|\Z)"),
    line_mark="#",
)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_Spot = tuple[int, int, list[tuple[Box, Member]], Pair]  # span of a value, the way to it


class TomlText:
    """A parsed TOML file; every edit gives a new one. Dates and times are read as text."""

    __slots__ = ("_bom", "_root", "_scan", "_text", "path")

    def __init__(self, bom: bytes, text: str, path: str, root: dict[str, Json]) -> None:
        self._bom, self._text, self.path, self._root = bom, text, path, root
        self._scan = TomlScan(text)

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        """Return the file. Unparseable names line and column of the first fault."""
        bom, text = decoded(data, path)
        try:
            root = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise _unparseable(path, text, str(error)) from None
        except RecursionError:
            raise Unparseable(path, "nested too deeply") from None
        return cls(bom, text, path, {key: _plain(value) for key, value in root.items()})

    @property
    def data(self) -> bytes:
        return self._bom + self._text.encode("utf-8")

    def has(self, keys: Keys) -> bool:
        """Return whether something stands at `keys`."""
        return lookup(self._root, keys)[0]

    def value(self, keys: Keys = ()) -> Json:
        """Return the value at `keys`. NotFound when nothing is there."""
        found, value = lookup(self._root, keys)
        if not found:
            raise NotFound(f"{self.path} has no {named(keys)}.")
        return value

    def text(self, keys: Keys) -> str:
        """Return the source text of a value, or a line break and the lines of a table."""
        spot = self._spot(keys)
        if spot:
            return self._text[spot[0] : spot[1]]
        start, end = self._region(keys)
        return "\n" + self._text[start:end]

    def blank(self, keys: Keys) -> str:
        """Return the white space between empty brackets; a word for a table without a header."""
        spot = self._spot(keys)
        if spot:
            inner = self._text[spot[0] + 1 : spot[1] - 1]
            return "" if inner.strip() else inner
        sections = [section.keys for section in self._scan.sections]
        under = any(_is_under(other, keys) for other in sections)
        return IMPLIED if keys and under and keys not in sections else ""

    def set(self, keys: Keys, value: Json) -> Self:
        """Return it with `value` at `keys`; missing tables above are made."""
        found, current = lookup(self._root, keys)
        if found and same(current, value):
            return self
        if found:
            spot = self._spot(keys)
            if spot:
                piece = (spot[0], spot[1], spelled(value))
            elif isinstance(value, dict):
                start, end = self._region(keys)
                piece = (start, end, self._block(keys, value, closed=self._text[:end][-1:] == "\n"))
            else:
                raise self._wrong_kind(keys, "a single value")
            return self._with([piece], updated(self._root, keys, value))
        return self._put(keys, value, spelled(value))

    def set_text(self, keys: Keys, text: str, *, index: int = -1) -> Self:
        """Return it with a value or table given as source text."""
        if not text.startswith("\n"):
            value = _plain(tomllib.loads(f"v = {text}")["v"])
            spot = self._spot(keys)
            if spot:
                piece = (spot[0], spot[1], text)
                return self._with([piece], updated(self._root, keys, value))
            return self._put(keys, value, text, index=index)
        lines = text[1:]
        value = _alone(tomllib.loads(lines), keys)
        if self.has(keys):
            start, end = self._region(keys)
            return self._with([(start, end, lines)], updated(self._root, keys, value))
        place = (*keys[:-1], index) if isinstance(keys[-1], int) and index >= 0 else keys
        later = [s for s in self._scan.sections if s.is_entry and s.keys == place]
        new = with_block(self._scan, lines.rstrip("\r\n"), later)
        if isinstance(keys[-1], int) and self.has(keys[:-1]):
            return self._with_text(new, updated(self._root, place, value, insert=True))
        if isinstance(keys[-1], int):
            keys, value = keys[:-1], [value]
        return self._with_text(new, _deepened(self._root, keys, value))

    def append(self, keys: Keys, value: Json) -> Self:
        """Return it with `value` last in the list at `keys`, which is made if missing."""
        is_table = isinstance(value, dict) and not any(isinstance(key, int) for key in keys)
        if not self.has(keys):
            if not is_table or self._holder(keys) is not None:
                return self.set(keys, [value])
            self._is_list_above(keys)
            return self._with_entry(keys, value, 0)
        entries = self.value(keys)
        if not isinstance(entries, list):
            raise self._wrong_kind(keys, "a list")
        spot = self._spot(keys)
        if spot is None:
            if not is_table:
                raise self._wrong_kind(keys, "a list of values")
            return self._with_entry(keys, value, len(entries))
        place = (*keys, len(entries))
        return self._into_box(self._scan.box(spot[0]), place, value, spelled(value))

    def remove(self, keys: Keys, *, blank: str = "") -> Self:
        """Return it without what stands at `keys`; `blank`: as `blank` gave it before."""
        if not self.has(keys):
            return self
        intended = without(self._root, keys)
        spot = self._spot(keys)
        if spot and spot[2]:
            box, member = spot[2][-1]
            pieces = removal(self._text, box, box.members.index(member), _TOML)
            if len(box.members) == 1:
                inner = spliced(self._text, pieces, box.opening + 1, box.closing)
                if not inner.strip():
                    pieces = [(box.opening + 1, box.closing, "" if blank == IMPLIED else blank)]
            return self._with(pieces, intended)
        pieces = [cut_pair(self._scan, pair, blank) for pair in self._pairs_of(keys)]
        pieces += [
            cut(self._text, section.start, section.end, is_block=True)
            for section in self._scan.sections
            if _is_under(section.keys, keys)
        ]
        return self._with(merged(pieces), intended, gone=keys)

    def _spot(self, keys: Keys) -> _Spot | None:
        """Return where a value stands; None for a table with lines of its own."""
        for pair in self._scan.pairs:
            if not _is_under(keys, pair.keys):
                continue
            offset, way = pair.value_start, list[tuple[Box, Member]]()
            for key in keys[len(pair.keys) :]:
                if self._text[offset] not in "[{":
                    return None
                box = self._scan.box(offset)
                found = [member for member in box.members if member.key == key]
                if not found:
                    return None
                way.append((box, found[0]))
                offset = found[0].value_start
            return offset, self._scan.end_of(offset), way, pair
        return None

    def _pairs_of(self, keys: Keys) -> list[Pair]:
        """Return the lines that make up what stands at `keys`, outside sections below it."""
        return [
            pair
            for pair in self._scan.pairs
            if _is_under(pair.keys, keys)
            and not (pair.section >= 0 and _is_under(self._above(pair), keys))
        ]

    def _above(self, pair: Pair) -> Keys:
        return self._scan.sections[pair.section].keys if pair.section >= 0 else ()

    def _region(self, keys: Keys) -> tuple[int, int]:
        """Return the lines of a table, if they stand together."""
        sections = self._scan.sections
        numbers = [n for n, section in enumerate(sections) if _is_under(section.keys, keys)]
        together = numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else False
        if not together or self._pairs_of(keys):
            raise self._wrong_kind(keys, "one table in one place")
        return sections[numbers[0]].start, sections[numbers[-1]].end

    def _wrong_kind(self, keys: Keys, expected: str) -> Refused:
        return Refused(
            f"{self.path}: {named(keys)} is not {expected}. Nothing was written.",
            code="unexpected-kind",
        )

    def _holder(self, keys: Keys) -> int | None:
        """Return how many of `keys` lead to the value in brackets that a new place falls into."""
        for count in range(len(keys) - 1, 0, -1):
            if self.has(keys[:count]):
                return count if self._spot(keys[:count]) else None
        return None

    def _is_list_above(self, keys: Keys) -> bool:
        """Return whether a missing place is a list's entry; Refused if nothing can hold it."""
        depth = max((n for n in range(len(keys)) if self.has(keys[:n])), default=0)
        above = self.value(keys[:depth])
        is_list = isinstance(above, list) and depth == len(keys) - 1
        if not isinstance(above, dict) and not (is_list and isinstance(keys[-1], int)):
            raise self._wrong_kind(keys[:depth], "a table")
        if any(isinstance(key, int) for key in keys[depth + is_list :]):
            raise NotFound(f"{self.path}: there is no {named(keys)} to change.")
        return is_list

    def _put(self, keys: Keys, value: Json, text: str, *, index: int = -1) -> Self:
        """Return it with a value at a place where nothing stands."""
        is_list = self._is_list_above(keys)
        holder = self._holder(keys)
        if holder is not None:
            spot = self._spot(keys[:holder])
            assert spot is not None
            inner, spelled = value, text
            for key in reversed(keys[holder + 1 :]):
                inner = {str(key): inner}
                spelled = "{" + f"{spelled_key(str(key))} = {spelled}" + "}"
            if self._text[spot[0]] not in "[{":
                raise self._wrong_kind(keys[:holder], "a table or list")
            box = self._scan.box(spot[0])
            if box.is_table != isinstance(keys[holder], str):
                raise self._wrong_kind(keys[:holder], "a list" if box.is_table else "a table")
            return self._into_box(box, keys[: holder + 1], inner, spelled, index=index)
        if is_list:
            raise self._wrong_kind(keys[:-1], "a list of values")
        intended = _deepened(self._root, keys, value)
        in_entry = any(isinstance(key, int) for key in keys)
        dotted = [pair for pair in self._pairs_of(keys[:-1]) if len(keys) > 1]
        if isinstance(value, dict) and not in_entry and not dotted:
            return self._with_text(with_block(self._scan, self._block(keys, value)), intended)
        sections = self._scan.sections
        number = next((n for n, s in enumerate(sections) if s.keys == keys[:-1]), None)
        if len(keys) == 1:
            return self._with_text(
                with_root_pair(self._scan, f"{spelled_key(str(keys[0]))} = {text}"), intended
            )
        if number is not None:
            line = f"{spelled_key(str(keys[-1]))} = {text}"
            return self._with_text(with_line(self._text, sections[number].end, line), intended)
        if dotted:
            names = keys[len(self._above(dotted[-1])) :]
            line = ".".join(spelled_key(str(name)) for name in names) + f" = {text}"
            return self._with_text(with_line(self._text, dotted[-1].end, line), intended)
        if in_entry:
            raise self._wrong_kind(keys[:-1], "a table with a header")
        line = f"{spelled_key(str(keys[-1]))} = {text}"
        block = self._block(keys[:-1], {}) + eol_of(self._text) + line
        return self._with_text(with_block(self._scan, block), intended)

    def _into_box(self, box: Box, keys: Keys, value: Json, text: str, *, index: int = -1) -> Self:
        """Return it with a member in a list or inline table."""
        member = f"{spelled_key(str(keys[-1]))} = {text}" if box.is_table else text
        style = Style(eol_of(self._text), "  ", " = ", ", ")

        def rendered(indent: str) -> str:
            return member

        count = len(box.members)
        if not box.members:
            inline = not EOL.search(self._text, box.opening, box.closing)
            pieces = first_piece(self._text, box, style, inline, rendered, _TOML)
        else:
            inline = own_line_indent(self._text, box.members[-1].start) is None
            if 0 <= index < count:
                count = index
                pieces = piece_before(self._text, box.members[index], style, inline, rendered)
            else:
                pieces = pieces_after(self._text, box.members[-1], style, inline, rendered, _TOML)
        place = keys if box.is_table else (*keys[:-1], count)
        return self._with(pieces, updated(self._root, place, value, insert=True))

    def _with_entry(self, keys: Keys, value: Json, number: int) -> Self:
        assert isinstance(value, dict)
        text = with_block(self._scan, self._block(keys, value, is_entry=True))
        if number:
            return self._with_text(text, updated(self._root, (*keys, number), value, insert=True))
        return self._with_text(text, _deepened(self._root, keys, [value]))

    def _block(
        self, keys: Keys, value: dict[str, Json], *, is_entry: bool = False, closed: bool = False
    ) -> str:
        """Return the lines of a table; `closed`: with the last line's end."""
        name = ".".join(spelled_key(str(key)) for key in keys if isinstance(key, str))
        is_entry = is_entry or isinstance(keys[-1], int)
        lines = [f"[[{name}]]" if is_entry else f"[{name}]"]
        lines += [f"{spelled_key(key)} = {spelled(item)}" for key, item in value.items()]
        return eol_of(self._text).join(lines) + (eol_of(self._text) if closed else "")

    def _with(self, pieces: list[Piece], intended: Json, gone: Keys = ()) -> Self:
        return self._with_text(spliced(self._text, pieces, 0, len(self._text)), intended, gone)

    def _with_text(self, text: str, intended: Json, gone: Keys = ()) -> Self:
        """Return the edited file, parsed again and compared with what was meant.

        `gone`: what was removed; a table or list without lines of its own goes with its last part.
        """
        try:
            new = self.parse(self._bom + text.encode("utf-8"), self.path)
        except Unparseable as error:
            raise self._mismatch() from error
        for depth in range(len(gone) - 1, 0, -1):
            if lookup(intended, gone[:depth])[1] or new.has(gone[:depth]):
                break
            intended = without(intended, gone[:depth])
        if not same(new._root, intended):
            raise self._mismatch()
        return new

    def _mismatch(self) -> OpenmemError:
        return OpenmemError(
            f"{self.path}: an edit of openmem came out other than meant. Nothing was written.",
            hint="This is a fault of openmem; please report it.",
            code="edit-mismatch",
        )


def _is_under(keys: Keys, above: Keys) -> bool:
    return keys[: len(above)] == above


def _deepened(root: Json, keys: Keys, value: Json) -> Json:
    """Return `root` with a value at a place whose tables may be missing."""
    key, rest = keys[0], keys[1:]
    if not rest:
        return updated(root, (key,), value)
    if isinstance(root, list) and isinstance(key, int):
        return updated(root, (key,), _deepened(root[key], rest, value))
    assert isinstance(root, dict) and isinstance(key, str)
    return {**root, key: _deepened(root.get(key, {}), rest, value)}


def _alone(root: Any, keys: Keys) -> Json:
    """Return the value of a table that stands alone in a text of its own."""
    for key in keys:
        if isinstance(key, str):
            root = root[key]
        else:
            root = root[0]
    return _plain(root)


def _plain(value: Any) -> Json:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value.isoformat())


def spelled(value: Json) -> str:
    """Return a value on one line, as tomlkit spells it. Refused for null, which TOML lacks."""
    if value is None:
        raise Refused("TOML has no word for nothing; leave the key out.", code="unexpected-kind")
    if isinstance(value, dict):
        pairs = ", ".join(f"{spelled_key(key)} = {spelled(item)}" for key, item in value.items())
        return "{" + pairs + "}"
    if isinstance(value, list):
        return "[" + ", ".join(spelled(item) for item in value) + "]"
    return tomlkit.item(value).as_string()


def spelled_key(name: str) -> str:
    """Return a key, in quotes when it needs them."""
    if re.fullmatch(r"[A-Za-z0-9_-]+", name):
        return name
    return tomlkit.item(name).as_string()


def _unparseable(path: str, text: str, said: str) -> Unparseable:
    found = _PLACE.search(said)
    reason = said[: found.start()] if found else said
    reason = reason[:1].lower() + reason[1:]
    if found and found[1]:
        return Unparseable(path, reason, line=int(found[1]), column=int(found[2]))
    lines = text.split("\n")
    return Unparseable(path, reason, line=len(lines), column=len(lines[-1]) + 1)
