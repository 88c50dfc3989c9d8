"""What a plant is: a secret, the text that holds it, and the names it usually has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """`value` is what stands in the file; `secret` is the part of it that must not stay.

    `names`: variables that people keep it in. `bare`: it is known by its own form, so it may
    stand in prose too, away from any name.
    """

    value: str
    secret: str
    names: tuple[str, ...]
    bare: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    make: Callable[[Random], Plant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A plant in its place: `text` as a session would hold it."""

    kind: str
    place: str
    text: str
    secret: str
