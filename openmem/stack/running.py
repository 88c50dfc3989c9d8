"""A stack brought up and watched until it is well; what its images were is written down.

Trap: a container that restarts is seen as running most of the time, so its number of restarts and
its health decide, not its state alone. And an engine without a service manager (Podman in a
container, in WSL) never runs a health check, so what starts for ever is asked itself.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.base.paths import Paths
from openmem.stack.compose import Stack, project_of
from openmem.stack.engine import Container, Engine, connect
from openmem.stack.pins import pins
from openmem.stack.plan import SERVICES, compose_path
from openmem.stack.render import port_in

Tell = Callable[[str], None]
WELL_SECONDS = 300.0
_RESTARTS = 3
_ENDED = ("exited", "stopped", "dead")  # Podman says "stopped"
_ASK_SECONDS = 3.0
HEALTH_PATHS = {"hindsight": "/health", "mem0": "/auth/setup-status", "cognee": "/health"}


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
        wait_until_well(engine, provider, tell, port=port_of(paths, provider))
        lock(engine, stack)
    finally:
        engine.close()


def lock(engine: Engine, stack: Stack) -> None:
    """Write down the digests of what runs, once."""
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
    port: int = 0,
    seconds: float = WELL_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until every container is healthy, or the server on `port` answers while the engine has
    not looked yet. Failed names the one that is not, and why."""
    ends = time.monotonic() + seconds
    told = ""
    while True:
        found = engine.containers(project_of(provider))
        state = state_of(found)
        if state.is_well or (state.may_be_well and answers(provider, port)):
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
    """How a stack fares. `fault`: why it will not get well by itself, "" while it may;
    `may_be_well`: all runs, and the engine has not looked at its health yet."""

    is_well: bool
    words: str
    fault: str = ""
    may_be_well: bool = False


def state_of(containers: Sequence[Container]) -> State:
    """Return how a stack fares, from its containers."""
    if not containers:
        return State(is_well=False, words="no container")
    words = ", ".join(f"{one.service} {one.health or one.state}" for one in containers)
    for one in containers:
        if one.restarts >= _RESTARTS or one.state in _ENDED:
            why = f"ended {one.restarts} times" if one.restarts else f"ended ({one.exit_code})"
            return State(is_well=False, words=words, fault=f"container {one.name} {why}.")
        if one.health == "unhealthy":
            return State(
                is_well=False, words=words, fault=f"container {one.name} runs and is not well."
            )
    is_running = all(one.state == "running" for one in containers)
    is_well = is_running and all(one.health in ("healthy", "") for one in containers)
    return State(is_well=is_well, words=words, may_be_well=is_running and not is_well)


def answers(provider: str, port: int) -> bool:
    """Return whether a provider's server on this machine says by itself that it is well."""
    if not port:
        return False
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", HEALTH_PATHS[provider])
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # not yet; the caller asks again or says so
    finally:
        connection.close()


def port_of(paths: Paths, provider: str) -> int:
    """Return the port that a stack publishes, 0 when its file is not there."""
    try:
        with open(compose_path(paths, provider), encoding="utf-8", errors="replace") as file:
            return port_in(file.read())
    except FileNotFoundError:
        return 0
