"""The ways in which the model service fails, by name, in its own words.

Words matter: Claude Code chooses its repair by the text of a 400 (newest-models facts, 2.4). They
follow published documentation and captures; not verified against the live API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BINDING_BETA = "thinking-binding-controls-2026-08-01"
MISMATCH_HEADER = "anthropic-thinking-prefix-mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer that is an error. `headers`: beyond those of every answer."""

    status: int
    kind: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()

    def body(self, request_id: str) -> dict[str, Any]:
        return {
            "type": "error",
            "error": {"type": self.kind, "message": self.message},
            "request_id": request_id,
        }


def invalid(message: str, *headers: tuple[str, str]) -> Refusal:
    """Return a 400 `invalid_request_error`."""
    return Refusal(status=400, kind="invalid_request_error", message=message, headers=headers)


def bound_elsewhere(
    place: str, *, names_header: bool = True, first: str = "", with_header: bool = True
) -> Refusal:
    """Return the 400 of a thinking block whose conversation changed.

    `place`: `messages.N.content.M` · `names_header`: the request lacked the beta, so the text names
    it · `first`: first changed place, told at the end · `with_header`: the response header too.
    """
    text = (
        f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set "
        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    if names_header:
        text += f" That setting requires the `{BINDING_BETA}` value in the `anthropic-beta` header."
    if first:
        text += f" The conversation differs first at `{first}`."
    header = (MISMATCH_HEADER, f"block={place};kind=signature_mismatch")
    return invalid(text, *([header] if with_header else []))


def broken_signature(place: str) -> Refusal:
    """Return the 400 of a signature that is empty or not the service's own."""
    return invalid(f"{place}: Invalid `signature` in `thinking` block")


def refused_beta(value: str) -> Refusal:
    """Return the 400 of a route that does not know a beta."""
    return invalid(f"Unexpected value(s) `{value}` for the `anthropic-beta` header.")


def too_long(have: int, limit: int) -> Refusal:
    """Return the 400 of a prompt beyond the model's window."""
    return invalid(f"prompt is too long: {have} tokens > {limit} maximum")


_PLACE = "messages.1.content.0"
NAMED: dict[str, Refusal] = {
    "binding": bound_elsewhere(_PLACE),
    "binding-without-header": bound_elsewhere(_PLACE, names_header=False, with_header=False),
    "broken-signature": broken_signature(_PLACE),
    "system-must-precede": invalid(
        "messages.1: role 'system' must precede an assistant message or end the conversation"
    ),
    "system-must-follow": invalid("messages.1: role 'system' must follow a user message"),
    "beta": refused_beta("effort-2025-11-24"),
    "other-400": invalid("max_tokens: must be greater than thinking.budget_tokens"),
    "too-long": too_long(213_462, 200_000),
    "401": Refusal(status=401, kind="authentication_error", message="invalid x-api-key"),
    "413": Refusal(
        status=413, kind="request_too_large", message="Request exceeds the maximum size"
    ),
    "429": Refusal(
        status=429,
        kind="rate_limit_error",
        message="This request would exceed your rate limit",
        headers=(("retry-after", "1"),),
    ),
    "429-final": Refusal(
        status=429,
        kind="rate_limit_error",
        message="This request would exceed your rate limit",
        headers=(("x-should-retry", "false"),),
    ),
    "500": Refusal(status=500, kind="api_error", message="Internal server error"),
    "503": Refusal(status=503, kind="api_error", message="Service unavailable"),
    "503-later": Refusal(
        status=503,
        kind="api_error",
        message="Service unavailable",
        headers=(("retry-after", "1"),),
    ),
    "503-final": Refusal(
        status=503,
        kind="api_error",
        message="Service unavailable",
        headers=(("x-should-retry", "false"),),
    ),
    "529": Refusal(status=529, kind="overloaded_error", message="Overloaded"),
}
CONNECTION_FAULTS = ("no-answer", "cut-stream", "cut-in-event")
