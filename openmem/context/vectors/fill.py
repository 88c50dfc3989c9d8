"""Making the vectors that a session lacks, in batches, without ever pressing a slow endpoint.

Batches start at 4 rows; a full one that took under a quarter of its time doubles the next, up to
32; a failed one halves it for the rest of the run. A row that fails alone is set aside; after three
failures, while others work, it is given up. Three single rows that fail in a row before any worked
mean that the endpoint is down: the run ends, and the next try is a minute away.
Source: context-store contract, Vectors: measured there on a small machine's Ollama.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from openmem.base.paths import Paths
from openmem.context.store.catalog import Entry, entry_of
from openmem.context.store.reader import SessionReader, open_entry
from openmem.context.vectors.endpoint import EmbeddingFailed, embed
from openmem.context.vectors.settings import VectorSettings
from openmem.context.vectors.sidecar import (
    Shape,
    append,
    held,
    keys_of,
    read_shape,
    short_digest,
    write_shape,
)

FIRST_BATCH, LARGEST_BATCH = 4, 32
GIVE_UP_AFTER = 3
DOWN_AFTER = 3
# What left the context is what a search is for; then the newest. Forgotten rows hold no line.
_ROWS = (
    "SELECT seq, digest FROM row WHERE source IS NULL AND size > 0 AND echo = 0"
    " AND role <> 3 AND kind IN (0, 1, 2) ORDER BY in_context, seq DESC"
)
Key = tuple[int, int]


@dataclass(slots=True)
class Pace:
    """What an endpoint showed so far; kept between runs. `failures`: of rows, by session."""

    batch: int = FIRST_BATCH
    failures: dict[tuple[str, Key], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How a session's vectors stand. `is_down`: the endpoint did not answer at all."""

    filled: int = 0
    pending: int = 0
    skipped: int = 0
    added: int = 0
    is_down: bool = False


def progress(paths: Paths, reader: SessionReader, model: str) -> Filled:
    """Return how many of a session's rows have a vector of a model."""
    wanted = _wanted(reader)
    shape = read_shape(paths, reader.session_id)
    if shape is None or shape.model != model:
        return Filled(pending=len(wanted))
    have = keys_of(paths, reader.session_id, shape)
    filled = sum(key in have for key in wanted)
    skipped = sum(key in shape.skipped for key in wanted)
    return Filled(filled=filled, skipped=skipped, pending=len(wanted) - filled - skipped)


def fill(
    paths: Paths,
    entry: Entry,
    settings: VectorSettings,
    environ: Mapping[str, str],
    pace: Pace,
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
) -> Filled:
    """Make a session's missing vectors. StoreUnavailable, OSError, Failed: tried again later."""
    with open_entry(entry) as reader:
        return _Run(paths, entry.session_id, reader, settings, environ, pace, clock).run(may_go_on)


