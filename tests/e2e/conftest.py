"""The scene of every end-to-end test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.scene import Scene, a_scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A machine with Claude Code and openmem's commands, not yet set up."""
    with FakeAnthropic() as server, a_scene(tmp_path, server) as made:
        yield made
