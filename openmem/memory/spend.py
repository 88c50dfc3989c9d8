"""What memory spends on models: a budget for each day, and a breaker that stops what only fails.

Idea: one small file, read and written under a lock around each call. Invariant: a call is made
only when the day's budget holds and the breaker is closed; what was spent is written down also when
the answer was useless. Trap: the tokens of a call are known afterwards, so it is booked at its
estimate first: a process that dies has spent it.
Standard library only.
"""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from openmem.base.clock import utc_text
from openmem.base.errors import Failed
from openmem.base.io import ensure_private_dir, locked, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths

FAILURES = 3
PAUSE_SECONDS = 900.0


class OverBudget(Failed):
    """The day's budget is spent, or calls fail so often that none is made for a while."""

    code = "over-budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What was spent on `day` (UTC). `failures`: in a row; `closed_until`: POSIX, 0 for open."""

    day: str = ""
    tokens: int = 0
    calls: int = 0
    failures: int = 0
    closed_until: float = 0.0


def spend_file(paths: Paths) -> str:
    return f"{paths.state_dir}/memory/spend.json"


def read_spend(paths: Paths, now: float) -> Spend:
    """Return what was spent today; nothing when the file cannot be read."""
    today = utc_text(now)[:10]
    try:
        value = json.loads(read_bytes_or_none(spend_file(paths)) or b"null")
        found = Spend(**value) if isinstance(value, dict) else Spend()
    except (ValueError, TypeError):
        found = Spend()  # damaged: the day starts again, the budget still bounds it
    if found.day != today:
        found = replace(found, day=today, tokens=0, calls=0)
    return found


class Budget:
    """The budget of one installation. `daily_tokens`: 0 allows none."""

    def __init__(self, paths: Paths, daily_tokens: int) -> None:
        self._paths, self._daily = paths, daily_tokens

    def book(self, estimate: int) -> None:
        """Book a call before it is made. OverBudget when it may not be made."""
        with self._locked():
            now = time.time()
            spend = read_spend(self._paths, now)
            if now < spend.closed_until:
                minutes = int((spend.closed_until - now) / 60) + 1
                raise OverBudget(
                    f"the model failed {spend.failures} times in a row; next try in {minutes} min.",
                    code="breaker-open",
                )
            if spend.tokens + estimate > self._daily:
                raise OverBudget(
                    f"{spend.tokens} of {self._daily} tokens are spent today and this takes about "
                    f"{estimate}.",
                    hint="More: openmem config set memory.daily_tokens N",
                )
            self._write(replace(spend, tokens=spend.tokens + estimate, calls=spend.calls + 1))

    def settle(self, estimate: int, used: int, *, failed: bool) -> None:
        """Put the true number in the place of the estimate, and note whether the call failed."""
        with self._locked():
            now = time.time()
            spend = read_spend(self._paths, now)
            failures = spend.failures + 1 if failed else 0
            self._write(
                replace(
                    spend,
                    tokens=max(0, spend.tokens - estimate + used),
                    failures=failures,
                    closed_until=now + PAUSE_SECONDS if failures >= FAILURES else 0.0,
                )
            )

    def _locked(self) -> AbstractContextManager[None]:
        ensure_private_dir(f"{self._paths.state_dir}/memory")
        return locked(f"{spend_file(self._paths)}.lock")

    def _write(self, spend: Spend) -> None:
        value = {name: getattr(spend, name) for name in Spend.__slots__}
        write_atomic(spend_file(self._paths), json.dumps(value).encode() + b"\n")
