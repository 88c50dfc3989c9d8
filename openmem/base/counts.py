"""Numbers, sizes and lists, as every sentence of ours says them."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 row`, `3 rows`. `plural`: where it is not the noun and an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(words: Iterable[str]) -> str:
    """Return `one`, `one and two`, `one, two and three`."""
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def size_text(size_bytes: int) -> str:
    """Return `812 B`, `14 kB`, `214 MB`, `1.2 GB`."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.1f} {unit}" if unit == "GB" else f"{size:.0f} {unit}"
        size /= 1000
    raise AssertionError
