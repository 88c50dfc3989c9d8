"""Making the vectors that texts lack, in batches, without ever pressing a slow endpoint.

Batches start at 4 texts; a full one that took under a quarter of its time doubles the next, up to
32; a failed one halves it for the rest of the run. A text that fails alone is set aside; after
three failures, while others work, it is given up. Three single texts that fail in a row before any
worked mean that the endpoint is down: the run ends, and the next try is the caller's.
Source: context-store contract, Vectors: measured there on a small machine's Ollama.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from openmem.base.vectors.endpoint import EmbeddingFailed, embed
from openmem.base.vectors.packed import (
    Key,
    Shape,
    append,
    held,
    keys_of,
    read_shape,
    write_shape,
)
from openmem.base.vectors.settings import VectorSettings

FIRST_BATCH, LARGEST_BATCH = 4, 32
GIVE_UP_AFTER = 3
DOWN_AFTER = 3


class Source(Protocol):
    """The texts that are to have vectors. `stem`: where these are kept; tells sources apart."""

    stem: str

    def wanted(self) -> Sequence[Key]:
        """Return the keys of all texts, the most wanted first."""
        ...

    def text(self, key: Key) -> str:
        """Return a text, masked as it is stored."""
        ...

    def still(self, keys: Sequence[Key]) -> Collection[Key]:
        """Return which of these stand as they were, asked anew: a person may have forgotten one."""
        ...


@dataclass(slots=True)
class Pace:
    """What an endpoint showed so far; kept between runs. `failures`: of texts, by source."""

    batch: int = FIRST_BATCH
    failures: dict[tuple[str, Key], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """How the vectors stand. `is_down`: the endpoint did not answer at all."""

    filled: int = 0
    pending: int = 0
    skipped: int = 0
    added: int = 0
    is_down: bool = False


def standing(source: Source, model: str) -> Filled:
    """Return how many of a source's texts have a vector of a model."""
    wanted = source.wanted()
    shape = read_shape(source.stem)
    return _standing(source, wanted, shape if shape and shape.model == model else None)


def fill(
    source: Source,
    settings: VectorSettings,
    environ: Mapping[str, str],
    pace: Pace,
    *,
    may_go_on: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
) -> Filled:
    """Make the missing vectors. What the source raises, OSError, Failed: tried again later."""
    return _Run(source, settings, environ, pace, clock).run(may_go_on)


class _Run:
    def __init__(
        self,
        source: Source,
        settings: VectorSettings,
        environ: Mapping[str, str],
        pace: Pace,
        clock: Callable[[], float],
    ) -> None:
        self._source, self._stem = source, source.stem
        self._settings, self._environ, self._pace, self._clock = settings, environ, pace, clock
        self._shape = read_shape(self._stem)
        if self._shape is not None and self._shape.model != settings.model:
            self._shape = None
        self._largest = LARGEST_BATCH
        self._lone_failures = 0
        self._worked = False

    def run(self, may_go_on: Callable[[], bool]) -> Filled:
        have = keys_of(self._stem, self._shape) if self._shape else set()
        skipped = self._shape.skipped if self._shape else frozenset()
        wanted = self._source.wanted()
        missing = [key for key in wanted if key not in have and key not in skipped]
        # What never failed first, so that one bad text holds up no other.
        missing.sort(key=lambda key: self._failures(key))
        added = 0
        while missing and may_go_on():
            taken, missing = missing[: self._pace.batch], missing[self._pace.batch :]
            outcome = self._batch(taken)
            if outcome is None:
                if len(taken) > 1:
                    missing = taken + missing  # again, in halves
                elif not self._worked and self._lone_failures >= DOWN_AFTER:
                    found = _standing(self._source, wanted, self._shape)
                    return replace(found, added=added, is_down=True)
                continue
            added += outcome
        return replace(_standing(self._source, wanted, self._shape), added=added)

    def _batch(self, keys: Sequence[Key]) -> int | None:
        """Embed texts and keep their vectors; None when the call failed."""
        texts = [self._source.text(key)[: self._settings.max_characters] or " " for key in keys]
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
        place = (self._stem, keys[0])
        self._pace.failures[place] = self._failures(keys[0]) + 1
        if self._worked and self._pace.failures[place] >= GIVE_UP_AFTER and self._shape:
            self._shape = replace(self._shape, skipped=self._shape.skipped | {keys[0]})
            with held(self._stem):
                write_shape(self._stem, self._shape)

    def _failures(self, key: Key) -> int:
        return self._pace.failures.get((self._stem, key), 0)

    def _keep(self, keys: Sequence[Key], vectors: Sequence[Sequence[float]]) -> int:
        """Write vectors of texts that still say what was sent."""
        dim = len(vectors[0])
        with held(self._stem):
            still = self._source.still(keys)
            rows = [(k, v) for k, v in zip(keys, vectors, strict=True) if k in still]
            if not rows:
                return 0
            if self._shape is None or self._shape.dim != dim:
                self._shape = Shape(model=self._settings.model, dim=dim)
                write_shape(self._stem, self._shape)
            append(self._stem, self._shape, rows)
        return len(rows)


def _standing(source: Source, wanted: Sequence[Key], shape: Shape | None) -> Filled:
    if shape is None:
        return Filled(pending=len(wanted))
    have = keys_of(source.stem, shape)
    filled = sum(key in have for key in wanted)
    skipped = sum(key in shape.skipped for key in wanted)
    return Filled(filled=filled, skipped=skipped, pending=len(wanted) - filled - skipped)
