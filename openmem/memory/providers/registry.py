"""Which providers there are, by the name that the settings use.

Trap: a name that is planned is refused in words of its own, so that nobody takes it for a typo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from openmem.base.errors import Unsupported, Usage
from openmem.base.paths import Paths

if TYPE_CHECKING:
    from openmem.memory.providers.base import BankAdmin, Provider

PLANNED = ("graphiti", "letta", "zep")


def _local(paths: Paths) -> Provider:
    from openmem.memory.providers.local.provider import LocalProvider

    return LocalProvider(paths)


def _on_server(name: str) -> Callable[[Paths], Provider]:
    def make(paths: Paths) -> Provider:
        from openmem.memory.providers.server import made

        return made(name, paths)

    return make


PROVIDERS: Mapping[str, Callable[[Paths], Provider]] = {
    "local": _local,
    **{name: _on_server(name) for name in ("hindsight", "mem0", "cognee")},
}


def provider_of(name: str, paths: Paths) -> Provider:
    """Return a provider by its name; nothing is opened yet. Unsupported, Usage."""
    if name in PLANNED:
        raise Unsupported(f"provider {name} is planned and not there yet.", code="planned")
    if name not in PROVIDERS:
        raise Usage(f"there is no provider {name!r}.", hint=f"Known: {', '.join(PROVIDERS)}.")
    return PROVIDERS[name](paths)


def bank_admin_of(provider: Provider) -> BankAdmin:
    """Return the same provider as one that can drop banks. Unsupported("drop-bank")."""
    from openmem.memory.providers.base import unsupported

    if "drop-bank" not in provider.capabilities:
        unsupported(provider.name, "drop-bank")
    return provider  # type: ignore[return-value]  # the capability says that it has the method
