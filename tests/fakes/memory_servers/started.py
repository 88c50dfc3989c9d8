"""A provider by name, in front of its stand-in if it needs a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from openmem.base.paths import Paths
from openmem.memory.providers.base import Provider
from openmem.memory.providers.registry import provider_of
from openmem.memory.providers.server import OWN_USER, made
from openmem.memory.providers.wire import Address, Transport
from tests.fakes.memory_servers.cognee import Cognee
from tests.fakes.memory_servers.hindsight import Hindsight
from tests.fakes.memory_servers.mem0 import Mem0
from tests.fakes.memory_servers.serving import Stand, serving

KEY = "k-0123456789abcdef"
STANDS = {"hindsight": Hindsight, "mem0": Mem0, "cognee": Cognee}


@contextmanager
def stand_of(name: str) -> Iterator[Stand]:
    """Serve the stand-in of a provider; it wants the key `KEY`."""
    stand = STANDS[name](key=KEY)
    if isinstance(stand, Cognee):
        stand.user = OWN_USER
    with serving(stand) as served:
        yield served


def provider_to(
    stand: Stand, name: str, paths: Paths, *, transport: Transport | None = None, **more: object
) -> Provider:
    """Return a provider that speaks to a stand-in. `more`: of its address."""
    user = OWN_USER if name == "cognee" else ""
    values = {"key": KEY, "user": user, "seconds": 10.0, **more}
    address = Address(provider=name, url=stand.url, **values)  # type: ignore[arg-type]
    return made(name, paths, transport, address)


@contextmanager
def provider_on(name: str, paths: Paths) -> Iterator[Provider]:
    """A provider, ready for use."""
    if name == "local":
        provider = provider_of(name, paths)
        yield provider
        provider.close()
        return
    with stand_of(name) as stand:
        provider = provider_to(stand, name, paths)
        yield provider
        provider.close()
