"""What a bank's texts mean, beside their words: vectors that a person's own endpoint makes.

Idea: `<bank>.vectors.*` holds a vector for each text; a search by hand adds half of how near a text
is to how well its words fit. Invariant: off unless the person named a model and switched
`memory.vectors` on; a hook's question never comes here; a vector goes with its text. Trap: words
leave for that endpoint, so vectors are only made for banks whose workspace may be retained, which
the caller has asked.
The weight was chosen on LoCoMo's conversations 1 to 5; docs/explanation/memory.md has the figures.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence

from openmem.base.config import load_config
from openmem.base.errors import Failed, InvalidConfig
from openmem.base.paths import Paths
from openmem.base.vectors.endpoint import EmbeddingFailed, embed
from openmem.base.vectors.filling import Filled, Pace, fill, standing
from openmem.base.vectors.nearest import nearest
from openmem.base.vectors.packed import Key, drop, has_vectors, keep_only, read_shape
from openmem.base.vectors.settings import VectorSettings, vector_settings
from openmem.memory.providers.base import Ask, Hit

WEIGHT = 0.5
LOOKED_AT = 200
_NEAREST = 50
# A text that shares no word with the question comes in from here on.
_BY_ITSELF = 0.5
_QUERY_SECONDS = 5.0

Connect = Callable[[], sqlite3.Connection | None]


def key_of(memory_id: str) -> Key:
    """Return an id as the key of a vector: its 16 digits are two numbers of 4 bytes."""
    return int(memory_id[2:10], 16), int(memory_id[10:18], 16)


def id_of(key: Key) -> str:
    return f"m-{key[0]:08x}{key[1]:08x}"


def settings_of(paths: Paths) -> VectorSettings | None:
    """Return the person's endpoint, None when memories have no vectors. InvalidConfig."""
    config = load_config(paths.config_file, paths.environ)
    found = vector_settings(config)
    return found if config.flag("memory.vectors") and found.is_on else None


def numbers_of(text: str, settings: VectorSettings, environ: Mapping[str, str]) -> list[float]:
    """Return a question as numbers, [] when the endpoint gives none: then words alone answer."""
    seconds = min(_QUERY_SECONDS, settings.timeout_seconds)
    try:
        (numbers,) = embed(settings, [text], environ, timeout_seconds=seconds)
    except (EmbeddingFailed, InvalidConfig, Failed):
        return []  # what is wrong with it is said by `memory reindex`, which asks it too
    return numbers


def fused(
    hits: Sequence[Hit], stem: str, numbers: Sequence[float], model: str, ask: Ask, connect: Connect
) -> list[Hit]:
    """Return hits by words and meaning together, as many as asked. sqlite3.Error."""
    shape = read_shape(stem)
    if not numbers or shape is None or shape.model != model:
        return list(hits[: ask.limit])
    scores = {hit.id: hit.score for hit in hits}
    near, _ = nearest(stem, shape, numbers, _NEAREST, {key_of(hit.id) for hit in hits})
    if not near:
        return list(hits[: ask.limit])
    likeness = {id_of(one.key): max(0.0, one.similarity) for one in near}
    most = max(likeness.values()) or 1.0
    best = max(scores.values(), default=0.0) or 1.0
    alone = [
        one for one, similar in likeness.items() if one not in scores and similar >= _BY_ITSELF
    ]
    taken = {*scores, *_wanted(connect(), alone, ask)}
    # In the measure of the words' scores, whose ties the ledger breaks.
    found = [
        Hit(id=one, score=scores.get(one, 0.0) + best * WEIGHT * likeness.get(one, 0.0) / most)
        for one in taken
    ]
    return sorted(found, key=lambda hit: (-hit.score, hit.id))[: ask.limit]


def _wanted(
    connection: sqlite3.Connection | None, memory_ids: Sequence[str], ask: Ask
) -> list[str]:
    """Return which of these texts are there and of a kind that is asked for."""
    if connection is None or not memory_ids:
        return []
    marks = ",".join("?" * len(memory_ids))
    rows = connection.execute(f"SELECT id, kind FROM doc WHERE id IN ({marks})", list(memory_ids))
    return [str(one) for one, kind in rows if not ask.kinds or kind in ask.kinds]


class Texts:
    """`filling.Source`: a bank's texts, statements first, then the newest."""

    def __init__(self, stem: str, connect: Connect) -> None:
        self.stem, self._connect = stem, connect

    def wanted(self) -> Sequence[Key]:
        connection = self._connect()
        if connection is None:
            return []
        rows = connection.execute(
            "SELECT id FROM doc ORDER BY kind <> 'statement', recorded_at DESC"
        )
        return [key_of(str(row[0])) for row in rows]

    def text(self, key: Key) -> str:
        connection = self._connect()
        row = (
            connection.execute("SELECT text FROM doc WHERE id = ?", (id_of(key),)).fetchone()
            if connection
            else None
        )
        return str(row[0]) if row else ""

    def still(self, keys: Sequence[Key]) -> Collection[Key]:
        connection = self._connect()
        if connection is None:
            return ()
        marks = ",".join("?" * len(keys))
        rows = connection.execute(
            f"SELECT id FROM doc WHERE id IN ({marks})", [id_of(key) for key in keys]
        )
        return {key_of(str(row[0])) for row in rows}


def fill_bank(
    stem: str,
    connect: Connect,
    settings: VectorSettings,
    environ: Mapping[str, str],
    may_go_on: Callable[[], bool],
) -> Filled:
    """Make the vectors that a bank lacks. sqlite3.Error, OSError, Failed, InvalidConfig."""
    return fill(Texts(stem, connect), settings, environ, Pace(), may_go_on=may_go_on)


def standing_of(stem: str, connect: Connect, model: str) -> Filled:
    """Return how many of a bank's texts have a vector."""
    return standing(Texts(stem, connect), model)


def forget(stem: str, memory_ids: Sequence[str]) -> None:
    """Remove the vectors of texts. OSError, Failed."""
    drop(stem, {key_of(memory_id) for memory_id in memory_ids})


def tidy(stem: str, connect: Connect) -> None:
    """Remove vectors whose text is not there any more. OSError, Failed, sqlite3.Error."""
    if has_vectors(stem):
        keep_only(stem, set(Texts(stem, connect).wanted()))
