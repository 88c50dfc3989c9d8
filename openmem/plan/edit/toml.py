"""TOML edited through tomlkit, which keeps comments, order and spelling.

Trap: tomlkit writes new lines with LF also into a CRLF file. So a file whose line ends are all
CRLF is edited as LF and written back as CRLF; in a mixed one each old line keeps its own end.
"""

from __future__ import annotations

from typing import Any, Self

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError

from openmem.base.errors import NotFound, Refused, Unparseable
from openmem.plan.action import Json, Keys, same
from openmem.plan.edit.jsonc import named
from openmem.plan.edit.jsonscan import decoded


class TomlText:
    """A parsed TOML file; every edit gives a new one."""

    __slots__ = ("_bom", "_text", "path")

    def __init__(self, bom: bytes, text: str, path: str) -> None:
        self._bom, self._text, self.path = bom, text, path

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        """Return the file. Unparseable names line and column of the first fault."""
        bom, text = decoded(data, path)
        new = cls(bom, text, path)
        new._document()
        return new

    @property
    def data(self) -> bytes:
        return self._bom + self._text.encode("utf-8")

    def has(self, keys: Keys) -> bool:
        return _lookup(self._document().unwrap(), keys)[0]

    def value(self, keys: Keys = ()) -> Json:
        found, value = _lookup(self._document().unwrap(), keys)
        if not found:
            raise NotFound(f"{self.path} has no {named(keys)}.")
        return value  # type: ignore[no-any-return]

    def text(self, keys: Keys) -> str:
        return tomlkit.item(self.value(keys)).as_string()

    def blank(self, keys: Keys) -> str:
        return ""

    def set(self, keys: Keys, value: Json) -> Self:
        document = self._document()
        table: Any = document
        for key in keys[:-1]:
            if key not in table:
                table[key] = tomlkit.table(is_super_table=True)
            table = table[key]
        if keys[-1] in table and same(table[keys[-1]].unwrap(), value):
            return self
        table[keys[-1]] = value
        return self._with(document)

    def set_text(self, keys: Keys, text: str, *, index: int = -1) -> Self:
        return self.set(keys, tomlkit.parse("x = " + text).unwrap()["x"])

    def append(self, keys: Keys, value: Json) -> Self:
        document = self._document()
        table: Any = document
        for key in keys:
            table = table[key]
        table.append(value)
        return self._with(document)

    def remove(self, keys: Keys, *, blank: str = "") -> Self:
        document = self._document()
        table: Any = document
        for key in keys[:-1]:
            table = table[key]
        del table[keys[-1]]
        return self._with(document)

    def _document(self) -> tomlkit.TOMLDocument:
        try:
            return tomlkit.parse(self._text.replace("\r\n", "\n"))
        except ParseError as error:
            raise Unparseable(self.path, str(error), line=error.line, column=error.col) from None
        except TOMLKitError as error:
            raise Unparseable(self.path, str(error)) from None

    def _with(self, document: tomlkit.TOMLDocument) -> Self:
        text = tomlkit.dumps(document)
        if "\r\n" in self._text:
            text = text.replace("\n", "\r\n")
        try:
            return self.parse(self._bom + text.encode(), self.path)
        except Unparseable as error:
            raise Refused(error.message, code="edit-mismatch") from None


def _lookup(root: Any, keys: Keys) -> tuple[bool, Any]:
    value = root
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False, None
    return True, value
