"""A provider's stand-in, and memory over it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from openmem.base.paths import Paths
from tests.fakes.memory_servers.cognee import Cognee
from tests.fakes.memory_servers.hindsight import Hindsight
from tests.fakes.memory_servers.mem0 import Mem0
from tests.fakes.memory_servers.started import stand_of


@pytest.fixture
def paths(home: object) -> Paths:
    return Paths(os.environ)


@pytest.fixture
def hindsight() -> Iterator[Hindsight]:
    with stand_of("hindsight") as stand:
        assert isinstance(stand, Hindsight)
        yield stand


@pytest.fixture
def mem0() -> Iterator[Mem0]:
    with stand_of("mem0") as stand:
        assert isinstance(stand, Mem0)
        yield stand


@pytest.fixture
def cognee() -> Iterator[Cognee]:
    with stand_of("cognee") as stand:
        assert isinstance(stand, Cognee)
        yield stand
