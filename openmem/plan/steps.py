"""A plan checked against what is there, as steps; and one step carried out.

Idea: everything that can refuse refuses while looking, before the first change. Invariant: a step
writes only over what the plan saw. Trap: later steps of a plan stand on earlier ones, so a path is
judged by what the steps before will leave there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.base.io import ABSENT, digest_of
from openmem.plan.action import (
    Action,
    MakeDir,
    Plan,
    RemoveDir,
    RemoveFile,
    RunCommand,
    WriteFile,
)
from openmem.plan.follow import followed
from openmem.plan.journal import Entry
from openmem.plan.system import System, contract
from openmem.plan.system.contract import NEW_FILE_MODE


@dataclass(frozen=True, slots=True)
class Step:
    """An action, and what the receipt will say of it."""

    action: Action
    entry: Entry


def has_effect(steps: list[Step], plan: Plan, system: System) -> bool:
    """Return whether applying would change something: a file, or a command whose probe asks."""
    if plan.undoes or changes_files(steps):
        return True
    # No step before it changes anything, so its probe can be asked now.
    actions = [step.action for step in steps]
    return any(isinstance(action, RunCommand) and is_needed(action, system) for action in actions)


def changes_files(steps: list[Step]) -> bool:
    """Return whether a file or folder would change."""
    return any(step.entry.kind not in ("manual", "run") for step in steps)


def steps_of(plan: Plan, system: System, *, follows: bool = False) -> list[Step]:
    """Check a whole plan against what is there and return the steps that change something.

    `follows`: edits go into what somebody wrote since the plan was made, where they may.
    """
    steps: list[Step] = []
    ahead: dict[str, str] = {}  # digests as earlier steps of this plan will leave them
    new_dirs: set[str] = set()
    for action in plan.actions:
        if follows and isinstance(action, WriteFile) and action.path not in ahead:
            action = _moved_on(action, system)
        entry = _entry(action, system, ahead, new_dirs)
        if entry is not None:
            steps.append(Step(action, entry))
            new_dirs.update(entry.made_dirs)
            if entry.kind in ("write", "remove"):
                ahead[entry.path] = entry.after
    return steps


def _moved_on(action: WriteFile, system: System) -> WriteFile:
    """Return a write as it is over what is there now; the same when it may not follow."""
    if digest_at(system.read(action.path)) in (action.before, action.after):
        return action
    again = followed(action, system)
    return again[0] if again else action


def _entry(
    action: Action, system: System, ahead: dict[str, str], new_dirs: set[str]
) -> Entry | None:
    if isinstance(action, WriteFile | RemoveFile):
        return _file_entry(action, system, ahead, new_dirs)
    if isinstance(action, MakeDir):
        made = missing_dirs(system, action.path, new_dirs)
        if not made:
            return None
        system.check_writable(made[0])
        return Entry(
            kind="make-dir",
            path=action.path,
            why=action.why,
            made_dirs=made,
            mode_after=action.mode,
        )
    if isinstance(action, RemoveDir):
        there = system.stat(action.path)
        if there is None:
            return None
        return Entry(kind="remove-dir", path=action.path, why=action.why, mode_before=there.mode)
    if isinstance(action, RunCommand):
        return Entry(
            kind="run", why=action.why, argv=action.argv, probe=action.probe, undo=action.undo
        )
    return Entry(kind="manual", why=action.text)


def _file_entry(
    action: WriteFile | RemoveFile, system: System, ahead: dict[str, str], new_dirs: set[str]
) -> Entry | None:
    path = action.path
    found = system.stat(path)
    current = ahead.get(path) or digest_at(system.read(path))
    is_write = isinstance(action, WriteFile)
    mode_before = found.mode if found else None
    mode = action.mode if isinstance(action, WriteFile) else None
    after = action.after if isinstance(action, WriteFile) else ABSENT
    if current == after and (mode is None or mode == mode_before):
        return None
    if current != action.before:
        if current == ABSENT:
            raise contract.changed(path, "was removed")
        raise contract.changed(
            path, "was made by somebody else" if action.before == ABSENT else "was changed"
        )
    if path not in ahead:
        system.check_writable(path)
    if not is_write and found is not None and found.is_link:
        raise contract.link_removal(path)
    return Entry(
        kind="write" if is_write else "remove",
        path=path,
        why=action.why,
        before=action.before,
        after=after,
        mode_before=mode_before,
        mode_after=(mode or mode_before or NEW_FILE_MODE) if is_write else None,
        form=action.form if isinstance(action, WriteFile) else "",
        edits=action.edits if isinstance(action, WriteFile) else (),
        is_back=bool(action.out) if isinstance(action, WriteFile) else False,
        made_dirs=missing_dirs(system, os.path.dirname(path), new_dirs) if is_write else (),
    )


def digest_at(data: bytes | None) -> str:
    """Return the digest of a file's bytes, ABSENT for none."""
    return ABSENT if data is None else digest_of(data)


def missing_dirs(system: System, folder: str, known: set[str]) -> tuple[str, ...]:
    """Return the folders to make for `folder`, outermost first; `known`: made by steps before."""
    missing: list[str] = []
    while folder not in known and system.stat(folder) is None:
        missing.append(folder)
        folder = os.path.dirname(folder)
    return tuple(reversed(missing))


def carry_out(step: Step, system: System) -> None:
    """Do one step. PlanConflict when its file is no longer what the plan saw, Failed otherwise."""
    action, entry = step.action, step.entry
    for folder in entry.made_dirs:
        mode = action.mode if isinstance(action, MakeDir) else 0o700
        system.make_dir(folder, mode=mode)
    if isinstance(action, WriteFile):
        system.write(action.path, action.data, mode=action.mode, expect=action.before)
    elif isinstance(action, RemoveFile):
        system.remove(action.path, expect=action.before)
    elif isinstance(action, RemoveDir):
        system.remove_dir(action.path)  # one that somebody filled meanwhile stays
    elif isinstance(action, RunCommand) and (entry.ran or is_needed(action, system)):
        ran = system.run(action.argv, timeout_seconds=action.timeout_seconds)
        if ran.code != 0:
            said = (ran.stderr or ran.stdout).strip().splitlines()
            words = f": {said[-1]}" if said else "."
            raise Failed(
                f"{' '.join(action.argv)} ended with {ran.code}{words}", code="command-failed"
            )


def is_needed(action: RunCommand, system: System) -> bool:
    """Return whether a command has to be run, by its probe."""
    if not action.probe:
        return True
    return (system.probe(action.probe).code == 0) == action.only_if_done
