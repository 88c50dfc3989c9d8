"""Which models check the prefix of their thinking, and whose thinking a model can read.

Source: newest-models facts, 1.1 (vendor's documentation, pages of which disagree in places; the
strict reading is taken). Not verified against the live API.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?!\d)")
_OLDER = re.compile(r"claude-(?:instant-|2|3)")

Version = tuple[int, int]


def parse(model: str) -> tuple[str, Version] | None:
    """Return (family, version) of a model id; family "older" for ids before 4, None if unknown."""
    if _OLDER.search(model):
        return "older", (3, 0)
    found = _NAME.search(model)
    return (found[1], (int(found[2]), int(found[3] or 0))) if found else None


def checks_prefix(model: str, age: str) -> bool:
    """Return whether a changed prefix is an error when the request leaves the behaviour unset.

    `age`: "new" for accounts created on or after 31 August 2026, else "old".
    """
    known = parse(model)
    if known is None:
        return True
    family, version = known
    if version < (5, 1):
        return False
    if (family, version) in (("fable", (5, 1)), ("opus", (5, 5))):
        return age == "new"
    return True


def knows_binding(model: str) -> bool:
    """Return whether a model's thinking is tied to its prefix at all."""
    known = parse(model)
    return known is None or known[1] >= (5, 1)


def can_read(reader: str, author: str) -> bool:
    """Return whether `reader` can use thinking that `author` wrote; if not, it is dropped."""
    mine, theirs = parse(reader), parse(author)
    if reader == author or (mine is not None and mine == theirs):
        return True
    if mine is None or theirs is None:
        return False
    if theirs == ("haiku", (5, 5)):
        return True
    if mine == ("haiku", (5, 5)):
        return False
    if theirs[0] in ("fable", "mythos"):
        return theirs[1] >= (5, 2) and mine[1] == theirs[1]
    if mine == ("fable", (5, 1)):
        return theirs[1] <= (5, 5)
    if mine == ("opus", (5, 5)):
        return theirs[1] <= (5, 0)
    return False
