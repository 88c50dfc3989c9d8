"""The rows whose vectors are nearest to a query's: every vector is compared, none is approximated.

With numpy (the extra `vectors`) 10,000 vectors of 384 numbers take under a millisecond; without
it half a second, so only the newest are compared then, and that is said.
"""

from __future__ import annotations

import heapq
import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from openmem.base.paths import Paths
from openmem.context.vectors.sidecar import HEAD_BYTES, Shape, vector_files

_MOST_WITHOUT_NUMPY = 5_000
_HEAD = struct.Struct("=II")


@dataclass(frozen=True, slots=True)
class Near:
    """One vector that is near: its row, the digest of the text it was made from, the cosine."""

    seq: int
    digest: int
    similarity: float


def nearest(
    paths: Paths, sid: str, shape: Shape, query: Sequence[float], most: int
) -> tuple[list[Near], bool]:
    """Return the nearest vectors of a session, the nearest first, and whether all were compared."""
    if len(query) != shape.dim:
        return [], True  # the endpoint serves another model under the name: nothing can be compared
    length = math.sqrt(math.fsum(number * number for number in query)) or 1.0
    unit = [number / length for number in query]
    try:
        with open(vector_files(paths, sid)[0], "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return [], True
    count = len(data) // shape.record_bytes
    try:
        return _with_numpy(data, count, shape, unit, most), True
    except ImportError:
        first = max(0, count - _MOST_WITHOUT_NUMPY)
        return _plain(data, first, count, shape, unit, most), first == 0


def _with_numpy(
    data: bytes, count: int, shape: Shape, unit: Sequence[float], most: int
) -> list[Near]:
    import numpy

    record = numpy.dtype(
        [("seq", "=u4"), ("digest", "=u4"), ("numbers", "=f4", (shape.dim,))], align=False
    )
    records = numpy.frombuffer(data, dtype=record, count=count)
    cosines = records["numbers"] @ numpy.asarray(unit, dtype=numpy.float32)
    most = min(most, count)
    if not most:
        return []
    best = numpy.argpartition(-cosines, most - 1)[:most].tolist()
    found = [
        Near(int(records["seq"][n]), int(records["digest"][n]), float(cosines[n])) for n in best
    ]
    return sorted(found, key=lambda near: (-near.similarity, -near.seq))


def _plain(
    data: bytes, first: int, count: int, shape: Shape, unit: Sequence[float], most: int
) -> list[Near]:
    def all_of() -> list[Near]:
        found = []
        for number in range(first, count):
            start = number * shape.record_bytes
            seq, digest = _HEAD.unpack_from(data, start)
            numbers = array("f")
            numbers.frombytes(data[start + HEAD_BYTES : start + shape.record_bytes])
            found.append(Near(seq, digest, sum(map(mul, numbers, unit))))
        return found

    return heapq.nsmallest(most, all_of(), key=lambda near: (-near.similarity, -near.seq))
