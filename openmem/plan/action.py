"""What openmem will do, as values: five kinds of step and the plan that orders them.

Idea: a write is resolved to bytes when it is planned, so the diff, the dry run, `--json` and the
apply all read one value. Invariant: every step on a file names the digest of what is there now.
Trap: `data` holds the whole file, also what the person keeps secret in it; render it only through
`diff.py`, save it only through `saved.py`, both of which mask.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from openmem.base.io import ABSENT, digest_of

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Key = str | int
Keys = tuple[Key, ...]
Form = Literal["", "json", "jsonc", "toml", "block"]


def canonical(value: Json) -> str:
    """Return one text per JSON value: compact, keys sorted, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal; true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def copied(value: Json) -> Json:
    """Return a value that shares no list or table with `value`."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change inside a file, and, once planned, how to take out exactly that change.

    `keys`: path to the value (`set`, `remove`) or to the list (`append`). `marker`: a text that
    only an entry of ours holds; an older form of ours is found by it and replaced.
    The rest is filled in by the planner. `digest`: of the value as `canonical` writes it; a
    receipt keeps it in place of the value. `was`: source text of what we replaced or removed,
    None when nothing was there. `index`: place in the list or table. `made`: how many tables
    above the value did not exist, or went with it. `blank`: what stood between the brackets of
    the innermost one that did exist, when it was empty.
    """

    keys: Keys
    op: Literal["set", "append", "remove"]
    value: Json = None
    marker: str = ""
    digest: str = ""
    was: str | None = None
    index: int = -1
    made: int = 0
    blank: str = ""

    @property
    def value_digest(self) -> str:
        return self.digest or digest_of(canonical(self.value).encode())


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that no rendering shows. `reference`: `env:NAME` or `file:/path`, where a saved plan
    finds it again, or `new:NAME`, made by chance when the plan is loaded; a plan that holds a
    secret without one cannot be saved."""

    text: str
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """Edits of ours that a write takes out of a file of this form, oldest first."""

    form: Form
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """Make a file hold `data`. `before`: digest of what is there now, or ABSENT.

    `mode`: None keeps the file's own (600 for a new one). `form` and `edits` say which of the
    bytes are ours, so that they can be taken out of a file that somebody rewrote meanwhile.
    `out`: all that the write does is to take these out, in this order; empty when it does more.
    """

    path: str
    before: str
    data: bytes
    mode: int | None = None
    why: str
    form: Form = ""
    edits: tuple[Edit, ...] = ()
    secrets: tuple[Secret, ...] = ()
    out: tuple[TakenOut, ...] = ()

    @property
    def after(self) -> str:
        return digest_of(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """Remove a file that still has the digest `before`."""

    path: str
    before: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDir:
    """Make a folder, and its missing parents, with `mode`."""

    path: str
    why: str
    mode: int = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDir:
    """Remove a folder if it is empty by then; one that is not stays, which is no fault."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """Run a program. `probe`: a command that changes nothing and exits 0 when it is done already.

    `undo`: the command that takes it back, empty when nothing does. `only_if_done`: the other
    sense of the probe, for an undo: run only when there is something to take back.
    """

    argv: tuple[str, ...]
    why: str
    probe: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    only_if_done: bool = False
    timeout_seconds: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualStep:
    """Something only the person can do; shown, never carried out."""

    text: str
    why: str


Action = WriteFile | RemoveFile | MakeDir | RemoveDir | RunCommand | ManualStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Something an undo does not touch, and why. `keys`: the place inside the file, if one."""

    path: str
    why: str
    keys: Keys = ()
    code: str = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Ordered actions, and what the person should know.

    `left`: what stays although it was asked to go. `undoes`: numbers of the runs this takes back.
    """

    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    undoes: tuple[int, ...] = ()

    def __add__(self, other: Plan) -> Plan:
        """Return both plans, this one first; what both warn of or leave is said once.

        A write that starts from what an earlier one leaves is folded into it, and one that both
        hold is kept once, so a file is shown, copied and written once.
        """
        return Plan(
            actions=_folded(self.actions + other.actions),
            warnings=tuple(dict.fromkeys(self.warnings + other.warnings)),
            left=tuple(dict.fromkeys(self.left + other.left)),
            undoes=self.undoes + other.undoes,
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do; steps by hand count as something."""
        return not self.actions and not self.undoes

    def with_warnings(self, *warnings: str) -> Plan:
        return replace(self, warnings=self.warnings + warnings)


def _folded(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    found: list[Action] = []
    places: dict[str, int] = {}  # of the last write to each path
    for action in actions:
        if isinstance(action, WriteFile) and action.path in places:
            place = places[action.path]
            earlier = found[place]
            assert isinstance(earlier, WriteFile)
            if (earlier.before, earlier.data) == (action.before, action.data):
                continue
            if earlier.after == action.before and earlier.form == action.form:
                found[place] = _joined(earlier, action)
                continue
        if isinstance(action, WriteFile):
            places[action.path] = len(found)
        found.append(action)
    return tuple(found)


def _joined(earlier: WriteFile, later: WriteFile) -> WriteFile:
    words = [earlier.why] if later.why in earlier.why.split(", ") else [earlier.why, later.why]
    return replace(
        later,
        before=earlier.before,
        mode=earlier.mode if later.mode is None else later.mode,
        why=", ".join(words),
        edits=earlier.edits + later.edits if earlier.edits and later.edits else (),
        out=earlier.out + later.out if earlier.out and later.out else (),
        secrets=earlier.secrets + later.secrets,
    )


def plan_of(actions: Iterable[Action], *warnings: str) -> Plan:
    """Return a plan of these actions."""
    return Plan(actions=tuple(actions), warnings=warnings)


__all__ = [
    "ABSENT",
    "Action",
    "Edit",
    "Form",
    "Json",
    "Key",
    "Keys",
    "Left",
    "MakeDir",
    "ManualStep",
    "Plan",
    "RemoveDir",
    "RemoveFile",
    "RunCommand",
    "Secret",
    "TakenOut",
    "WriteFile",
    "canonical",
    "copied",
    "plan_of",
    "same",
]
