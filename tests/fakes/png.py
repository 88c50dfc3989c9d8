"""The pixels of a PNG as a browser writes it: eight bits, red, green and blue, maybe alpha."""

from __future__ import annotations

import struct
import zlib


def pixels(data: bytes) -> tuple[int, int, list[bytes]]:
    """Return (width, height, rows), each row three bytes a pixel. Source: the PNG specification."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    width = height = channels = 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunk)
            assert depth == 8 and colour in (2, 6)
            channels = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += chunk
        at += size + 12
    raw, stride = zlib.decompress(packed), width * channels
    rows: list[bytes] = []
    above = bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        row = _unfiltered(
            raw[start], bytearray(raw[start + 1 : start + 1 + stride]), above, channels
        )
        above = row
        bare = bytes(row) if channels == 3 else bytes(b for n, b in enumerate(row) if n % 4 != 3)
        rows.append(bare)
    return width, height, rows


def _unfiltered(kind: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    for n in range(len(row)):
        left = row[n - step] if n >= step else 0
        up = above[n]
        corner = above[n - step] if n >= step else 0
        if kind == 1:
            row[n] = (row[n] + left) & 255
        elif kind == 2:
            row[n] = (row[n] + up) & 255
        elif kind == 3:
            row[n] = (row[n] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            near = min((left, up, corner), key=lambda one: abs(guess - one))
            row[n] = (row[n] + near) & 255
    return row
