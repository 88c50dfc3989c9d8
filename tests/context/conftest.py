"""A recorder over a person's empty store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths({"HOME": str(home)})


@pytest.fixture
def recorder(paths: Paths) -> Iterator[Recorder]:
    recorder = Recorder(paths, KEY)
    yield recorder
    recorder.close()
