"""The one format of time: UTC, seconds, `2026-11-30T17:00:00Z`, which sorts as text."""

from __future__ import annotations

import time

FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def utc_text(seconds: float) -> str:
    """Return the text of a POSIX time in seconds."""
    return time.strftime(FORMAT, time.gmtime(seconds))


def now_text() -> str:
    """Return the text of this moment."""
    return utc_text(time.time())


def seconds_of(text: str) -> float:
    """Return the POSIX time of a text in our format. ValueError on any other text."""
    import calendar

    return float(calendar.timegm(time.strptime(text, FORMAT)))
