"""What the proxy remembers of a session's last call, so that most requests are not asked about.

Idea: the provider counted the last request; between it and the next lies text of known size. If
even the densest text would not reach the threshold, no trim can be due, and the request goes on
at once.
Invariant: a hint only ever says "no trim can be due"; without one, or with a trim behind it, the
recorder is asked.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass

LEAST_BYTES_PER_TOKEN = 1.2
_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """The last call of a session's lane. `size_bytes`: of its body, decoded; `tokens`: counted.

    `soft_tokens`: when a trim of this model is due. `has_cut`: the session has a trim behind it.
    """

    size_bytes: int
    tokens: int
    soft_tokens: int
    model: str
    has_cut: bool


class Hints:
    """The newest hint of each session and lane; bounded."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Hint] = OrderedDict()

    def note(self, sid: str, lane: str, hint: Hint) -> None:
        """Keep a hint in place of the one before."""
        self._known[(sid, lane)] = hint
        self._known.move_to_end((sid, lane))
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)

    def rules_out(self, sid: str, lane: str, size_bytes: int, head: bytes) -> bool:
        """Return whether no trim can be due. `head`: of the body, where clients name the model."""
        hint = self._known.get((sid, lane))
        if hint is None or hint.has_cut or not hint.tokens:
            return False
        if b'"model":' + json.dumps(hint.model).encode() not in head:
            return False  # another model may hold less
        added = max(0, size_bytes - hint.size_bytes) / LEAST_BYTES_PER_TOKEN
        return hint.tokens + added < hint.soft_tokens
