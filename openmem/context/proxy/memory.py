"""Freed memory given back to the system.

The C library keeps what was freed for the next request of its size. A process that lives for weeks
and once saw a few requests of 3 MB would hold on to them for ever.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

LARGE_BYTES = 1 << 20


def _find() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None  # another C library, which needs no telling


_TRIM = _find()


def give_back() -> None:
    """Give freed memory back; takes a few milliseconds, not holding the interpreter."""
    if _TRIM is not None:
        _TRIM(0)
