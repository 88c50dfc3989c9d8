"""The texts whose vectors are nearest to a query's: every vector is compared, none is approximated.

With numpy (the extra `vectors`) 10,000 vectors of 384 numbers take under a millisecond; without
it half a second, so only the newest are compared then, and that is said.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import mul

from openmem.base.vectors.packed import HEAD, HEAD_BYTES, Key, Shape, packed_files

_MOST_WITHOUT_NUMPY = 5_000


@dataclass(frozen=True, slots=True)
class Near:
    """One vector that is near: the key of its text, the cosine."""

    key: Key
    similarity: float


def nearest(
    stem: str, shape: Shape, query: Sequence[float], most: int, among: Collection[Key] = ()
) -> tuple[list[Near], bool]:
    """Return the nearest vectors, the nearest first, and whether all were compared.

    `among`: keys that are wanted too, however far.
    """
    if len(query) != shape.dim:
        return [], True  # the endpoint serves another model under the name: nothing can be compared
    length = math.sqrt(math.fsum(number * number for number in query)) or 1.0
    unit = [number / length for number in query]
    try:
        with open(packed_files(stem)[0], "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return [], True
    count = len(data) // shape.record_bytes
    try:
        return _with_numpy(data, count, shape, unit, most, among), True
    except ImportError:
        first = max(0, count - _MOST_WITHOUT_NUMPY)
        return _plain(data, first, count, shape, unit, most, among), first == 0


def _with_numpy(
    data: bytes,
    count: int,
    shape: Shape,
    unit: Sequence[float],
    most: int,
    among: Collection[Key],
) -> list[Near]:
    import numpy

    record = numpy.dtype(
        [("key", "=u4", (2,)), ("numbers", "=f4", (shape.dim,))],
        align=False,
    )
    records = numpy.frombuffer(data, dtype=record, count=count)
    cosines = records["numbers"] @ numpy.asarray(unit, dtype=numpy.float32)
    most = min(most, count)
    if not most:
        return []
    best = set(numpy.argpartition(-cosines, most - 1)[:most].tolist())
    if among:
        first = numpy.asarray([key[0] for key in among], dtype=numpy.uint32)
        places = numpy.nonzero(numpy.isin(records["key"][:, 0], first))[0].tolist()
        wanted = set(among)
        best |= {
            n for n in places if (int(records["key"][n][0]), int(records["key"][n][1])) in wanted
        }
    found = [
        Near((int(records["key"][n][0]), int(records["key"][n][1])), float(cosines[n]))
        for n in best
    ]
    return sorted(found, key=_order)


def _plain(
    data: bytes,
    first: int,
    count: int,
    shape: Shape,
    unit: Sequence[float],
    most: int,
    among: Collection[Key],
) -> list[Near]:
    found = []
    for number in range(first, count):
        start = number * shape.record_bytes
        numbers = array("f")
        numbers.frombytes(data[start + HEAD_BYTES : start + shape.record_bytes])
        found.append(Near(HEAD.unpack_from(data, start), sum(map(mul, numbers, unit))))
    best = heapq.nsmallest(most, found, key=_order)
    if among:
        taken, wanted = {near.key for near in best}, set(among)
        best += [near for near in found if near.key in wanted and near.key not in taken]
    return sorted(best, key=_order)


def _order(near: Near) -> tuple[float, int]:
    return -near.similarity, -near.key[0]
