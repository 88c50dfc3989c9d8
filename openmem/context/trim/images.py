"""The size of an image, read from the head of its base64."""

from __future__ import annotations

import base64
import binascii

_HEAD_CHARACTERS = 65_536 * 4 // 3


def image_size(data: str) -> tuple[int, int]:
    """Return (width, height) in pixels of a PNG, GIF, WebP or JPEG; (0, 0) when not known."""
    head_text = data[:_HEAD_CHARACTERS]
    try:
        head = base64.b64decode(head_text[: len(head_text) // 4 * 4])
    except (binascii.Error, ValueError):
        return 0, 0
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    return 0, 0


def _webp_size(head: bytes) -> tuple[int, int]:
    if head[12:16] == b"VP8X" and len(head) >= 30:
        return (
            int.from_bytes(head[24:27], "little") + 1,
            int.from_bytes(head[27:30], "little") + 1,
        )
    if head[12:16] == b"VP8 " and len(head) >= 30:
        return (
            int.from_bytes(head[26:28], "little") & 0x3FFF,
            int.from_bytes(head[28:30], "little") & 0x3FFF,
        )
    if head[12:16] == b"VP8L" and len(head) >= 25:
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return (
                int.from_bytes(head[at + 7 : at + 9], "big"),
                int.from_bytes(head[at + 5 : at + 7], "big"),
            )
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return 0, 0
