"""Fixtures: a store, an endpoint, and settings that name it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.base.vectors.settings import VectorSettings
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY
from tests.fakes.embedding_server import Embedder
from tests.fakes.wire import HttpServer


@pytest.fixture
def paths(home: Path) -> Paths:
    found = Paths(dict(os.environ))
    Path(found.key_file).parent.mkdir(parents=True)
    Path(found.key_file).write_text(KEY.hex())
    return found


@pytest.fixture
def recorder(paths: Paths) -> Iterator[Recorder]:
    made = Recorder(paths, KEY)
    yield made
    made.close()


@pytest.fixture
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture
def settings(embedder: Embedder) -> Iterator[VectorSettings]:
    with HttpServer(embedder.handle) as server:
        yield VectorSettings(model="fake", url=f"{server.url}/v1", timeout_seconds=20)
        assert server.faults == []
