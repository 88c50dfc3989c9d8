"""What a trim and a provider's own clearing leave in a session's events.

Source: docs/reference/context-store.md, "Events".
"""

from __future__ import annotations

from openmem.context.proxy.recording.reply import Reply
from openmem.context.store.model import Event, Recorded
from openmem.context.trim.trimmer import View


def trim_event(view: View, recorded: Recorded, model: str, version: str) -> Event:
    """Return the event of a view that was cut anew; sizes in tokens, as estimated."""
    return Event(
        kind="trim",
        version=version,
        tokens_before=view.tokens_before,
        tokens_after=view.tokens_after,
        dropped=len(view.gone),
        model=model,
        thread_root=recorded.thread or None,
        bust=None,
        error=view.cause,
    )


def clearing_event(reply: Reply, recorded: Recorded, model: str, version: str) -> Event:
    """Return the event of what the provider cleared by itself; sizes in tokens, as it said."""
    tokens = reply.usage.prompt_tokens
    return Event(
        kind="clearing",
        version=version,
        model=model,
        thread_root=recorded.thread or None,
        tokens_before=tokens + reply.cleared.tokens,
        tokens_after=tokens,
        dropped=reply.cleared.uses,
    )
