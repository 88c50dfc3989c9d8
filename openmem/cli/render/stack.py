"""A provider's containers as lines and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openmem.cli.render.table import cells, padded

if TYPE_CHECKING:
    from openmem.stack.engine import Container


def container_lines(containers: Sequence[Container]) -> list[str]:
    """Return one line for each container: service, state, health, how often it ended."""
    column = max((cells(one.service) for one in containers), default=0) + 2
    lines = []
    for one in containers:
        words = [one.state, one.health if one.health != one.state else ""]
        if one.restarts:
            words.append(f"ended {one.restarts} times by itself")
        lines.append(f"{padded(one.service, column)}{', '.join(word for word in words if word)}")
    return lines


def stack_data(provider: str, containers: Sequence[Container]) -> dict[str, Any]:
    """Return a stack as data of the envelope."""
    return {
        "provider": provider,
        "containers": [
            {
                "service": one.service,
                "name": one.name,
                "state": one.state,
                "health": one.health,
                "restarts": one.restarts,
            }
            for one in containers
        ],
    }
