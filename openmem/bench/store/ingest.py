"""Storing: a history as it comes, its size on disk, and the same history sent once more."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from itertools import count

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.base.redact import Redacted
from openmem.bench.figures import Figure, median
from openmem.bench.store.corpus import Corpus, incoming_of, rows_of
from openmem.bench.store.timing import beside
from openmem.bench.traffic import Conversation
from openmem.context.formats.messages import split_request
from openmem.context.store.database import session_file
from openmem.context.store.model import Incoming
from openmem.context.store.recorder import Recorder

INGEST_LIMIT = 30.0
SIZE_LIMIT = 3.2
RESENT_LIMIT = 3.0


def figures(paths: Paths, *, lines: int, resent_bytes: int, repeats: int) -> list[Figure]:
    """Return ingest with and without masking, size, and a resent history."""
    texts = rows_of(Corpus(1).lines(lines))
    whole = _ingest(paths, "store a history", texts, repeats, masks=True, limit=INGEST_LIMIT)
    bare = _ingest(paths, "store it, unmasked", texts, repeats, masks=False, limit=0.0)
    return [whole, bare, _size(paths, texts), _resent(paths, resent_bytes, max(repeats, 9))]


def _as_it_is(text: str, _: bytes) -> Redacted:
    return Redacted(text)


def _ingest(
    paths: Paths, name: str, texts: list[str], repeats: int, *, masks: bool, limit: float
) -> Figure:
    key = ensure_key(paths)
    recorder = Recorder(paths, key) if masks else Recorder(paths, key, _as_it_is)
    numbers = count()

    def ours() -> None:
        # Each time another conversation of one session: all its rows are new.
        agent_id = f"{name}-{next(numbers)}"
        recorder.record_request("ingest", incoming_of(texts, agent_id=agent_id))

    table = sqlite3.connect(f"{paths.state_dir}/plain-{masks}.db", isolation_level=None)
    table.execute("PRAGMA journal_mode = WAL")
    table.execute("PRAGMA synchronous = NORMAL")
    table.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY, role TEXT, text TEXT)")

    def floor() -> None:
        table.execute("BEGIN IMMEDIATE")
        table.executemany(
            "INSERT INTO messages (role, text) VALUES ('user', ?)", [(text,) for text in texts]
        )
        table.execute("COMMIT")

    figure = beside(name, ours, floor, limit=limit, repeats=repeats)
    recorder.close()
    table.close()
    return figure


def _size(paths: Paths, texts: list[str]) -> Figure:
    recorder = Recorder(paths, ensure_key(paths))
    recorder.record_request("size", incoming_of(texts))
    recorder.close()
    size = os.stat(session_file(paths, "size")).st_size
    raw = sum(len(text.encode()) for text in texts)
    return Figure(
        name="file against its text", unit="MB", value=size / 1e6, floor=raw / 1e6,
        limit=SIZE_LIMIT, samples=1,
    )  # fmt: skip


def _resent(paths: Paths, size: int, repeats: int) -> Figure:
    """CPU of the recorder for a history it has, with one exchange more each time."""
    recorder = Recorder(paths, ensure_key(paths))
    conversation = Conversation("resent", size_bytes=size, folder=paths.home)
    ours: list[float] = []
    floors: list[float] = []
    for turn in range(repeats + 1):
        body = conversation.body()
        begun = time.process_time()
        recorder.record_request("resent", Incoming(agent="a", view=split_request(body)))
        between = time.process_time()
        hashlib.sha256(body).digest()
        ended = time.process_time()
        if turn:  # the first time all of it is new
            ours.append((between - begun) * 1000)
            floors.append((ended - between) * 1000)
        conversation.grow()
    recorder.close()
    return Figure(
        name="a resent history against SHA-256", unit="ms", value=median(ours),
        floor=median(floors), limit=RESENT_LIMIT, samples=repeats,
    )  # fmt: skip
