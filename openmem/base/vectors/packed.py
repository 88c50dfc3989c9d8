"""Vectors on disk: packed numbers in one file, what they are in another, a lock beside them.

`<stem>.f32` is a run of equal records: a key of two numbers of 4 bytes, then `dim` float32, scaled
to length 1. It is only appended to, or made anew; a record that was cut off is passed over.
`<stem>.json` says model and dimension, and which texts were given up. The lock keeps a text that is
being forgotten from getting its vector back.
Trap: native byte order; a file is not meant to be carried to another machine, it fills again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from openmem.base.io import locked, read_bytes_or_none, write_atomic

VERSION = 1
HEAD_BYTES = 8
HEAD = struct.Struct("=II")
MOST_NUMBERS = 16_384
Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the vectors of a file are. `skipped`: keys of texts that were given up."""

    model: str
    dim: int
    skipped: frozenset[Key] = frozenset()

    @property
    def record_bytes(self) -> int:
        return HEAD_BYTES + 4 * self.dim


def packed_files(stem: str) -> tuple[str, str]:
    """Return where vectors and their description are kept."""
    return f"{stem}.f32", f"{stem}.json"


def key_of(data: bytes) -> Key:
    """Return 8 bytes as a key."""
    first, second = HEAD.unpack(data[:HEAD_BYTES])
    return int(first), int(second)


@contextmanager
def held(stem: str) -> Iterator[None]:
    """Hold the vectors against other processes. Failed when they stay taken."""
    with locked(f"{stem}.lock"):
        yield


def read_shape(stem: str) -> Shape | None:
    """Return what the vectors are; None when there are none that can be used."""
    data = read_bytes_or_none(packed_files(stem)[1])
    try:
        document = json.loads(data) if data else None
        if not isinstance(document, dict) or document["version"] != VERSION:
            return None
        skipped = frozenset((int(first), int(second)) for first, second in document["skipped"])
        shape = Shape(model=str(document["model"]), dim=int(document["dim"]), skipped=skipped)
    except (ValueError, KeyError, TypeError):
        return None  # damaged: they are made anew
    return shape if 0 < shape.dim <= MOST_NUMBERS else None


def keys_of(stem: str, shape: Shape) -> set[Key]:
    """Return the keys of the vectors that are there."""
    found: set[Key] = set()
    try:
        with open(packed_files(stem)[0], "rb", buffering=1 << 20) as file:
            while len(record := file.read(shape.record_bytes)) == shape.record_bytes:
                found.add(HEAD.unpack_from(record))
    except FileNotFoundError:
        pass  # none yet
    return found


def append(stem: str, shape: Shape, rows: Sequence[tuple[Key, Sequence[float]]]) -> None:
    """Add vectors. The caller holds the lock. OSError when it cannot."""
    path = packed_files(stem)[0]
    records = b"".join(
        HEAD.pack(*key) + array("f", _scaled(numbers)).tobytes() for key, numbers in rows
    )
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        whole = size - size % shape.record_bytes  # what a killed process cut off is written over
        os.ftruncate(descriptor, whole)
        os.pwrite(descriptor, records, whole)
    finally:
        os.close(descriptor)


def write_shape(stem: str, shape: Shape) -> None:
    """Say what the vectors are. Another model or dimension: those that are there go first."""
    vectors, described = packed_files(stem)
    before = read_shape(stem)
    if before is None or (before.model, before.dim) != (shape.model, shape.dim):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(vectors)
    document = {
        "version": VERSION,
        "model": shape.model,
        "dim": shape.dim,
        "skipped": sorted(shape.skipped),
    }
    write_atomic(described, json.dumps(document).encode("ascii"))


def has_vectors(stem: str) -> bool:
    """Return whether there is a file of vectors."""
    return os.path.exists(packed_files(stem)[0])


def keep_only(stem: str, current: Collection[Key]) -> int:
    """Remove all vectors but those of `current`, to the last byte; return how many there were."""
    return _keep(stem, lambda key: key in current)


def drop(stem: str, gone: Collection[Key]) -> int:
    """Remove the vectors of texts, to the last byte; return how many there were."""
    return _keep(stem, lambda key: key not in gone)


def drop_all(stem: str) -> None:
    """Remove every vector and what says what they are."""
    if has_vectors(stem) or os.path.exists(packed_files(stem)[1]):
        with held(stem):
            _unlink(stem)


def _keep(stem: str, is_kept: Callable[[Key], bool]) -> int:
    if not has_vectors(stem):
        return 0
    with held(stem):
        shape = read_shape(stem)
        vectors = packed_files(stem)[0]
        data = read_bytes_or_none(vectors) or b""
        if shape is None:
            _unlink(stem)
            return 0
        size = shape.record_bytes
        records = [data[at : at + size] for at in range(0, len(data) - size + 1, size)]
        kept = [record for record in records if is_kept(HEAD.unpack_from(record))]
        if len(kept) != len(records):
            write_atomic(vectors, b"".join(kept))
        return len(records) - len(kept)


def _unlink(stem: str) -> None:
    for path in packed_files(stem):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _scaled(numbers: Sequence[float]) -> list[float]:
    length = math.sqrt(math.fsum(number * number for number in numbers))
    return [number / length for number in numbers] if length else list(numbers)
