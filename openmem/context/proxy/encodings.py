"""Content-Encoding undone for a copy, piece by piece and never beyond a limit.

Idea: what the client or the API compressed goes on as it is; only the copy we read is decoded.
Invariant: whatever the input, at most the limit plus one step's output is ever held.
Trap: a few hundred bytes can unfold to gigabytes, so every step's output is bounded: by the
library where it can (zlib, brotli), by tiny input slices where it cannot (zstandard: 128 KB a
block, and a block can be four bytes).
Source: RFC 9110 section 8.4; RFC 9659 (a zstd window over HTTP is at most 8 MB).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import brotli
import zstandard

_STEP_BYTES = 256 * 1024
_ZSTD_SLICE_BYTES = 256
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
_MAX_LAYERS = 3


class TooLarge(Exception):
    """The decoded copy would be larger than the limit."""


class Undecodable(Exception):
    """An unknown encoding, or bytes that are not in the encoding their header names."""


class _Stage(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...


class _Identity:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Gzip:
    """gzip with any number of members."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(31)

    def feed(self, data: bytes) -> Iterator[bytes]:
        is_full = False
        while data or is_full:
            if self._decoder.eof:
                if not data:
                    return
                self._decoder = zlib.decompressobj(31)
            piece = _inflated(self._decoder, data)
            if piece:
                yield piece
            is_full = len(piece) == _STEP_BYTES  # more may wait inside although input is used up
            data = self._decoder.unused_data if self._decoder.eof else self._decoder.unconsumed_tail


class _Deflate:
    """deflate with its zlib header, and without, as some senders write it."""

    def __init__(self) -> None:
        self._decoder: zlib._Decompress | None = None
        self._head = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._decoder is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return
            has_header = data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._decoder = zlib.decompressobj(15 if has_header else -15)
        is_full = False
        while (data or is_full) and not self._decoder.eof:
            piece = _inflated(self._decoder, data)
            if piece:
                yield piece
            is_full = len(piece) == _STEP_BYTES
            data = self._decoder.unconsumed_tail


def _inflated(decoder: zlib._Decompress, data: bytes) -> bytes:
    try:
        return decoder.decompress(data, _STEP_BYTES)
    except zlib.error as error:
        raise Undecodable(str(error)) from None


class _Brotli:
    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._decoder.is_finished():
            return
        try:
            piece = self._decoder.process(data, output_buffer_limit=_STEP_BYTES)
            while True:
                if piece:
                    yield piece
                if self._decoder.is_finished() or self._decoder.can_accept_more_data():
                    return
                piece = self._decoder.process(b"", output_buffer_limit=_STEP_BYTES)
        except brotli.error as error:
            raise Undecodable(str(error)) from None


class _Zstd:
    def __init__(self) -> None:
        self._decoder = self._fresh()

    @staticmethod
    def _fresh() -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()

    def feed(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(data):
            piece_in = data[start : start + _ZSTD_SLICE_BYTES]
            start += len(piece_in)
            while piece_in:
                if self._decoder.eof:
                    self._decoder = self._fresh()
                try:
                    piece = self._decoder.decompress(piece_in)
                except zstandard.ZstdError as error:
                    raise Undecodable(str(error)) from None
                if piece:
                    yield piece
                piece_in = self._decoder.unused_data if self._decoder.eof else b""


def _stage_of(name: str) -> _Stage:
    if name in ("gzip", "x-gzip"):
        return _Gzip()
    if name == "deflate":
        return _Deflate()
    if name == "br":
        return _Brotli()
    if name == "zstd":
        return _Zstd()
    raise Undecodable(f"unknown encoding {name[:20]!r}")


class Decoder:
    """Decodes one body as it arrives. Source of `encoding`: the header's value, "" for none."""

    def __init__(self, encoding: str, limit_bytes: int) -> None:
        names = [name.strip().lower() for name in encoding.split(",")]
        names = [name for name in names if name and name != "identity"]
        if len(names) > _MAX_LAYERS:
            raise Undecodable("more layers of encoding than anyone sends")
        self._stages = [_stage_of(name) for name in reversed(names)]
        self._left = limit_bytes

    @property
    def is_identity(self) -> bool:
        return not self._stages

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded pieces of `data`. TooLarge beyond the limit, Undecodable on junk."""
        for piece in self._through(data, 0):
            self._left -= len(piece)
            if self._left < 0:
                raise TooLarge
            yield piece

    def _through(self, data: bytes, index: int) -> Iterator[bytes]:
        if index == len(self._stages):
            yield data
            return
        for piece in self._stages[index].feed(data):
            yield from self._through(piece, index + 1)


def decode_body(chunks: Iterable[bytes], encoding: str, limit_bytes: int) -> bytes:
    """Return a whole body decoded. TooLarge beyond the limit, Undecodable on junk."""
    decoder = Decoder(encoding, limit_bytes)
    pieces: list[bytes] = []
    for chunk in chunks:
        pieces.extend(decoder.feed(chunk))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