class _Run:
    def __init__(
        self,
        paths: Paths,
        sid: str,
        reader: SessionReader,
        settings: VectorSettings,
        environ: Mapping[str, str],
        pace: Pace,
        clock: Callable[[], float],
    ) -> None:
        self._paths, self._sid, self._reader = paths, sid, reader
        self._settings, self._environ, self._pace, self._clock = settings, environ, pace, clock
        self._shape = read_shape(paths, sid)
        if self._shape is not None and self._shape.model != settings.model:
            self._shape = None
        self._largest = LARGEST_BATCH
        self._lone_failures = 0
        self._worked = False

    def run(self, may_go_on: Callable[[], bool]) -> Filled:
        have = keys_of(self._paths, self._sid, self._shape) if self._shape else set()
        skipped = self._shape.skipped if self._shape else frozenset()
        wanted = _wanted(self._reader)
        missing = [key for key in wanted if key not in have and key not in skipped]
        # What never failed first, so that one bad row holds up no other.
        missing.sort(key=lambda key: self._failures(key))
        added = 0
        while missing and may_go_on():
            taken, missing = missing[: self._pace.batch], missing[self._pace.batch :]
            outcome = self._batch(taken)
            if outcome is None:
                if len(taken) > 1:
                    missing = taken + missing  # again, in halves
                elif not self._worked and self._lone_failures >= DOWN_AFTER:
                    return self._standing(wanted, added, is_down=True)
                continue
            added += outcome
        return self._standing(wanted, added)

    def _batch(self, keys: Sequence[Key]) -> int | None:
        """Embed rows and keep them; None when the call failed."""
        texts = [self._head_of(seq) for seq, _ in keys]
        allowed = self._settings.timeout_seconds * len(keys)
        begun = self._clock()
        try:
            vectors = embed(self._settings, texts, self._environ, timeout_seconds=allowed)
        except EmbeddingFailed:
            self._failed(keys)
            return None
        self._worked = True
        self._lone_failures = 0
        if len(keys) == self._pace.batch and self._clock() - begun < allowed / 4:
            self._pace.batch = min(self._largest, self._pace.batch * 2)
        return self._keep(keys, vectors)

    def _failed(self, keys: Sequence[Key]) -> None:
        if len(keys) > 1:
            self._largest = self._pace.batch = max(1, len(keys) // 2)
            return
        self._lone_failures += 1
        place = (self._sid, keys[0])
        self._pace.failures[place] = self._failures(keys[0]) + 1
        if self._worked and self._pace.failures[place] >= GIVE_UP_AFTER and self._shape:
            self._shape = replace(self._shape, skipped=self._shape.skipped | {keys[0]})
            with held(self._paths, self._sid):
                write_shape(self._paths, self._sid, self._shape)

    def _failures(self, key: Key) -> int:
        return self._pace.failures.get((self._sid, key), 0)

    def _keep(self, keys: Sequence[Key], vectors: Sequence[Sequence[float]]) -> int:
        """Write vectors of rows that still say what was sent: a person may have forgotten them."""
        dim = len(vectors[0])
        with held(self._paths, self._sid):
            now = self._digests_now([seq for seq, _ in keys])
            rows = [
                (seq, digest, vector)
                for (seq, digest), vector in zip(keys, vectors, strict=True)
                if now.get(seq) == digest
            ]
            if not rows:
                return 0
            if self._shape is None or self._shape.dim != dim:
                self._shape = Shape(model=self._settings.model, dim=dim)
                write_shape(self._paths, self._sid, self._shape)
            append(self._paths, self._sid, self._shape, rows)
        return len(rows)

    def _digests_now(self, seqs: Sequence[int]) -> dict[int, int]:
        """Return the digests of rows as they are by now; a reader may show an older state."""
        entry = entry_of(self._paths, self._sid)
        if entry is None or entry.is_legacy:
            return {}  # deleted meanwhile
        with open_entry(entry) as reader:
            marks = ", ".join("?" * len(seqs))
            found = reader.connection.execute(
                f"SELECT seq, digest FROM row WHERE size > 0 AND seq IN ({marks})", list(seqs)
            )
            return {int(seq): short_digest(digest) for seq, digest in found}

    def _head_of(self, seq: int) -> str:
        row = self._reader.row(seq)
        text = row.text if row else ""
        return text[: self._settings.max_characters] or " "

    def _standing(self, wanted: Sequence[Key], added: int, *, is_down: bool = False) -> Filled:
        shape = self._shape
        have = keys_of(self._paths, self._sid, shape) if shape else set()
        filled = sum(key in have for key in wanted)
        skipped = sum(key in shape.skipped for key in wanted) if shape else 0
        return Filled(
            filled=filled,
            skipped=skipped,
            pending=len(wanted) - filled - skipped,
            added=added,
            is_down=is_down,
        )


def _wanted(reader: SessionReader) -> list[Key]:
    try:
        return [
            (int(seq), short_digest(digest)) for seq, digest in reader.connection.execute(_ROWS)
        ]
    except sqlite3.Error:
        return []  # an earlier version's file: it is read, not written beside
