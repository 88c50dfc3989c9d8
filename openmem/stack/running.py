"""A stack brought up and watched until it is well; what its images were is written down.

Trap: a container that restarts is seen as running most of the time, so its number of restarts and
its health decide, not its state alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.base.paths import Paths
from openmem.stack.compose import Stack, project_of
from openmem.stack.engine import Container, Engine, connect
from openmem.stack.pins import pins
from openmem.stack.plan import SERVICES

Tell = Callable[[str], None]
WELL_SECONDS = 300.0
_RESTARTS = 3


def images_of(provider: str) -> dict[str, str]:
    """Return the images that a stack fetches, by service."""
    known = pins()
    return {name: known[name].reference for name in SERVICES[provider] if known[name].image}


def fetch(engine: Engine, provider: str, tell: Tell) -> None:
    """Fetch the images that are not here yet. Missing when one cannot be had."""
    for image in images_of(provider).values():
        if not engine.has_image(image):
            tell(f"fetching {image}")
            engine.pull(image, tell)


def start(paths: Paths, provider: str, tell: Tell) -> None:
    """Bring a stack up and wait until it is well. Missing, Failed."""
    engine = connect(paths.environ)
    try:
        fetch(engine, provider, tell)
        stack = Stack(paths, provider, engine.address)
        tell(f"starting {provider}")
        stack.up()
        wait_until_well(engine, provider, tell)
        lock(engine, stack)
    finally:
        engine.close()


def lock(engine: Engine, stack: Stack) -> None:
    """Write down the digests of what runs, once."""
    import os

    if os.path.exists(stack.lock_path):
        return
    found = {}
    for service, image in images_of(stack.provider).items():
        digest = engine.digest(image)
        if digest:
            found[service] = f"{image}@{digest}"
    stack.write_lock(found)


def wait_until_well(
    engine: Engine,
    provider: str,
    tell: Tell,
    *,
    seconds: float = WELL_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until every container is healthy. Failed names the one that is not, and why."""
    ends = time.monotonic() + seconds
    told = ""
    while True:
        found = engine.containers(project_of(provider))
        state = state_of(found)
        if state.is_well:
            return
        if state.fault or time.monotonic() >= ends:
            raise Failed(
                state.fault or f"{provider} was not well within {seconds:.0f} s: {state.words}.",
                hint="See what it says: openmem logs",
                code="stack-unwell",
            )
        if state.words != told:
            told = state.words
            tell(told)
        sleep(1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a stack fares. `fault`: why it will not get well by itself, "" while it may."""

    is_well: bool
    words: str
    fault: str = ""


def state_of(containers: Sequence[Container]) -> State:
    """Return how a stack fares, from its containers."""
    if not containers:
        return State(is_well=False, words="no container")
    words = ", ".join(f"{one.service} {one.health or one.state}" for one in containers)
    for one in containers:
        if one.restarts >= _RESTARTS or one.state in ("exited", "dead"):
            why = f"ended {one.restarts} times" if one.restarts else f"ended ({one.exit_code})"
            return State(is_well=False, words=words, fault=f"container {one.name} {why}.")
        if one.health == "unhealthy":
            return State(
                is_well=False, words=words, fault=f"container {one.name} runs and is not well."
            )
    is_well = all(c.state == "running" and c.health in ("healthy", "") for c in containers)
    return State(is_well=is_well, words=words)
