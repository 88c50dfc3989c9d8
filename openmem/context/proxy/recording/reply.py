"""What a model answered, read from a copy of the response: usage and content blocks.

Idea: the same bytes that go to the client are fed here, whole or as a stream, in any encoding.
Invariant: nothing here can fail the request; what cannot be read ends in a note.
Trap: a stream may break off; what was begun and not ended does not count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from openmem.context.formats.view import Wire
from openmem.context.proxy.encodings import Decoder, TooLarge, Undecodable
from openmem.context.proxy.recording.reply_forms import FORMS
from openmem.context.proxy.recording.sse import EventReader, TooLong
from openmem.context.proxy.recording.usage import Usage
from openmem.context.trim.clearing import NOTHING_CLEARED, Cleared
from openmem.context.trim.limits import overflow_in

_LIMIT_BYTES = 32 * 1024 * 1024
_WORDS_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response as far as it was read.

    `blocks`: whole pieces in order, in the API's JSON form: content blocks, output items, or the
    one message of a chat. `is_complete`: the message
    came to its end. `note`: why it is not complete, "" otherwise; never content. `overflow`: the
    request was too long for the model, told by a 400 or inside a stream (`limits.overflow_in`).
    `cleared`: what the provider left out of the prompt.
    """

    status: int
    usage: Usage
    blocks: list[dict[str, Any]]
    is_complete: bool
    note: str = ""
    overflow: int | None = None
    cleared: Cleared = NOTHING_CLEARED


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        # Lone surrogates and huge numbers are refused by the fast reader only.
        return json.loads(data)


class ReplyReader:
    """Feed a response's bytes; `finish` gives what was read."""

    def __init__(
        self, *, status: int, content_type: str, encoding: str, wire: Wire = "messages"
    ) -> None:
        self._status = status
        self._form = FORMS[wire]()
        self._whole: list[bytes] = []
        self._words = b""
        self._note = ""
        self._events = EventReader() if "text/event-stream" in content_type.lower() else None
        self._decoder: Decoder | None = None
        try:
            self._decoder = Decoder(encoding, _LIMIT_BYTES)
        except Undecodable:
            self._note = "encoding"

    def feed(self, data: bytes) -> None:
        """Take the next bytes as they came over the wire."""
        if self._decoder is None or not (200 <= self._status < 300 or self._status == 400):
            return
        try:
            for piece in self._decoder.feed(data):
                if self._status == 400:
                    self._words = (self._words + piece)[:_WORDS_BYTES]
                else:
                    self._take(piece)
        except (TooLarge, TooLong):
            self._give_up("too-large")
        except (Undecodable, ValueError, RecursionError):
            # ValueError: an event that is not JSON. The client reads the same bytes and decides.
            self._give_up("not-understood")

    def _give_up(self, note: str) -> None:
        self._note, self._decoder, self._whole = note, None, []

    def _take(self, piece: bytes) -> None:
        if self._events is None:
            self._whole.append(piece)
            return
        for _, data in self._events.feed(piece):
            event = _decoded(data) if data.startswith(b"{") else None
            if isinstance(event, dict):
                self._form.event(event)

    def finish(self, reason: str) -> Reply:
        """Return what was read. `reason`: "complete", or why the response ended early."""
        form = self._form
        if self._events is None and self._whole and reason == "complete" and not self._note:
            try:
                message = _decoded(b"".join(self._whole))
            except (ValueError, RecursionError):
                message, self._note = None, "not-understood"
            if isinstance(message, dict):
                form.whole(message)
        is_ok = 200 <= self._status < 300
        note = self._note or form.note
        if not note and is_ok and not form.is_complete:
            note = reason if reason != "complete" else "stream-ended-early"
        return Reply(
            status=self._status,
            usage=form.usage,
            blocks=form.blocks() if is_ok else [],
            is_complete=form.is_complete,
            note=note,
            overflow=form.overflow
            if is_ok
            else overflow_in(self._words.decode("utf-8", "replace")),
            cleared=form.cleared,
        )
