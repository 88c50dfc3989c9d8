"""Numbers and times as they stand in files of others; what is no number or time counts as none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def count(values: Mapping[str, Any], name: str) -> int:
    """Return a count of tokens, 0 for anything that is none."""
    found = values.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def seconds(text: object) -> float:
    """Return POSIX seconds of a time in ISO form, 0.0 for anything else."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
