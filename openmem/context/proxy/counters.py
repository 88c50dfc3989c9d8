"""Counts for `proxy status`: since the start, and faults of the current day. Never content."""

from __future__ import annotations

import time
from collections import Counter


class Counters:
    """What went through. `passed`: why requests were not recorded; faults are named by kind."""

    def __init__(self) -> None:
        self.requests = 0
        self.recorded = 0
        self.refused = 0
        self.passed: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._day = ""
        self._faults_today = 0

    def fault(self, kind: str) -> None:
        """Count a request that went on although something of ours failed."""
        self.faults[kind] += 1
        self._roll()
        self._faults_today += 1

    @property
    def faults_today(self) -> int:
        self._roll()
        return self._faults_today

    def _roll(self) -> None:
        day = time.strftime("%Y-%m-%d", time.gmtime())
        if day != self._day:
            self._day, self._faults_today = day, 0

    def as_dict(self) -> dict[str, object]:
        """Return the counts under the keys of `proxy status --json`."""
        return {
            "requests": self.requests,
            "recorded": self.recorded,
            "refused": self.refused,
            "passed_through": dict(self.passed),
            "denied_passed_through": self.passed["denied"],
            "fail_opens": dict(self.faults),
            "fail_opens_today": self.faults_today,
        }
