"""What the recorder answers to a request that waits: another body, a header, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass

# What a provider refused our form of a request for.
FOR_THINKING, FOR_CLEARING = "thinking", "clearing"
BINDING_BETA = "thinking-binding-controls-2026-08-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What goes instead of a request. `body`: None for the original bytes.

    `beta`: a header value to add to `anthropic-beta`, "" for none. `refusal`: the words with which
    the proxy answers by itself, "" to send. `is_odd`: the request holds what cannot be edited for
    certain, and goes as it came.
    """

    body: bytes | None = None
    beta: str = ""
    refusal: str = ""
    is_odd: bool = False
