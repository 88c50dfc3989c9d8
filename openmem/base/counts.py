"""A number with its noun, as every sentence of ours says it."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 row`, `3 rows`. `plural`: where it is not the noun and an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
