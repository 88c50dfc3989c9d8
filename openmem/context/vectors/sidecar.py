"""A session's vectors on disk: `<sid>.vectors.f32` and `.json`, packed as in `base.vectors`.

A record's key is the row's number and the first 4 bytes of the digest of the row's text.
"""

from __future__ import annotations

from collections.abc import Collection

from openmem.base.paths import Paths
from openmem.base.vectors import packed
from openmem.base.vectors.packed import HEAD, Key, Shape


def stem_of(paths: Paths, sid: str) -> str:
    """Return what the files of a session's vectors begin with."""
    return f"{paths.sessions_dir}/{sid}.vectors"


def vector_files(paths: Paths, sid: str) -> tuple[str, str]:
    """Return where a session's vectors and their description are kept."""
    return packed.packed_files(stem_of(paths, sid))


def short_digest(digest: bytes) -> int:
    """Return what a record keeps of the digest of its row's text."""
    return int(HEAD.unpack(digest[:4] + bytes(4))[0])


def read_shape(paths: Paths, sid: str) -> Shape | None:
    """Return what a session's vectors are; None when it has none that can be used."""
    return packed.read_shape(stem_of(paths, sid))


def keys_of(paths: Paths, sid: str, shape: Shape) -> set[Key]:
    """Return (seq, digest) of the vectors that are there."""
    return packed.keys_of(stem_of(paths, sid), shape)


def has_vectors(paths: Paths, sid: str) -> bool:
    """Return whether a session has a file of vectors."""
    return packed.has_vectors(stem_of(paths, sid))


def keep_only(paths: Paths, sid: str, current: Collection[Key]) -> int:
    """Remove the vectors of all other rows, to the last byte; return how many there were.

    `current`: (seq, digest) of the texts that are there. Failed when another process holds them.
    """
    return packed.keep_only(stem_of(paths, sid), current)
