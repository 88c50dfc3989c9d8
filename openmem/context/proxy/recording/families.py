"""Which session a sub-agent's sub-agent belongs to: the one at the top, whatever its depth.

Idea: OpenCode names in each request the session that asks and the one directly above it. Whoever
starts a sub-agent has asked before, so the steps up are known when they are needed.
Invariant: headers come back as they were, but for the session above; an unknown step is the top.
Trap: headers are claims of a program on this machine: what is remembered is bounded, and a circle
leads nowhere. What a restart forgets, the plug-in still says (`x-openmem-session-id`).
Source: OpenCode 1.18.33, observed.
"""

from __future__ import annotations

from collections import OrderedDict

from openmem.context.proxy.recording.identity import CHILD_HEADERS, PARENT_HEADER

_KEPT = 4096


class Families:
    """Steps up from sessions to the ones that they work for; bounded."""

    def __init__(self) -> None:
        self._above: OrderedDict[str, str] = OrderedDict()

    def under_the_top(self, headers: dict[str, str]) -> dict[str, str]:
        """Return a request's headers with the topmost session named as the one above."""
        parent = headers.get(PARENT_HEADER, "")
        if not parent:
            return headers
        child = next((headers[name] for name in CHILD_HEADERS if headers.get(name)), "")
        if child and child != parent:
            self._above[child] = parent
            self._above.move_to_end(child)
            while len(self._above) > _KEPT:
                self._above.popitem(last=False)
        top = self._top_of(parent, child)
        return headers if top == parent else {**headers, PARENT_HEADER: top}

    def _top_of(self, parent: str, child: str) -> str:
        seen, top = {child}, parent
        while top not in seen:
            seen.add(top)
            above = self._above.get(top, "")
            if not above:
                return top
            self._above.move_to_end(top)  # in use, however long ago it asked itself
            top = above
        return parent
