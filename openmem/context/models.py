"""What is known of models: windows and cache prices, from `templates/models.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openmem.base.assets import read_asset
from openmem.base.errors import InvalidConfig

ASSET = "models.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """`window`: tokens. `read`, `write`, `write_1h`: against an uncached input token."""

    window: int = 200_000
    read: float = 0.1
    write: float = 1.25
    write_1h: float = 2.0


def load_models() -> dict[str, Model]:
    """Return the table by name prefix. InvalidConfig names the entry that is wrong."""
    import tomllib

    document = tomllib.loads(read_asset("templates", ASSET)).get("models", {})
    return {name: _decoded(name, entry) for name, entry in document.items()}


def _decoded(name: str, entry: Mapping[str, object]) -> Model:
    window = entry.get("window", 200_000)
    factors = [entry.get(key, default) for key, default in _FACTORS]
    if not isinstance(window, int) or not all(isinstance(f, int | float) for f in factors):
        raise InvalidConfig(f"{ASSET}: {name} holds something that is not a number.")
    read, write, write_1h = (float(f) for f in factors if isinstance(f, int | float))
    return Model(window=window, read=read, write=write, write_1h=write_1h)


_FACTORS = (("read", 0.1), ("write", 1.25), ("write_1h", 2.0))


def model_of(name: str, models: Mapping[str, Model]) -> Model:
    """Return what is known of a model: the longest prefix wins; a cautious default for others."""
    plain = name.lower().rsplit("/", 1)[-1]
    matching = [prefix for prefix in models if plain.startswith(prefix.lower())]
    return models[max(matching, key=len)] if matching else Model()
