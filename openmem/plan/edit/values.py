"""A decoded file as a value: what stands at a path, and the value an edit is meant to give.

Shared parts are not copied: an edited value shares with the old one all that is not on the way.
"""

from __future__ import annotations

from openmem.plan.action import Json, Keys


def named(keys: Keys) -> str:
    """Return a path of keys as a person writes it: `hooks.Stop[0]`; the whole file for none."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text or "the file as a whole"


def lookup(root: Json, keys: Keys) -> tuple[bool, Json]:
    value = root
    for key in keys:
        if isinstance(key, str):
            if not isinstance(value, dict) or key not in value:
                return False, None
            value = value[key]
        else:
            if not isinstance(value, list) or not 0 <= key < len(value):
                return False, None
            value = value[key]
    return True, value


def updated(root: Json, keys: Keys, value: Json, *, insert: bool = False) -> Json:
    """Return `root` with one value changed; shares everything that is not on the way."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(root, list) and isinstance(key, int):
        if insert and not rest:
            return [*root[:key], value, *root[key:]]
        return [*root[:key], updated(root[key], rest, value, insert=insert), *root[key + 1 :]]
    assert isinstance(root, dict) and isinstance(key, str)
    return {**root, key: updated(root.get(key), rest, value, insert=insert)}


def without(root: Json, keys: Keys) -> Json:
    key, rest = keys[0], keys[1:]
    if isinstance(root, list) and isinstance(key, int):
        middle = [without(root[key], rest)] if rest else []
        return [*root[:key], *middle, *root[key + 1 :]]
    assert isinstance(root, dict) and isinstance(key, str)
    if rest:
        return {**root, key: without(root[key], rest)}
    return {name: value for name, value in root.items() if name != key}
