"""The wire formats by name and by path, as rows are read from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openmem.context.formats import chat, messages, responses
from openmem.context.formats.view import RawMessage, RequestView, Wire
from openmem.context.rows import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFormat:
    """One model API's way to write a conversation, read as rows.

    `split`: body → view; NotUnderstood when it is no request. `opening`: the first messages in
    the Messages' form, for telling whose they are. `blocks`: of one element, with the names of
    tools by call id. `reply_blocks`: of what a response brought, as its reader gives it.
    `looks_back`: elements that may stand between a call and its result.
    """

    split: Callable[[bytes], RequestView]
    opening: Callable[[RequestView], list[dict[str, Any]]]
    blocks: Callable[[RawMessage, dict[str, str] | None], list[Block]]
    reply_blocks: Callable[[Sequence[Mapping[str, Any]]], list[Block]]
    looks_back: int


FORMATS: Mapping[Wire, RowFormat] = {
    "messages": RowFormat(
        split=messages.split_request,
        opening=messages.opening_of,
        blocks=messages.blocks_of,
        reply_blocks=messages.blocks_of_response,
        looks_back=3,
    ),
    "responses": RowFormat(
        split=responses.split_request,
        opening=responses.opening_of,
        blocks=responses.blocks_of,
        reply_blocks=responses.blocks_of_response,
        looks_back=32,
    ),
    "chat": RowFormat(
        split=chat.split_request,
        opening=chat.opening_of,
        blocks=chat.blocks_of,
        reply_blocks=chat.blocks_of_response,
        looks_back=16,
    ),
}

_PATHS: tuple[tuple[bytes, Wire], ...] = (
    (b"/messages", "messages"),
    (b"/responses", "responses"),
    (b"/chat/completions", "chat"),
)


def wire_of(path: bytes) -> Wire | None:
    """Return the format of requests to a path, None for a path that is not recorded."""
    return next((wire for end, wire in _PATHS if path.endswith(end)), None)
