"""Times as people and agents write them, in our one format.

A day is its first second, UTC. Sorts as text.
"""

from __future__ import annotations

from openmem.base.errors import Usage


def moment_of(text: str, name: str) -> str:
    """Return UTC text of a day, or of a time with or without offset; "" stays "". Usage.

    `name`: of the option or argument, for the message.
    """
    text = text.strip()
    if not text:
        return ""
    from datetime import UTC, datetime

    try:
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is None:
            parsed = parsed.replace(tzinfo=UTC)
        moment = parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Usage(
            f"{name} is {text[:40]!r}, expected a day or a time such as 2026-11-30 or "
            "2026-11-30T17:00:00Z."
        ) from None
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%SZ}"


def check_order(valid_from: str, valid_to: str) -> None:
    """Usage when something would end before it begins."""
    if valid_from and valid_to and valid_to <= valid_from:
        raise Usage(f"valid-to ({valid_to}) is not after valid-from ({valid_from}).")
