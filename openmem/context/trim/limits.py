"""Windows and thresholds: what a model holds, and when a trim is due.

The window is of the model named in the outgoing request, corrected by what a refusal said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.context.trim.items import Item, is_side_request

UNKNOWN_WINDOW = 200_000
SOFT_CAP, SOFT_SHARE = 100_000, 0.5
HARD_CAP, HARD_SHARE = 160_000, 0.8
LEAST_GAIN_TOKENS = 2_000
STOP_SHARE = 0.95  # of a limit that the provider itself proved


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimSettings:
    """The person's settings. Zero for a threshold: the default rule.

    `fraction`: a trim goes down to this part of the soft threshold. `compress_tokens`: a tool
    result above it is compressed when a trim happens, 0 for never. `superseded`: a trim also leaves
    out bodies of kept calls that a later call made worthless. `clears_tool_uses`: also ask the
    provider to leave out old tool results by itself.
    """

    is_on: bool = True
    soft_tokens: int = 0
    hard_tokens: int = 0
    fraction: float = 0.3
    compress_tokens: int = 4_000
    keep_steps: int = 3
    superseded: bool = False
    clears_tool_uses: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether any request may have to be sent in another form."""
        return self.is_on or self.clears_tool_uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Tokens: `soft` at a real user turn, `hard` between rounds too, `target` to go down to."""

    window: int
    soft: int
    hard: int
    target: int
    proven: bool


def window_of(model: str, windows: Mapping[str, int], limit: int) -> int:
    """Return a model's window in tokens. `limit`: what the provider itself said, 0 for nothing.

    `windows`: longest prefix of the model's name wins; "[1m]" in the name is a million.
    """
    if limit > 0:
        return limit
    name = model.lower().rsplit("/", 1)[-1]
    if "[1m]" in name:
        return 1_000_000
    matching = [prefix for prefix in windows if name.startswith(prefix.lower())]
    return windows[max(matching, key=len)] if matching else UNKNOWN_WINDOW


def thresholds_of(window: int, max_tokens: int, settings: TrimSettings, proven: bool) -> Thresholds:
    """Return when to trim. `max_tokens`: the request's, of which a tenth of the window counts."""
    reserve = min(max(0, max_tokens), window // 10)
    soft = settings.soft_tokens or min(SOFT_CAP, int(window * SOFT_SHARE))
    hard = settings.hard_tokens or min(HARD_CAP, int((window - reserve) * HARD_SHARE))
    usable = int((window - reserve) * HARD_SHARE)
    hard = max(1, min(hard, usable))
    soft = max(1, min(soft, hard))
    return Thresholds(
        window=window,
        soft=soft,
        hard=hard,
        target=max(1, int(soft * settings.fraction)),
        proven=proven,
    )


def refusal_at(tokens: int, limits: Thresholds, items: Sequence[Item]) -> str:
    """Return the words of a refusal that the provider itself would give, "" to send.

    Only at a limit that the provider proved; in its own words, so that the agent compacts or tells
    its user. The agent's own request for a summary is never refused.
    """
    if not limits.proven or tokens < limits.window * STOP_SHARE or is_side_request(items):
        return ""
    return (
        f"prompt is too long: {tokens} tokens > {limits.window} maximum "
        "(openmem: nothing is left to trim; compact the session or begin another)"
    )


_TOO_LONG = (
    re.compile(r"(\d[\d,]{2,12})\s*tokens?\s*>\s*(\d[\d,]{2,12})"),
    re.compile(r"maximum context length is (\d[\d,]{2,12})"),
    re.compile(r"context (?:window|length)[^.]{0,40}?(\d[\d,]{3,12})"),
)


# Words that only a request which is too long for its model is refused with.
_OVERFLOW = re.compile(
    r"context_length_exceeded|(?:prompt|input) is too long|maximum context length"
    r"|exceed\w*[^.]{0,40}?context (?:window|length|size|limit)"
    r"|context (?:window|length|size|limit) (?:was |is )?exceeded",
    re.I,
)


def overflow_in(error_text: str) -> int | None:
    """Return the window that a refusal of a request which is too long names, 0 when it names none.

    None for any other refusal, whatever numbers it holds.
    """
    return limit_in(error_text) if _OVERFLOW.search(error_text) else None


def limit_in(error_text: str) -> int:
    """Return the window that a refusal names, 0 when it names none.

    "prompt is too long: 210000 tokens > 200000 maximum" names 200000.
    """
    for pattern in _TOO_LONG:
        match = pattern.search(error_text)
        if match:
            return int(match.group(match.lastindex or 1).replace(",", ""))
    return 0
