"""What a split request is, whatever its wire format, and the careful reading of its JSON.

Idea: a request is its envelope decoded and its messages as raw bytes; equal bytes are equal
messages, so a resent history is compared, not read.
Invariant: nothing here guesses: what is not understood is raised as that.
Trap: the fast decoder refuses lone surrogates, numbers out of range and deep nesting, which real
agents send; the standard library's takes most of them, so it is the second try.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

RawMessage = msgspec.Raw | bytes
Wire = Literal["messages", "responses", "chat"]

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class NotUnderstood(ValueError):
    """The bytes are not a request of this format; the text says what is off, never content."""


class NotJson(NotUnderstood):
    """The bytes are no JSON object at all, so no provider takes them for a request either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """A request, split. `messages`: each element of its list as raw JSON; equal ones compare equal.

    `system`: texts of the system prompt in order, a string as one; where the format writes it as
    messages, the first `lead` of them hold it. `tools`: raw JSON, b"" when absent. `has_tools`:
    also when the tools are declared in another place. `user_id`: `metadata.user_id` as text, ""
    when absent. `max_tokens`: None when absent. `settings`: what else restarts a prompt cache.
    """

    wire: Wire
    body: bytes
    model: str
    stream: bool
    max_tokens: int | None
    system: tuple[str, ...]
    lead: int = 0
    tools: bytes
    has_tools: bool
    user_id: str
    prompt_cache_key: str
    messages: Sequence[RawMessage]
    settings: str = ""

    @property
    def list_key(self) -> str:
        """The name of the member that holds the messages."""
        return "input" if self.wire == "responses" else "messages"

    def ranges(self) -> list[tuple[int, int]]:
        """Return where each message stands in `body`, as (start, end).

        NotUnderstood when that cannot be told for certain.
        """
        raws = [bytes(raw) for raw in self.messages]
        if not raws:
            raise NotUnderstood("there is no message")
        start = self.body.find(raws[0])
        while start >= 0:
            ranges = _ranges_from(self.body, raws, start)
            if ranges and self._is_the_list(ranges):
                return ranges
            start = self.body.find(raws[0], start + 1)
        raise NotUnderstood("the place of the messages cannot be told")

    def _is_the_list(self, ranges: list[tuple[int, int]]) -> bool:
        """Return whether these are the top-level messages: without them, none are left."""
        emptied = self.body[: ranges[0][0]] + self.body[ranges[-1][1] :]
        try:
            left = _OBJECT.decode(emptied).get(self.list_key)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return False
        return left is not None and not bytes(left).strip(b"[] \t\r\n")


def _ranges_from(body: bytes, raws: list[bytes], start: int) -> list[tuple[int, int]]:
    """Return where the messages stand if the first one begins at `start`, [] if they do not."""
    ranges: list[tuple[int, int]] = []
    for number, raw in enumerate(raws):
        if number:
            start = _skip_space(body, start)
            if body[start : start + 1] != b",":
                return []
            start = _skip_space(body, start + 1)
        if not body.startswith(raw, start):
            return []
        ranges.append((start, start + len(raw)))
        start += len(raw)
    return ranges


def _skip_space(body: bytes, at: int) -> int:
    while body[at : at + 1] in (b" ", b"\t", b"\n", b"\r"):
        at += 1
    return at


def are_tools(raw: bytes) -> bool:
    """Return whether the raw JSON of a `tools` member declares any."""
    return raw.strip() not in (b"", b"[]", b"null")


def decoded_part(raw: msgspec.Raw) -> Any:
    """Return a member's value, None when it is absent. Raises what the fast decoder raises."""
    data = bytes(raw)
    return msgspec.json.decode(data) if data else None


def loads(data: bytes) -> Any:
    """Return JSON as the standard library reads it. NotUnderstood when it cannot, NotJson when it
    is none."""
    # Bytes that are no UTF-8 become lone surrogates, which are stored escaped: seen, not lost.
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise NotUnderstood("the body is nested too deeply") from None
    except ValueError as error:
        place = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise NotJson(f"the body is not JSON{place}") from None


def loaded_object(body: bytes) -> dict[str, Any]:
    """Return a whole request, read slowly. NotJson when it is no object, else NotUnderstood."""
    value = loads(body)
    if not isinstance(value, dict):
        raise NotJson("the body is not a JSON object")
    return value


def loaded_list(value: dict[str, Any], key: str) -> list[bytes]:
    """Return a list's elements as JSON of our own: not the sender's bytes, but deterministic."""
    found = value.get(key)
    if not isinstance(found, list):
        raise NotUnderstood(f"`{key}` is not a list")
    try:
        return [json.dumps(one).encode("ascii") for one in found]
    except RecursionError:
        raise NotUnderstood("the body is nested too deeply") from None


def dumped(value: Any) -> bytes:
    """Return a member that was read slowly as JSON again, b"" for None."""
    try:
        return b"" if value is None else json.dumps(value).encode("ascii")
    except RecursionError:
        raise NotUnderstood("the body is nested too deeply") from None


def text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def user_id_in(metadata: Any) -> str:
    """Return `metadata.user_id`, "" when there is none."""
    return text_or_empty(metadata.get("user_id")) if isinstance(metadata, dict) else ""


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts of a content: a string as one, else those of its blocks."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return ()
    return tuple(
        block["text"]
        for block in value
        if isinstance(block, dict) and isinstance(block.get("text"), str)
    )


def decode_message(raw: RawMessage) -> dict[str, Any]:
    """Return a message as decoded JSON. NotUnderstood when it is not an object."""
    data = bytes(raw)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        value = loads(data)
    if not isinstance(value, dict):
        raise NotUnderstood("a message is not a JSON object")
    return value
