"""A plan carried out: checked whole, journalled, written, or put back.

Order: look at everything (a refusal leaves no trace) · take the lock · copy what will be replaced
· write the receipt, state "started" · do the steps, each with a last comparison · "finished".
Invariant: a fault or a crash in between leaves a receipt from which `recover` puts everything
back. Trap: never judge a "started" receipt without the lock; its run may be alive.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

from openmem import __version__
from openmem.base.clock import now_text
from openmem.base.errors import Failed, OpenmemError, PlanConflict, Refused, RolledBack, Unparseable
from openmem.base.io import ABSENT, digest_of
from openmem.base.paths import Paths
from openmem.plan import undo
from openmem.plan.action import Plan, RunCommand, WriteFile
from openmem.plan.follow import followed
from openmem.plan.journal import (
    Entry,
    Receipt,
    backup_folder,
    journal_path,
    lock_path,
    read_receipts,
    write_receipt,
)
from openmem.plan.steps import (
    Step,
    carry_out,
    changes_files,
    digest_at,
    has_effect,
    is_needed,
    missing_dirs,
    steps_of,
)
from openmem.plan.system import DryRunSystem, System, contract
from openmem.plan.system.real import TEMPORARY_MARK

_ATTEMPTS_BACK = 5
_ATTEMPTS_TO_READ = 4
_ATTEMPTS_AFTER = 40  # to write between two writes of somebody who writes fifty times a second


def apply(
    plan: Plan,
    system: System,
    paths: Paths,
    *,
    label: str,
    now: Callable[[], str] = now_text,
    follows: bool = False,
) -> Receipt:
    """Carry out a plan and return its receipt; number 0 when there was nothing to do.

    `follows`: edits go into what somebody wrote since the plan was made, where they mean the same.
    Refused, PlanConflict: nothing was written. RolledBack: a step failed and those before it were
    put back. Refused with code `interrupted-run`: an earlier run was cut off, `recover` first.
    """
    if not has_effect(steps_of(plan, system, follows=follows), plan, system):
        return Receipt(label=label)
    state_dirs = _ensure_state(system, paths)
    with system.lock(lock_path(paths)):
        return _apply_locked(plan, system, paths, label, now, state_dirs, follows)


def apply_replanning(
    make_plan: Callable[[], Plan],
    system: System,
    paths: Paths,
    *,
    label: str,
    attempts: int = 5,
    pause: Callable[[float], None] = time.sleep,
) -> Receipt:
    """Plan and apply until the plan stays empty, for files that others write meanwhile.

    A conflict, or a file caught half written, is planned again; so is a change of ours that was
    overwritten at once. After `attempts` the last refusal is raised, and nothing was written.
    """
    last = Receipt(label=label)
    for attempt in range(attempts):
        final = attempt == attempts - 1
        try:
            plan = make_plan()
            steps = steps_of(plan, system, follows=True)
            if not has_effect(steps, plan, system) or (last.number and not changes_files(steps)):
                return last  # a command without a probe is run once
            last = apply(plan, system, paths, label=label, follows=True)
            if final or plan.undoes:
                return last  # planning an undo again would take back the run before it
        except (PlanConflict, Unparseable, RolledBack) as error:
            conflict = error.__cause__ if isinstance(error, RolledBack) else error
            if final or not isinstance(conflict, PlanConflict | Unparseable):
                raise
            pause(0.01 * 2**attempt)
    return last


def settled(make_plan: Callable[[], Plan], pause: Callable[[float], None] = time.sleep) -> Plan:
    """Return a plan. One that met a file half written is made anew, until it stays unreadable."""
    for attempt in range(_ATTEMPTS_TO_READ):
        try:
            return make_plan()
        except (Unparseable, PlanConflict):
            pause(0.01 * 2**attempt)
    return make_plan()


def preview(plan: Plan, system: System) -> DryRunSystem:
    """Return the system as it will be after `plan`, for planning the next part on top of it."""
    ahead = DryRunSystem(system)
    for step in steps_of(plan, ahead):
        carry_out(step, ahead)
    return ahead


def recover(system: System, paths: Paths) -> Receipt | None:
    """Clean up after a run that was killed; None when there was none.

    A run whose every step had been done is marked finished; any other is put back, as an undo.
    Returns the receipt of what was done now.
    """
    if not any(receipt.is_cut_off for receipt in read_receipts(system, paths)):
        return None
    with system.lock(lock_path(paths)):
        last = None
        cut_off = [receipt for receipt in read_receipts(system, paths) if receipt.is_cut_off]
        for receipt in reversed(cut_off):
            _sweep_temporaries(system, receipt)
            if _is_complete(system, receipt):
                last = replace(receipt, state="finished", ended_at=now_text())
                write_receipt(system, paths, last)
                continue
            back = _carry_back(system, paths, receipt)
            last = replace(receipt, state="rolled-back", ended_at=now_text(), left=back.left)
            write_receipt(system, paths, last)
        return last


def _apply_locked(
    plan: Plan,
    system: System,
    paths: Paths,
    label: str,
    now: Callable[[], str],
    state_dirs: tuple[str, ...],
    follows: bool,
) -> Receipt:
    known = read_receipts(system, paths)
    cut_off = [receipt for receipt in known if receipt.is_cut_off]
    if any(receipt.number not in plan.undoes for receipt in cut_off):
        raise Refused(
            "an earlier run of openmem was cut off half way. Nothing was written.",
            hint="`openmem undo` puts back what it had changed.",
            code="interrupted-run",
        )
    for receipt in cut_off:
        _sweep_temporaries(system, receipt)
    number = max((receipt.number for receipt in known), default=0) + 1
    steps = steps_of(plan, system, follows=follows)  # again: a run before us may have held the lock
    if not has_effect(steps, plan, system):
        return Receipt(label=label)
    receipt = Receipt(
        number=number,
        label=label,
        state="started",
        started_at=now(),
        version=__version__,
        entries=tuple(step.entry for step in steps),
        undoes=plan.undoes,
        left=plan.left,
        state_dirs=state_dirs,
    )
    receipt = _back_up(system, paths, receipt)
    write_receipt(system, paths, receipt)
    steps = [replace(step, entry=entry) for step, entry in zip(steps, receipt.entries, strict=True)]
    done = 0
    try:
        for index, step in enumerate(steps):
            if isinstance(step.action, RunCommand) and is_needed(step.action, system):
                receipt = _marked_ran(receipt, index)
                write_receipt(system, paths, receipt)
                done = index + 1  # from here on the command may have had an effect
            step = replace(step, entry=receipt.entries[index])
            try:
                carry_out(step, system)
            except PlanConflict:
                if not follows or not isinstance(step.action, WriteFile):
                    raise
                receipt = _carry_after(step.action, index, receipt, system, paths)
            done = index + 1
    except BaseException as error:
        _put_back(system, paths, receipt, done, error)
        raise  # only when nothing had been changed, or the person interrupted
    receipt = replace(receipt, state="finished", ended_at=now())
    write_receipt(system, paths, receipt)
    return receipt


def _carry_after(
    action: WriteFile, index: int, receipt: Receipt, system: System, paths: Paths
) -> Receipt:
    """Write after somebody who keeps writing, and return the receipt of it. PlanConflict.

    What will be replaced is copied and in the receipt before each try, as for any other step.
    """
    for attempt in range(_ATTEMPTS_AFTER):
        try:
            again = followed(action, system)
            if again is None:
                break
            write, found = again
            entry = replace(
                receipt.entries[index], before=write.before, after=write.after, edits=write.edits
            )
            entries = list(receipt.entries)
            entries[index] = _copied(system, paths, receipt, index, entry, found)
            receipt = replace(receipt, entries=tuple(entries))
            write_receipt(system, paths, receipt)
            carry_out(Step(write, receipt.entries[index]), system)
            return receipt
        except (PlanConflict, Unparseable):  # written once more, or half written
            time.sleep(0.001 * attempt)
    raise contract.changed(action.path, "was changed")


def _put_back(
    system: System, paths: Paths, receipt: Receipt, done: int, error: BaseException
) -> None:
    """Undo the steps done so far, then raise RolledBack, or return to let `error` go on."""
    begun = receipt.entries[: done + 1]  # the step that failed may have come part of the way
    changed = any(e.ran or e.kind not in ("manual", "run") for e in receipt.entries[:done])
    partial = replace(receipt, entries=begun)
    try:
        back = _carry_back(system, paths, partial)
        if changed:
            write_receipt(system, paths, replace(receipt, state="rolled-back", left=back.left))
        else:
            system.remove(journal_path(paths, receipt.number))
        _drop_backups(system, paths, receipt)
    except (OpenmemError, OSError) as second:
        raise Failed(
            f"{_reason(error)} Putting back what had been written failed too: {_reason(second)}",
            hint="`openmem undo` tries again; the old bytes are in "
            f"{backup_folder(paths, receipt.number)}.",
            code="rollback-failed",
        ) from error
    if not isinstance(error, Exception):
        return  # Ctrl-C: put back, and the interrupt goes on
    if not changed:
        if isinstance(error, OSError):
            raise Failed(_reason(error)) from error
        return
    words = "Everything written before it was put back."
    if back.left:
        words = "Put back, but for " + ", ".join(f"{x.path} ({x.why})" for x in back.left) + "."
    raise RolledBack(f"{_reason(error)} {words}") from error


def _carry_back(system: System, paths: Paths, receipt: Receipt) -> Plan:
    """Take back what a run did, and return how; planned again when others write meanwhile."""
    for attempt in range(_ATTEMPTS_BACK):
        try:
            back = undo.plan_back(system, paths, (receipt,))
            for step in steps_of(back, system):
                carry_out(step, system)
            if not any(left.code == Unparseable.code for left in back.left):
                break  # else it may have been caught half written
        except PlanConflict:
            if attempt == _ATTEMPTS_BACK - 1:
                raise
        time.sleep(0.01 * 2**attempt)
    return back


def _reason(error: BaseException) -> str:
    if isinstance(error, OpenmemError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}."
    return f"{type(error).__name__}: {error}."


def _marked_ran(receipt: Receipt, index: int) -> Receipt:
    entries = list(receipt.entries)
    entries[index] = replace(entries[index], ran=True)
    return replace(receipt, entries=tuple(entries))


def _ensure_state(system: System, paths: Paths) -> tuple[str, ...]:
    """Make the folders of our own records; returns those that were not there."""
    made: list[str] = []
    for wanted in (paths.receipts_dir, paths.backups_dir):
        for folder in missing_dirs(system, wanted, set()):
            system.make_dir(folder, mode=0o700)
            made.append(folder)
    return tuple(made)


def _back_up(system: System, paths: Paths, receipt: Receipt) -> Receipt:
    """Copy every file that will be replaced or removed, once per run."""
    entries: list[Entry] = []
    for index, entry in enumerate(receipt.entries):
        data = None
        if entry.kind in ("write", "remove") and entry.before != ABSENT:
            data = system.read(entry.path)
        if data is not None and digest_of(data) == entry.before:
            entry = _copied(system, paths, receipt, index, entry, data)
        entries.append(entry)  # else nothing to copy, or a step before this one makes it
    return replace(receipt, entries=tuple(entries))


def _copied(
    system: System, paths: Paths, receipt: Receipt, index: int, entry: Entry, data: bytes
) -> Entry:
    """Copy what an entry will replace, and return the entry with the copy's name."""
    folder = backup_folder(paths, receipt.number)
    name = f"{index:02d}-{os.path.basename(entry.path)[:200]}"
    system.make_dir(folder, mode=0o700)
    system.write(f"{folder}/{name}", data, mode=0o600)
    return replace(entry, backup=name)


def _drop_backups(system: System, paths: Paths, receipt: Receipt) -> None:
    """Remove the copies of a run that changed nothing in the end."""
    folder = backup_folder(paths, receipt.number)
    for entry in receipt.entries:
        if entry.backup:
            system.remove(f"{folder}/{entry.backup}")
    system.remove_dir(folder)


def _is_complete(system: System, receipt: Receipt) -> bool:
    final = {e.path: e.after for e in receipt.entries if e.kind in ("write", "remove")}
    if any(digest_at(system.read(path)) != after for path, after in final.items()):
        return False
    # A command that was cut off is not known to have worked.
    return not any(entry.kind in ("run", "remove-dir") for entry in receipt.entries)


def _sweep_temporaries(system: System, receipt: Receipt) -> None:
    """Remove what a killed write left beside its target; only under the lock."""
    for path in receipt.paths_written:
        found = system.stat(path)
        real = found.real_path if found else path
        folder, name = os.path.split(real)
        for other in system.list(folder):
            if other.startswith(f".{name[:200]}{TEMPORARY_MARK}"):
                system.remove(f"{folder}/{other}")


__all__ = ["Receipt", "apply", "apply_replanning", "preview", "recover", "settled"]
