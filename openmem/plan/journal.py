"""What a run did, on disk before it did it: one JSON file per run below `Paths.receipts_dir`.

Idea: the file is written, durably, before the first change, with the digest before and after of
every file; so after a crash the bytes on disk tell how far the run came. Invariant: a run is
"undone" exactly when a finished run says that it undoes it, so one rename commits an undo.
Trap: a receipt holds no value that was written, only its digest; the bytes of before stand in the
run's backup folder, mode 600.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from openmem.base.errors import InvalidConfig
from openmem.base.io import ABSENT
from openmem.base.paths import Paths
from openmem.plan.action import Edit, Form, Left
from openmem.plan.fields import Fields, invalid
from openmem.plan.system import System

SCHEMA = 1
State = Literal["started", "finished", "rolled-back"]
EntryKind = Literal["write", "remove", "make-dir", "remove-dir", "run", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One step of a run. `backup`: name below the run's backup folder, "" when nothing was there.

    `made_dirs`: folders this step made, outermost first. `ran`: whether a command was started.
    `is_back`: the write took ours out of the file, so that nothing in it is ours from then on.
    """

    kind: EntryKind
    path: str = ""
    why: str = ""
    before: str = ABSENT
    after: str = ABSENT
    mode_before: int | None = None
    mode_after: int | None = None
    backup: str = ""
    form: Form = ""
    edits: tuple[Edit, ...] = ()
    is_back: bool = False
    made_dirs: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    ran: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One run. `number`: from 1, 0 when there was nothing to do and nothing was kept.

    `undoes`: runs this one took back. `undone_by`: the run that took this one back, 0 if none.
    `state_dirs`: folders made for openmem's own state.
    """

    number: int = 0
    label: str = ""
    state: State = "finished"
    started_at: str = ""
    ended_at: str = ""
    version: str = ""
    entries: tuple[Entry, ...] = ()
    undoes: tuple[int, ...] = ()
    left: tuple[Left, ...] = ()
    state_dirs: tuple[str, ...] = ()
    undone_by: int = 0

    @property
    def is_active(self) -> bool:
        """Whether an undo would have something to take back."""
        return self.state != "rolled-back" and not self.undone_by and not self.undoes

    @property
    def is_cut_off(self) -> bool:
        """Whether the run was killed half way, unless it runs now; only the lock tells."""
        return self.state == "started" and not self.undone_by

    @property
    def paths_written(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(e.path for e in self.entries if e.kind in ("write", "remove")))


def journal_path(paths: Paths, number: int) -> str:
    return f"{paths.receipts_dir}/{number:04d}.json"


def backup_folder(paths: Paths, number: int) -> str:
    return f"{paths.backups_dir}/{number:04d}"


def lock_path(paths: Paths) -> str:
    return f"{paths.receipts_dir}/lock"


def write_receipt(system: System, paths: Paths, receipt: Receipt) -> None:
    """Write a run's file, whole and durable."""
    text = json.dumps(_receipt_out(receipt), indent=1, ensure_ascii=True) + "\n"
    system.write(journal_path(paths, receipt.number), text.encode(), mode=0o600)


def read_receipts(system: System, paths: Paths) -> tuple[Receipt, ...]:
    """Return every run, oldest first. InvalidConfig for a file that is not a receipt of ours."""
    found: list[Receipt] = []
    for name in system.list(paths.receipts_dir):
        stem, _, suffix = name.partition(".")
        if suffix != "json" or not stem.isdigit():
            continue
        path = f"{paths.receipts_dir}/{name}"
        data = system.read(path)
        if data is not None:
            found.append(_receipt_in(data, path))
    undone_by = {
        number: receipt.number
        for receipt in found
        if receipt.state == "finished"
        for number in receipt.undoes
    }
    return tuple(replace(r, undone_by=undone_by.get(r.number, 0)) for r in found)


def _receipt_out(receipt: Receipt) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "number": receipt.number,
        "label": receipt.label,
        "state": receipt.state,
        "started_at": receipt.started_at,
        "ended_at": receipt.ended_at,
        "version": receipt.version,
        "undoes": list(receipt.undoes),
        "state_dirs": list(receipt.state_dirs),
        "entries": [_entry_out(entry) for entry in receipt.entries],
        "left": [left_out(left) for left in receipt.left],
    }


def _entry_out(entry: Entry) -> dict[str, object]:
    made: dict[str, object] = {"kind": entry.kind}
    default = Entry(kind=entry.kind)
    for name in Entry.__dataclass_fields__:
        value = getattr(entry, name)
        if name == "edits":
            value = [edit_out(edit) for edit in value]
        elif isinstance(value, tuple):
            value = list(value)
        if name != "kind" and value != getattr(default, name) and value != []:
            made[name] = value
    return made


def edit_out(edit: Edit) -> dict[str, object]:
    """Return an edit without its value: keys, digest, and how to take it out."""
    return {
        "keys": list(edit.keys),
        "op": edit.op,
        "marker": edit.marker,
        "digest": edit.value_digest,
        "was": edit.was,
        "index": edit.index,
        "made": edit.made,
        "blank": edit.blank,
    }


def left_out(left: Left) -> dict[str, object]:
    return {"path": left.path, "why": left.why, "keys": list(left.keys), "code": left.code}


def _receipt_in(data: bytes, path: str) -> Receipt:
    try:
        fields = Fields(json.loads(data), path)
    except ValueError:
        raise invalid(path, "the file", "JSON") from None
    if fields.number("schema") != SCHEMA:
        raise InvalidConfig(
            f"{path} was written by another version of openmem (schema {fields.number('schema')}).",
            hint="Use that version, or a newer one.",
        )
    return Receipt(
        number=fields.number("number"),
        label=fields.text("label"),
        state=cast("State", fields.word("state", get_args(State))),
        started_at=fields.text("started_at"),
        ended_at=fields.text("ended_at"),
        version=fields.text("version"),
        undoes=fields.numbers("undoes"),
        state_dirs=fields.texts("state_dirs"),
        entries=tuple(_entry_in(item) for item in fields.tables("entries")),
        left=tuple(left_in(item) for item in fields.tables("left")),
    )


def _entry_in(fields: Fields) -> Entry:
    return Entry(
        kind=cast("EntryKind", fields.word("kind", get_args(EntryKind))),
        path=fields.text("path"),
        why=fields.text("why"),
        before=fields.text("before", ABSENT),
        after=fields.text("after", ABSENT),
        mode_before=fields.number_or_none("mode_before"),
        mode_after=fields.number_or_none("mode_after"),
        backup=fields.text("backup"),
        form=cast("Form", fields.word("form", get_args(Form))),
        edits=tuple(edit_in(item) for item in fields.tables("edits")),
        made_dirs=fields.texts("made_dirs"),
        argv=fields.texts("argv"),
        probe=fields.texts("probe"),
        undo=fields.texts("undo"),
        ran=fields.flag("ran"),
        is_back=fields.flag("is_back"),
    )


def edit_in(fields: Fields) -> Edit:
    return Edit(
        keys=fields.keys("keys"),
        op=cast("Literal['set']", fields.word("op", ("set", "append", "remove"))),
        marker=fields.text("marker"),
        digest=fields.text("digest"),
        was=fields.text_or_none("was"),
        index=fields.number("index", -1),
        made=fields.number("made"),
        blank=fields.text("blank"),
    )


def left_in(fields: Fields) -> Left:
    return Left(
        path=fields.text("path"),
        why=fields.text("why"),
        keys=fields.keys("keys"),
        code=fields.text("code"),
    )
