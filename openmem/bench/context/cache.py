"""A simulation of a provider's prompt cache over the pieces of a prompt.

Source: the vendor's caching rules as in the newest-models facts, 1.6: the prompt is hashed from
the front; an entry is written at each breakpoint; a breakpoint finds the entries at itself and at
up to 20 pieces before it; an entry lives five minutes, and reading renews it. What is smaller than
512 tokens is not kept. Not verified against the live service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LOOKBACK = 20
LEAST_TOKENS = 512
TTL_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One block of a prompt. `digest`: of it and of all before it. `is_marked`: a breakpoint."""

    digest: int
    tokens: int
    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a prompt cost, in tokens; their sum is the prompt."""

    read: int
    written: int
    uncached: int

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.uncached


class PromptCache:
    """The entries of one account."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}

    def serve(self, pieces: Sequence[Piece], now: float) -> Used:
        """Return what a prompt reads and writes, and keep what it writes. `now`: seconds."""
        total = sum(piece.tokens for piece in pieces)
        marks = [number for number, piece in enumerate(pieces) if piece.is_marked]
        if not marks:
            return Used(read=0, written=0, uncached=total)
        hit = max((self._found(pieces, mark, now) for mark in marks), default=-1)
        sums, running = [], 0
        for piece in pieces:
            running += piece.tokens
            sums.append(running)
        read = sums[hit] if hit >= 0 else 0
        written = 0
        for mark in (mark for mark in marks if sums[mark] >= LEAST_TOKENS):
            written = max(written, sums[mark] - read)
            self._until[pieces[mark].digest] = now + TTL_SECONDS
        if hit >= 0:
            self._until[pieces[hit].digest] = now + TTL_SECONDS
        return Used(read=read, written=written, uncached=total - read - written)

    def _found(self, pieces: Sequence[Piece], mark: int, now: float) -> int:
        """Return the last piece at or shortly before a mark at which an entry ends, -1 for none."""
        for number in range(mark, max(-1, mark - LOOKBACK - 1), -1):
            if self._until.get(pieces[number].digest, -1.0) >= now:
                return number
        return -1
