"""The light `dataclass` behaves as the standard one, as far as it goes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmem.base import light


def _classes(decorator: Any, field: Any) -> tuple[type, type]:
    @decorator(frozen=True, slots=True, kw_only=True)
    class Named:
        a: str
        b: int = 3
        c: list[int] = field(default_factory=list)

        @property
        def twice(self) -> int:
            return self.b * 2

    @decorator(slots=True)
    class Open:
        a: str
        b: int = 3

    return Named, Open


THEIRS, THEIRS_OPEN = _classes(dataclasses.dataclass, dataclasses.field)
OURS, OURS_OPEN = _classes(light.dataclass, light.field)


@light.dataclass(frozen=True, slots=True, kw_only=True)
class Pickled:
    """At the top of a module, as what is pickled has to be."""

    a: str
    b: int = 3


VALUES = st.fixed_dictionaries(
    {"a": st.text(max_size=3)},
    optional={"b": st.integers(0, 3), "c": st.lists(st.integers(0, 2), max_size=2)},
)


@given(VALUES, VALUES)
def test_instances_are_made_compared_shown_and_replaced_alike(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Ours: one meaning, two prices."""
    ours, theirs = OURS(**one), THEIRS(**one)
    assert repr(ours).rpartition(".")[2] == repr(theirs).rpartition(".")[2]
    assert (ours == OURS(**other)) == (theirs == THEIRS(**other))
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert [f.name for f in dataclasses.fields(ours)] == [
        f.name for f in dataclasses.fields(theirs)
    ]
    assert dataclasses.replace(ours, **other) == light.replace(ours, **other)
    assert dataclasses.asdict(light.replace(ours, **other)) == dataclasses.asdict(
        dataclasses.replace(theirs, **other)
    )
    assert ours.twice == theirs.twice and copy.copy(ours) == ours
    assert ours != theirs


@pytest.mark.parametrize("made", [(OURS, OURS_OPEN), (THEIRS, THEIRS_OPEN)])
def test_what_is_wrong_is_refused_alike(made: tuple[Any, Any]) -> None:
    """Ours."""
    named, opened = made
    for wrong in (lambda: named(), lambda: named("x"), lambda: named(a="x", z=1)):
        with pytest.raises(TypeError):
            wrong()
    for wrong in (lambda: opened(), lambda: opened("x", 1, 2), lambda: opened("x", a="y")):
        with pytest.raises(TypeError):
            wrong()
    one = named(a="x")
    for change in (lambda: setattr(one, "a", "y"), lambda: delattr(one, "a")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises(AttributeError):
        opened("x").z = 1
    changed = opened("x", 4)
    changed.b = 5
    assert changed.b == 5 and changed == opened("x", b=5)
    with pytest.raises(TypeError):
        hash(changed)


def test_equal_frozen_instances_are_one_key_and_survive_pickling() -> None:
    """Ours."""
    assert hash(Pickled(a="x")) == hash(Pickled(a="x", b=3))
    assert {Pickled(a="x"): 1}[Pickled(a="x")] == 1
    assert pickle.loads(pickle.dumps(Pickled(a="x", b=7))) == Pickled(a="x", b=7)
    assert copy.deepcopy(Pickled(a="x")) == Pickled(a="x")
