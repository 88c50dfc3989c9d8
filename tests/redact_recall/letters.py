"""Alphabets that keys are drawn from, and how to draw."""

from __future__ import annotations

import base64
from random import Random

DIGITS = "0123456789"
LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
ALNUM = UPPER + LOWER + DIGITS
HEX = "0123456789abcdef"
BASE32 = UPPER + "234567"
URLSAFE = ALNUM + "-_"
BASE64 = ALNUM + "+/"


def draw(rng: Random, alphabet: str, count: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(count))


def base64_of(rng: Random, size_bytes: int) -> str:
    return base64.b64encode(rng.randbytes(size_bytes)).decode()


def urlsafe_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def uuid_of(rng: Random) -> str:
    return "-".join(draw(rng, HEX, size) for size in (8, 4, 4, 4, 12))
