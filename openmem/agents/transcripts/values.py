"""Small readings of untrusted JSON that all readers of transcripts share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_NAMES_KEPT = 2_000
_NAMES_SAVED = 300


def text(value: object) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def table(value: object) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def tables(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list."""
    return (item for item in items(value) if isinstance(item, dict))


def seconds(value: object) -> float:
    """Return the POSIX time of an ISO text or of a number (milliseconds, or seconds); else 0."""
    if isinstance(value, str) and value:
        try:
            return max(0.0, datetime.fromisoformat(value).timestamp())
        except (ValueError, OverflowError):
            return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = value / 1000 if value > 1e11 else float(value)
        return found if 0 < found < 1e11 else 0.0
    return 0.0


class ToolNames(OrderedDict[str, str]):
    """Call id → tool name, of the newest calls: a result comes soon after its call."""

    def __setitem__(self, key: str, value: str) -> None:
        super().__setitem__(key, value)
        if len(self) > _NAMES_KEPT:
            self.popitem(last=False)

    def saved(self) -> dict[str, str]:
        """Return the newest, to be written down beside a mark."""
        return dict(list(self.items())[-_NAMES_SAVED:])
