"""What a model answered, read from a copy of the response: usage and content blocks.

Idea: the same bytes that go to the client are fed here, whole or as a stream, in any encoding.
Invariant: nothing here can fail the request; what cannot be read ends in a note.
Trap: a stream may break off; a block counts only once its `content_block_stop` was seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec

from openmem.context.proxy.encodings import Decoder, TooLarge, Undecodable
from openmem.context.proxy.recording.sse import EventReader, TooLong
from openmem.context.proxy.recording.usage import Usage

_LIMIT_BYTES = 32 * 1024 * 1024
_WORDS_BYTES = 4096
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response as far as it was read.

    `blocks`: whole content blocks in order, in the API's JSON form. `is_complete`: the message
    came to its end. `note`: why it is not complete, "" otherwise; never content. `words`: the
    head of a 400's body, in memory only.
    """

    status: int
    usage: Usage
    blocks: list[dict[str, Any]]
    is_complete: bool
    note: str = ""
    words: str = ""


@dataclass(slots=True)
class _Open:
    block: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        # Lone surrogates and huge numbers are refused by the fast reader only.
        return json.loads(data)


class ReplyReader:
    """Feed a response's bytes; `finish` gives what was read."""

    def __init__(self, *, status: int, content_type: str, encoding: str) -> None:
        self._status = status
        self._usage = Usage()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._open: dict[int, _Open] = {}
        self._whole: list[bytes] = []
        self._is_complete = False
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
                self._event(event)

    def _event(self, event: dict[str, Any]) -> None:
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            message = event.get("message")
            if isinstance(message, dict):
                self._usage = self._usage.updated(message.get("usage"))
        elif kind == "message_delta":
            self._usage = self._usage.updated(event.get("usage"))
        elif kind == "message_stop":
            self._is_complete = True
        elif kind == "error":
            error = event.get("error")
            name = error.get("type") if isinstance(error, dict) else None
            self._note = f"error-event:{name}"[:80]
        elif not isinstance(index, int):
            return
        elif kind == "content_block_start":
            block = event.get("content_block")
            if isinstance(block, dict):
                self._open[index] = _Open(block)
        elif kind == "content_block_delta":
            self._delta(index, event.get("delta"))
        elif kind == "content_block_stop":
            self._stop(index)

    def _delta(self, index: int, delta: object) -> None:
        state = self._open.get(index)
        if state is None or not isinstance(delta, dict):
            return
        kind = delta.get("type")
        if kind == "input_json_delta":
            name, piece = "input", delta.get("partial_json")
        elif kind in _DELTAS:
            name, piece = _DELTAS[kind][0], delta.get(_DELTAS[kind][1])
        else:
            return
        if isinstance(piece, str):
            state.pieces.setdefault(name, []).append(piece)

    def _stop(self, index: int) -> None:
        state = self._open.pop(index, None)
        if state is None:
            return
        block = dict(state.block)
        for name, pieces in state.pieces.items():
            text = "".join(pieces)
            if name != "input":
                start = block.get(name)
                block[name] = (start if isinstance(start, str) else "") + text
                continue
            try:
                block["input"] = json.loads(text) if text.strip() else {}
            except ValueError:
                block["input"] = text  # cut short by max_tokens; the client sends back its own
        self._blocks[index] = block

    def finish(self, reason: str) -> Reply:
        """Return what was read. `reason`: "complete", or why the response ended early."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        if self._events is None and self._whole and reason == "complete" and not self._note:
            try:
                message = _decoded(b"".join(self._whole))
            except (ValueError, RecursionError):
                message, self._note = None, "not-understood"
            if isinstance(message, dict):
                content = message.get("content")
                if isinstance(content, list):
                    blocks = [block for block in content if isinstance(block, dict)]
                self._usage = self._usage.updated(message.get("usage"))
                self._is_complete = True
        is_ok = 200 <= self._status < 300
        note = self._note
        if not note and is_ok and not self._is_complete:
            note = reason if reason != "complete" else "stream-ended-early"
        return Reply(
            status=self._status,
            usage=self._usage,
            blocks=blocks if is_ok else [],
            is_complete=self._is_complete,
            note=note,
            words=self._words.decode("utf-8", "replace"),
        )
