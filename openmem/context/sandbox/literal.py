"""The text that every match of a pattern must hold, so that SQLite can pass over other lines.

A plain search inside SQLite costs a sixth of handing each line to Python. The pattern's tree comes
from the standard library's own parser, which has no public name: without it there is no literal,
and the search is slower and the same.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable

_HALF = re.compile("[\ud800-\udfff]")


def needed_literal(pattern: re.Pattern[str]) -> str:
    """Return the longest run of plain characters that no match can lack, "" when there is none."""
    if pattern.flags & re.IGNORECASE:
        return ""
    try:
        parser = importlib.import_module("re._parser")
        tree = parser.parse(pattern.pattern, pattern.flags)
        runs = [""]
        _walk(tree, runs)
    except (ImportError, AttributeError, TypeError, ValueError):
        return ""  # another Python, another tree: only speed is lost
    # Half a surrogate pair stands in no stored text and cannot be handed to SQLite.
    return max((run for run in runs if run.isascii() or not _HALF.search(run)), key=len, default="")


def _walk(items: Iterable[tuple[object, object]], runs: list[str]) -> None:
    for operation, argument in items:
        name = str(operation)
        if name == "LITERAL" and isinstance(argument, int):
            runs[-1] += chr(argument)
        elif name == "SUBPATTERN" and isinstance(argument, tuple) and not any(argument[1:3]):
            _walk(argument[3], runs)  # a group is part of the sequence it stands in
        else:
            runs.append("")  # may be absent, or be many things: a match need not hold it
