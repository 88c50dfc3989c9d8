"""Untrusted JSON read field by field; an error names the file, the key and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from openmem.base.errors import InvalidConfig
from openmem.plan.action import Key


class Fields:
    """A decoded JSON table read key by key; InvalidConfig names file, key and expected kind."""

    def __init__(self, table: object, path: str, where: str = "") -> None:
        if not isinstance(table, dict):
            raise invalid(path, where or "the file", "a table")
        self.table: Mapping[str, object] = table
        self.path, self.where = path, where

    def text(self, key: str, default: str = "") -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str):
            raise invalid(self.path, self.where + key, "text")
        return value

    def number(self, key: str, default: int = 0) -> int:
        value = self.table.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid(self.path, self.where + key, "a whole number")
        return value

    def number_or_none(self, key: str) -> int | None:
        return None if self.table.get(key) is None else self.number(key)

    def text_or_none(self, key: str) -> str | None:
        return None if self.table.get(key) is None else self.text(key)

    def flag(self, key: str) -> bool:
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            raise invalid(self.path, self.where + key, "true or false")
        return value

    def items(self, key: str) -> list[object]:
        value = self.table.get(key, [])
        if not isinstance(value, list):
            raise invalid(self.path, self.where + key, "a list")
        return value

    def tables(self, key: str) -> list[Fields]:
        found = enumerate(self.items(key))
        return [Fields(item, self.path, f"{self.where}{key}[{i}].") for i, item in found]

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.items(key)
        if not all(isinstance(item, str) for item in items):
            raise invalid(self.path, self.where + key, "a list of texts")
        return tuple(cast("list[str]", items))

    def numbers(self, key: str) -> tuple[int, ...]:
        items = self.items(key)
        if not all(isinstance(item, int) for item in items):
            raise invalid(self.path, self.where + key, "a list of whole numbers")
        return tuple(cast("list[int]", items))

    def keys(self, key: str) -> tuple[Key, ...]:
        items = self.items(key)
        if not all(isinstance(item, str | int) for item in items):
            raise invalid(self.path, self.where + key, "a list of keys")
        return tuple(cast("list[Key]", items))

    def word(self, key: str, words: tuple[str, ...], default: str = "") -> str:
        value = self.text(key, default)
        if value not in words:
            raise invalid(self.path, self.where + key, "one of " + ", ".join(words))
        return value


def invalid(path: str, key: str, expected: str) -> InvalidConfig:
    return InvalidConfig(
        f"{path} is not a record of openmem: {key} should be {expected}.",
        hint="Put the file back from a backup, or move it away to go on without it.",
    )
