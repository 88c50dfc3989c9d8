"""One message of the fake model as the Messages API would put it on the wire."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import zstandard


def event(name: str, data: dict[str, Any]) -> bytes:
    """Return one server-sent event, compact and in UTF-8 as the real service sends it."""
    value = {"type": name, **data}
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate cannot stand in UTF-8; the service escapes it
        text = json.dumps(value, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def _deltas(block: dict[str, Any], pieces: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": part} for part in _cut(block["text"], pieces)]
        return {**block, "text": ""}, deltas
    if kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": part}
            for part in (_cut(block["thinking"], pieces) if block["thinking"] else [])
        ]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    if kind == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False)
        parts = ["", *_cut(text, pieces)]
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": part} for part in parts
        ]
    return block, []


def events_of(message: dict[str, Any], *, pieces: int = 2) -> Iterator[bytes]:
    """Yield the events of a finished message in the order in which the API streams them."""
    usage = message["usage"]
    edits = message.get("context_management")
    opening = {
        **{key: value for key, value in message.items() if key != "context_management"},
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield event("message_start", {"message": opening})
    yield event("ping", {})
    for index, block in enumerate(message["content"]):
        start, deltas = _deltas(block, pieces)
        yield event("content_block_start", {"index": index, "content_block": start})
        for delta in deltas:
            yield event("content_block_delta", {"index": index, "delta": delta})
        yield event("content_block_stop", {"index": index})
    closing = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    told = {} if edits is None else {"context_management": edits}
    yield event("message_delta", {"delta": closing, "usage": usage, **told})
    yield event("message_stop", {})


Encoder = tuple[Callable[[bytes], bytes], Callable[[], bytes]]


def encoder(encoding: str) -> Encoder:
    """Return (feed, finish) of a stream compressor that flushes after each event."""
    if encoding == "gzip":
        gz = zlib.compressobj(wbits=31)
        return lambda d: gz.compress(d) + gz.flush(zlib.Z_SYNC_FLUSH), gz.flush
    if encoding == "zstd":
        zs = zstandard.ZstdCompressor().compressobj()
        block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return lambda d: zs.compress(d) + zs.flush(block), zs.flush
    if encoding == "br":
        br = brotli.Compressor()
        return lambda d: br.process(d) + br.flush(), br.finish
    return lambda d: d, lambda: b""
