"""`config.toml` as Codex reads it: the provider in force, and where it sends requests.

Idea: a profile may name another provider, and a provider may have an address of its own; the one
in force is where an address of ours belongs. Invariant: nothing is guessed: a provider that we
cannot route is said to be one.
Source: Codex 0.171.0, observed; its configuration reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openmem.agents.codex.places import BUILT_IN
from openmem.agents.reading import table_at, text_at
from openmem.base.errors import OpenmemError
from openmem.plan.action import Json, Keys
from openmem.plan.edit.toml import TomlText
from openmem.plan.system import System

BASE_URL: Keys = ("openai_base_url",)
# Providers that Codex knows by itself and that speak to no address of the Responses API.
_UNROUTED = {
    "ollama": "a model on this machine",
    "lmstudio": "a model on this machine",
    "amazon-bedrock": "Amazon Bedrock",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The provider in force. `place`: keys of its address in the file; empty when it has none that
    we could set, and then `unrouted` says what it is. `url`: what stands there, "" for nothing."""

    name: str
    place: Keys
    url: str = ""
    unrouted: str = ""

    @property
    def is_built_in(self) -> bool:
        return self.place == BASE_URL


def read_toml(system: System, path: str) -> Json:
    """Return the value of a file, an empty table for one that is missing.

    Unparseable with line and column, Refused for a file that cannot be read.
    """
    data = system.read(path)
    return {} if data is None else TomlText.parse(data, path).value()


def read_toml_or_none(system: System, path: str) -> Json:
    """Return the value of a file that is only looked at, None when it cannot be used."""
    try:
        return read_toml(system, path)
    except OpenmemError:
        return None  # not ours to mend; what it would have said is unknown


def provider_in_force(config: Json) -> Provider:
    """Return the provider that a run without further flags uses."""
    profile = text_at(config, ("profile",))
    name = text_at(config, ("profiles", profile, "model_provider")) if profile else ""
    name = name or text_at(config, ("model_provider",)) or BUILT_IN
    table = table_at(config, ("model_providers", name))
    if name == BUILT_IN and not table:
        return Provider(name=name, place=BASE_URL, url=text_at(config, BASE_URL).strip())
    if not table:
        what = _UNROUTED.get(name, "a provider that its settings do not describe")
        return Provider(name=name, place=(), unrouted=what)
    place: Keys = ("model_providers", name, "base_url")
    return Provider(name=name, place=place, url=text_at(config, place).strip())


def addresses_in(config: Json) -> Iterator[tuple[Keys, str]]:
    """Yield every address that the file gives, in force or not, with its place."""
    own = text_at(config, BASE_URL).strip()
    if own:
        yield BASE_URL, own
    for name in table_at(config, ("model_providers",)):
        place: Keys = ("model_providers", name, "base_url")
        url = text_at(config, place).strip()
        if url:
            yield place, url
