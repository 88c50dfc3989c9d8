"""A session's vectors on disk: packed numbers in one file, what they are in another.

`<sid>.vectors.f32` is a run of equal records: seq (4 bytes), the first 4 bytes of the digest of the
row's text, then `dim` float32, scaled to length 1. It is only appended to, or made anew; a record
that was cut off is passed over. `<sid>.vectors.json` says model and dimension, and which rows were
given up. A lock beside them keeps a row that is being forgotten from getting its vector back.
Trap: native byte order; a file is not meant to be carried to another machine, it fills again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from openmem.base.io import locked, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths

VERSION = 1
HEAD_BYTES = 8
_HEAD = struct.Struct("=II")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a session's vectors are. `skipped`: rows (seq, digest) that were given up."""

    model: str
    dim: int
    skipped: frozenset[tuple[int, int]] = frozenset()

    @property
    def record_bytes(self) -> int:
        return HEAD_BYTES + 4 * self.dim


def vector_files(paths: Paths, sid: str) -> tuple[str, str]:
    """Return where a session's vectors and their description are kept."""
    stem = f"{paths.sessions_dir}/{sid}.vectors"
    return f"{stem}.f32", f"{stem}.json"


def short_digest(digest: bytes) -> int:
    """Return what a record keeps of the digest of its row's text."""
    return int(_HEAD.unpack(digest[:4] + bytes(4))[0])


@contextmanager
def held(paths: Paths, sid: str) -> Iterator[None]:
    """Hold the session's vectors against other processes. Failed when they stay taken."""
    with locked(f"{paths.sessions_dir}/{sid}.vectors.lock"):
        yield


def read_shape(paths: Paths, sid: str) -> Shape | None:
    """Return what a session's vectors are; None when it has none that can be used."""
    data = read_bytes_or_none(vector_files(paths, sid)[1])
    try:
        document = json.loads(data) if data else None
        if not isinstance(document, dict) or document["version"] != VERSION:
            return None
        skipped = frozenset((int(seq), int(digest)) for seq, digest in document["skipped"])
        shape = Shape(model=str(document["model"]), dim=int(document["dim"]), skipped=skipped)
    except (ValueError, KeyError, TypeError):
        return None  # damaged: they are made anew
    return shape if 0 < shape.dim <= 16_384 else None


def keys_of(paths: Paths, sid: str, shape: Shape) -> set[tuple[int, int]]:
    """Return (seq, digest) of the vectors that are there."""
    found: set[tuple[int, int]] = set()
    try:
        with open(vector_files(paths, sid)[0], "rb", buffering=1 << 20) as file:
            while len(record := file.read(shape.record_bytes)) == shape.record_bytes:
                found.add(_HEAD.unpack_from(record))
    except FileNotFoundError:
        pass  # none yet
    return found


def append(
    paths: Paths, sid: str, shape: Shape, rows: Sequence[tuple[int, int, Sequence[float]]]
) -> None:
    """Add vectors: (seq, digest, numbers). The caller holds the lock. OSError when it cannot."""
    path = vector_files(paths, sid)[0]
    records = b"".join(
        _HEAD.pack(seq, digest) + array("f", _scaled(numbers)).tobytes()
        for seq, digest, numbers in rows
    )
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        whole = (
            size - size % shape.record_bytes
        )  # a record that a killed process cut is written over
        os.ftruncate(descriptor, whole)
        os.pwrite(descriptor, records, whole)
    finally:
        os.close(descriptor)


def write_shape(paths: Paths, sid: str, shape: Shape) -> None:
    """Say what the vectors are. Another model or dimension: those that are there go first."""
    vectors, described = vector_files(paths, sid)
    before = read_shape(paths, sid)
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


def drop(paths: Paths, sid: str, seqs: Collection[int]) -> int:
    """Remove the vectors of rows, to the last byte; return how many there were."""
    if not os.path.exists(vector_files(paths, sid)[0]):
        return 0
    with held(paths, sid):
        shape = read_shape(paths, sid)
        vectors, described = vector_files(paths, sid)
        data = read_bytes_or_none(vectors) or b""
        if shape is None:
            for path in (vectors, described):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            return 0
        size, wanted = shape.record_bytes, set(seqs)
        records = [data[at : at + size] for at in range(0, len(data) - size + 1, size)]
        kept = [record for record in records if _HEAD.unpack_from(record)[0] not in wanted]
        if len(kept) != len(records):
            write_atomic(vectors, b"".join(kept))
        return len(records) - len(kept)


def _scaled(numbers: Sequence[float]) -> list[float]:
    length = math.sqrt(math.fsum(number * number for number in numbers))
    return [number / length for number in numbers] if length else list(numbers)
