"""Agents' settings files, parsed as strictly as the agents parse them; nothing is written here."""

from __future__ import annotations

from openmem.base.errors import OpenmemError, Unparseable
from openmem.plan.action import Json, Keys
from openmem.plan.edit.jsonc import JsonText
from openmem.plan.system import System


def read_json(system: System, path: str, *, strict: bool = True) -> Json:
    """Return the value of a file, an empty table for one that is missing or blank.

    `strict`: without comments and trailing commas, as most agents want it.

    Unparseable with line and column for what an agent would drop as a whole, and for a file
    that holds no table. Refused for a dangling link, a folder, a file we may not read.
    """
    data = system.read(path)
    if data is None or not data.strip(b" \t\r\n"):
        return {}
    value = JsonText.parse(data, path, strict=strict).value()
    if not isinstance(value, dict):
        raise Unparseable(path, "an object is expected", line=1, column=1)
    return value


def read_or_none(system: System, path: str) -> Json:
    """Return the value of a file that is only looked at, None when it cannot be used."""
    try:
        return read_json(system, path)
    except OpenmemError:
        return None  # not ours to mend; what it would have said is unknown


def value_at(value: Json, keys: Keys) -> Json:
    """Return what stands at a place in tables, None when nothing does."""
    for key in keys:
        if not isinstance(value, dict) or not isinstance(key, str):
            return None
        value = value.get(key)
    return value


def text_at(value: Json, keys: Keys) -> str:
    """Return the text at a place, "" when there is none."""
    found = value_at(value, keys)
    return found if isinstance(found, str) else ""


def table_at(value: Json, keys: Keys) -> dict[str, Json]:
    """Return the table at a place, an empty one when there is none."""
    found = value_at(value, keys)
    return found if isinstance(found, dict) else {}


def list_at(value: Json, keys: Keys) -> list[Json]:
    """Return the list at a place, an empty one when there is none."""
    found = value_at(value, keys)
    return found if isinstance(found, list) else []
