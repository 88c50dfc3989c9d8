"""From "this should stand there" to at most one action, worked out from what is there now.

Every function reads, edits in memory and returns the action that makes the difference, or none:
planning again after applying gives nothing. A file that cannot be read, parsed or written is
refused here already, before anything is shown as planned.
"""

from __future__ import annotations

from collections.abc import Sequence

from openmem.base.io import ABSENT, digest_of
from openmem.plan.action import (
    Action,
    Edit,
    Form,
    MakeDir,
    RemoveFile,
    Secret,
    WriteFile,
)
from openmem.plan.edit.record import parse, put_in
from openmem.plan.system import System

_EMPTY: dict[Form, bytes] = {"json": b"{}\n", "jsonc": b"{}\n", "toml": b"", "block": b""}


def plan_json_edit(
    system: System,
    path: str,
    edits: Sequence[Edit],
    *,
    strict: bool,
    why: str,
    mode: int | None = None,
    secrets: tuple[Secret, ...] = (),
) -> list[Action]:
    """Return the one write that puts the edits into a JSON file, or nothing to do.

    `strict`: its reader takes no comments, so neither do we. A missing or blank file starts as
    `{}`. Unparseable, Refused: the file stays as it is.
    """
    form: Form = "json" if strict else "jsonc"
    return plan_edit(system, path, edits, form=form, why=why, mode=mode, secrets=secrets)


def plan_toml_edit(
    system: System,
    path: str,
    edits: Sequence[Edit],
    *,
    why: str,
    mode: int | None = None,
    secrets: tuple[Secret, ...] = (),
) -> list[Action]:
    """Return the one write that puts the edits into a TOML file, or nothing to do."""
    return plan_edit(system, path, edits, form="toml", why=why, mode=mode, secrets=secrets)


def plan_block(
    system: System, path: str, text: str, *, why: str, name: str = "openmem", comment: str = "#"
) -> list[Action]:
    """Return the write that puts a marked block into a text file, or nothing to do.

    `text`: its lines, `\\n` between them. `comment`: what begins a comment there.
    """
    edit = Edit(keys=(f"{comment} {name}",), op="set", value=text)
    return plan_edit(system, path, [edit], form="block", why=why)


def plan_edit(
    system: System,
    path: str,
    edits: Sequence[Edit],
    *,
    form: Form,
    why: str,
    mode: int | None = None,
    secrets: tuple[Secret, ...] = (),
) -> list[Action]:
    """Return the one write that puts the edits into a file of this form, or nothing to do."""
    found = system.read(path)
    is_blank = found is None or not found.strip(b" \t\r\n")
    document = parse(_EMPTY[form] if found is None or is_blank else found, path, form)
    records: list[Edit] = []
    for edit in edits:
        document, made = put_in(document, edit)
        records += made
    if not records:
        return []
    system.check_writable(path)
    return [
        WriteFile(
            path=path,
            before=ABSENT if found is None else digest_of(found),
            data=document.data,
            mode=mode,
            why=why,
            form=form,
            edits=tuple(records),
            secrets=secrets,
        )
    ]


def plan_write(
    system: System,
    path: str,
    data: bytes,
    why: str,
    mode: int | None = None,
    *,
    secrets: tuple[Secret, ...] = (),
) -> list[Action]:
    """Return the write that makes a file hold `data`, or nothing to do."""
    found = system.read(path)
    stat = system.stat(path)
    if found == data and (mode is None or (stat is not None and stat.mode == mode)):
        return []
    system.check_writable(path)
    before = ABSENT if found is None else digest_of(found)
    return [WriteFile(path=path, before=before, data=data, mode=mode, why=why, secrets=secrets)]


def plan_remove(system: System, path: str, why: str) -> list[Action]:
    """Return the removal of a file, or nothing to do."""
    found = system.read(path)
    if found is None:
        return []
    system.check_writable(path)
    return [RemoveFile(path=path, before=digest_of(found), why=why)]


def plan_dir(system: System, path: str, why: str, mode: int = 0o700) -> list[Action]:
    """Return the making of a folder, or nothing to do."""
    if system.stat(path) is not None:
        return []
    system.check_writable(path)
    return [MakeDir(path=path, why=why, mode=mode)]
