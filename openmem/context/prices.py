"""What tokens cost: factors against an uncached input token, and dollars where the person knows.

The factors are of `templates/models.toml`; a price file of the person's own gives dollars per
million tokens and overrules them. Without one there is no money anywhere, only shares.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.base.config import load_config
from openmem.base.errors import InvalidConfig
from openmem.base.paths import Paths
from openmem.context.models import Model, load_models, model_of

OUTPUT_FACTOR = 5.0  # list prices of the vendors at hand: 5 to 8
_MILLION = 1_000_000
_KEYS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model's tokens cost, in uncached input tokens. `dollars`: of a million of these."""

    read: float = 0.1
    write: float = 1.25
    write_1h: float = 2.0
    output: float = OUTPUT_FACTOR
    dollars: float | None = None

    def write_for(self, ttl_seconds: float) -> float:
        """Return the factor of a write that is kept for so long."""
        return self.write_1h if ttl_seconds > 300 else self.write

    def units(
        self, *, read: float, written: float, uncached: float, output: float, ttl_seconds: float
    ) -> float:
        """Return what these tokens cost together, in uncached input tokens."""
        write = self.write_for(ttl_seconds)
        return uncached + read * self.read + written * write + output * self.output

    def money(self, units: float) -> float | None:
        """Return dollars, None when no price is known."""
        return None if self.dollars is None else units * self.dollars / _MILLION


class Prices:
    """Prices by model name; the longest known beginning of a name counts."""

    def __init__(self, models: Mapping[str, Model], own: Mapping[str, Price]) -> None:
        self._models, self._own = models, own

    @property
    def know_money(self) -> bool:
        """Whether any model has a price in dollars."""
        return bool(self._own)

    def of(self, model: str) -> Price:
        """Return a model's price: the person's, else the known factors without dollars."""
        plain = model.lower().rsplit("/", 1)[-1]
        matching = [name for name in self._own if plain.startswith(name.lower())]
        if matching:
            return self._own[max(matching, key=len)]
        known = model_of(model, self._models)
        return Price(read=known.read, write=known.write, write_1h=known.write_1h)


def prices_of(paths: Paths, path: str = "") -> Prices:
    """Return the prices of the file that is named, else of the one that the settings name.

    `path`: `~` may stand in it. InvalidConfig names what is wrong.
    """
    if not path:
        path = load_config(paths.config_file, paths.environ).text("context.price_file")
    return load_prices(os.path.expanduser(path))


def load_prices(path: str = "") -> Prices:
    """Return the prices. `path`: of a price file, "" for none. InvalidConfig names file and key."""
    models = load_models()
    return Prices(models, _own_prices(path, models) if path else {})


def _own_prices(path: str, models: Mapping[str, Model]) -> dict[str, Price]:
    import tomllib

    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} does not parse: {error}.") from None
    table = document.get("models")
    if not isinstance(table, dict) or not table or set(document) != {"models"}:
        raise InvalidConfig(
            f'{path}: expected tables [models."NAME"] and nothing else.',
            hint="See docs/how-to/long-sessions.md for an example.",
        )
    return {name: _decoded(path, name, entry, models) for name, entry in table.items()}


def _decoded(path: str, name: str, entry: object, models: Mapping[str, Model]) -> Price:
    if not isinstance(entry, dict):
        raise InvalidConfig(f"{path}: models.{name} is not a table.")
    unknown = sorted(set(entry) - set(_KEYS))
    if unknown:
        known = ", ".join(_KEYS)
        raise InvalidConfig(f"{path}: models.{name} has {unknown[0]!r}; known are {known}.")
    given: dict[str, float] = {}
    for key, value in entry.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
            raise InvalidConfig(
                f"{path}: models.{name}.{key} is {value!r}, expected dollars per million tokens."
            )
        given[key] = float(value)
    base = given.get("input", 0.0)
    if base <= 0:
        raise InvalidConfig(f"{path}: models.{name}.input is missing or not above 0.")
    model = model_of(name, models)
    return Price(
        read=given["cache_read"] / base if "cache_read" in given else model.read,
        write=given["cache_write"] / base if "cache_write" in given else model.write,
        write_1h=given["cache_write_1h"] / base if "cache_write_1h" in given else model.write_1h,
        output=given["output"] / base if "output" in given else OUTPUT_FACTOR,
        dollars=base,
    )
