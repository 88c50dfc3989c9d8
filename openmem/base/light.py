"""`dataclass` at a price that a hook can pay on every prompt.

Idea: the standard decorator imports `inspect` and writes and compiles source for each class, 15 ms
and 0.6 ms apiece; this one makes the same frozen classes from closures, in a fiftieth of that.
Invariant: what is offered here behaves as there (a property test compares the two), and
`dataclasses.replace`, `asdict` and `fields` work on the instances: what they need is made when they
ask. Trap: only the plain case: no inheritance of fields, no `__post_init__`, no `InitVar`. For
modules that a hook loads; everywhere else the standard decorator is right.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` costs as much as all of this; type checkers know the name

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import Any
else:
    _NONE = object()

    class _Factory:
        __slots__ = ("make",)

        def __init__(self, make: Callable[[], Any]) -> None:
            self.make = make

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """Return the mark of a field whose default is made anew for each instance."""
        return _Factory(default_factory)

    def replace(instance: Any, **changes: Any) -> Any:
        """Return a copy with some fields changed. TypeError for a field that there is not."""
        kind = type(instance)
        values = {name: getattr(instance, name) for name in kind.__light_fields__}
        return kind(**{**values, **changes})

    def dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Any:
        """Return the decorator; `slots` is always on."""

        def decorate(given: type) -> type:
            return _made(given, frozen, kw_only)

        return decorate

    def _made(given: type, frozen: bool, kw_only: bool) -> type:
        names = tuple(given.__annotations__)
        defaults = {name: given.__dict__.get(name, _NONE) for name in names}
        body = {
            name: value
            for name, value in given.__dict__.items()
            if name not in defaults and name not in ("__dict__", "__weakref__")
        }
        body.update(
            __slots__=names,
            __light_fields__=names,
            __dataclass_fields__=_Fields(defaults, kw_only),
            __match_args__=() if kw_only else names,
            __repr__=_repr,
            __reduce__=_reduce,
        )
        if frozen:
            body.update(__setattr__=_frozen, __delattr__=_frozen)
        made = type(given)(given.__name__, given.__bases__, body)
        made.__qualname__ = given.__qualname__
        setters = {name: getattr(made, name).__set__ for name in names}
        made.__init__ = _init_of(made, names, defaults, setters, kw_only)
        getters = tuple(getattr(made, name).__get__ for name in names)

        def same(self: Any, other: Any) -> Any:
            if type(other) is not type(self):
                return NotImplemented
            return all(get(self) == get(other) for get in getters)

        def hashed(self: Any) -> int:
            return hash(tuple(get(self) for get in getters))

        made.__eq__ = same
        made.__hash__ = hashed if frozen else None
        return made

    def _init_of(
        made: type, names: tuple, defaults: dict, setters: dict, kw_only: bool
    ) -> Callable[..., None]:
        needed = frozenset(name for name in names if defaults[name] is _NONE)
        optional = tuple(
            (name, setters[name], value) for name, value in defaults.items() if value is not _NONE
        )

        def init(self: Any, *args: Any, **given: Any) -> None:
            if args:
                if kw_only or len(args) > len(names):
                    raise TypeError(f"{made.__qualname__}: too many positional arguments")
                for name, value in zip(names, args, strict=False):
                    if name in given:
                        raise TypeError(f"{made.__qualname__}: {name!r} is given twice")
                    given[name] = value
            if not needed <= given.keys():
                missing = ", ".join(name for name in names if name in needed - given.keys())
                raise TypeError(f"{made.__qualname__}: missing {missing}")
            for name, value in given.items():
                setter = setters.get(name)
                if setter is None:
                    raise TypeError(f"{made.__qualname__}: there is no field {name!r}")
                setter(self, value)
            if len(given) < len(names):
                for name, setter, default in optional:
                    if name not in given:
                        setter(self, default.make() if type(default) is _Factory else default)

        return init

    def _repr(self: Any) -> str:
        kind = type(self)
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in kind.__light_fields__)
        return f"{kind.__qualname__}({parts})"

    def _reduce(self: Any) -> tuple:
        kind = type(self)
        return _rebuilt, (kind, tuple(getattr(self, name) for name in kind.__light_fields__))

    def _rebuilt(kind: type, values: tuple) -> Any:
        return kind(**dict(zip(kind.__light_fields__, values, strict=True)))

    def _frozen(self: Any, name: str, *_: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    class _Fields:
        """Stands where the standard library looks for the fields, and makes them when it does."""

        def __init__(self, defaults: dict, kw_only: bool) -> None:
            self._defaults, self._kw_only, self._fields = defaults, kw_only, None

        def __get__(self, instance: Any, owner: type) -> dict:
            if self._fields is None:
                import dataclasses

                self._fields = {
                    name: _field_of(dataclasses, owner, name, value, self._kw_only)
                    for name, value in self._defaults.items()
                }
            return self._fields

    def _field_of(dataclasses: Any, owner: type, name: str, value: Any, kw_only: bool) -> Any:
        given = {}
        if type(value) is _Factory:
            given["default_factory"] = value.make
        elif value is not _NONE:
            given["default"] = value
        made = dataclasses.field(kw_only=kw_only, **given)
        made.name, made.type = name, owner.__annotations__[name]
        made._field_type = dataclasses._FIELD
        return made
