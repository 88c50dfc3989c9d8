"""What a request is: the main conversation, a sub-agent's, or an errand of the agent itself.

Idea: agents say it in headers where they can; where they do not, an errand is known by what it asks
for, or by being without tools and about something else than the session.
Invariant: told towards "main": an errand stored as a conversation does no harm, a conversation left
out does.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from openmem.context.formats.view import RequestView
from openmem.context.proxy.recording import identity
from openmem.context.proxy.recording.about import About
from openmem.context.proxy.recording.codex_turn import codex_turn
from openmem.context.store.model import ThreadKind

_REMEMBERED_SESSIONS = 256
Head = Sequence[Mapping[str, Any]]
"""A request's first messages, decoded"""


class Kinds:
    """Tells requests apart; remembers how each session's main conversation begins. Thread-safe."""

    def __init__(self) -> None:
        self._roots: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, about: About, view: RequestView, sid: str, head: Head) -> ThreadKind:
        """Return what a request is."""
        if codex_turn(about.headers).errand:
            return "side"
        if identity.is_sub_agent(about.headers, view.system):
            return "sub-agent"
        if _is_errand(about, view, head):
            return "side"
        # Codex begins every conversation with the same words of its own.
        first = next((m for m in head if m.get("role") == "user"), head[0] if head else {})
        root = identity.message_digest(first)
        with self._lock:
            if view.has_tools:
                self._roots[sid] = root
                self._roots.move_to_end(sid)
                while len(self._roots) > _REMEMBERED_SESSIONS:
                    self._roots.popitem(last=False)
            # An agent that works with tools asks without them only on errands of its own, unless
            # the conversation is the one it has been having.
            elif self._roots.get(sid, root) != root:
                return "side"
        return "main"


def retells(about: About, view: RequestView, head: Head) -> bool:
    """Return whether a request only says over what is stored, as OpenCode's titles and summaries
    do; its rows would be found and counted twice."""
    if identity.is_retelling(has_tools=view.has_tools, system=view.system):
        return True
    return view.wire != "messages" and _is_errand(about, view, head)


def _is_errand(about: About, view: RequestView, head: Head) -> bool:
    return identity.is_side_request(
        has_tools=view.has_tools,
        max_tokens=view.max_tokens,
        system=view.system,
        messages=head,
        headers=about.headers,
    )
