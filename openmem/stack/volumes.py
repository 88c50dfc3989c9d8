"""The named volumes of a provider's stack, as its template declares them."""

from __future__ import annotations

import yaml

from openmem.base.assets import read_asset


def volume_names(provider: str) -> tuple[str, ...]:
    """Return the names by which the engine knows a stack's data."""
    document = yaml.safe_load(read_asset("templates", "compose", f"{provider}.yaml"))
    return tuple(str(volume["name"]) for volume in document["volumes"].values())
