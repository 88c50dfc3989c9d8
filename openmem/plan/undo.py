"""The way back, worked out from receipts and from what is there now.

Idea: go through the runs backwards over a picture of each file; where a file is as a run left it,
the bytes of before the run take its place, so several runs fold into one write. Where somebody
rewrote it, only our own edits are taken out of it. Invariant: nothing of the person's is lost;
whatever stays is in `Plan.left` with its reason. Trap: a digest that differs is the normal case,
not a fault: agents rewrite their own settings all day.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from openmem.base.errors import NotFound, OpenmemError, Refused, Unparseable
from openmem.base.io import ABSENT, digest_of
from openmem.base.paths import Paths
from openmem.plan.action import (
    Action,
    Left,
    MakeDir,
    Plan,
    RemoveDir,
    RemoveFile,
    RunCommand,
    TakenOut,
    WriteFile,
)
from openmem.plan.edit.record import take_out_all
from openmem.plan.journal import Entry, Receipt, backup_folder, read_receipts
from openmem.plan.system import System


def plan_undo(system: System, paths: Paths, *, to: int | None = None) -> Plan:
    """Return the plan that takes back the last run, or, with `to`, every run after number `to`.

    `to` 0 takes back all of them. Empty when there is nothing to take back. NotFound for a number
    that is no run.
    """
    known = read_receipts(system, paths)
    active = [receipt for receipt in known if receipt.is_active]
    if to is not None:
        if to != 0 and to not in [receipt.number for receipt in known]:
            raise NotFound(f"there is no run {to}.", hint="`openmem undo --list` shows them.")
        wanted = [receipt for receipt in active if receipt.number > to]
    else:
        wanted = active[-1:]
    return plan_back(system, paths, wanted)


def plan_uninstall(system: System, paths: Paths) -> Plan:
    """Return the plan that takes back every run that is not taken back yet."""
    return plan_back(
        system, paths, [receipt for receipt in read_receipts(system, paths) if receipt.is_active]
    )


def plan_back(system: System, paths: Paths, receipts: Sequence[Receipt]) -> Plan:
    """Return the plan that takes back these runs, given oldest first."""
    way = _WayBack(system, paths)
    for receipt in reversed(receipts):
        for entry in reversed(receipt.entries):
            way.step(receipt, entry)
    return way.plan(tuple(receipt.number for receipt in receipts if receipt.number))


@dataclass(slots=True)
class _Picture:
    """A file as it is, and as the way back will leave it. `data` None: not there.

    `digest`: of `data`; between two writes of one run, of a version that is nowhere on disk.
    """

    found: bytes | None
    data: bytes | None
    digest: str
    found_mode: int | None
    mode: int | None
    is_link: bool = False
    out: list[TakenOut] = field(default_factory=list)
    is_whole: bool = False  # a run wrote all of it, so more than edits goes back
    is_mixed: bool = False  # somebody else wrote in it too, so it will not be as it was before
    is_blocked: bool = False  # older runs leave it alone: something was left, or nothing is ours


@dataclass(slots=True)
class _WayBack:
    system: System
    paths: Paths
    pictures: dict[str, _Picture] = field(default_factory=dict)
    order: list[str | Action] = field(default_factory=list)  # a path stands for its one write
    dirs: list[str] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)  # runs to try again once the file can be edited
    runs: dict[str, set[int]] = field(default_factory=dict)  # by path, those that wrote it

    def step(self, receipt: Receipt, entry: Entry) -> None:
        if entry.kind in ("write", "remove"):
            self.runs.setdefault(entry.path, set()).add(receipt.number)
            picture = self._picture(entry.path)
            if picture is not None and not picture.is_blocked:
                self._file(receipt, entry, picture)
            elif picture is None:
                self.kept.add(receipt.number)
        elif entry.kind == "remove-dir" and self.system.stat(entry.path) is None:
            self._later(MakeDir(path=entry.path, mode=entry.mode_before or 0o700, why=_BACK))
        elif entry.kind == "run" and entry.ran and entry.undo:
            self._later(
                RunCommand(
                    argv=entry.undo,
                    why=f"takes back: {entry.why}",
                    probe=entry.probe,
                    undo=entry.argv,
                    only_if_done=True,
                )
            )
        for folder in reversed(entry.made_dirs):
            if folder not in self.dirs:
                self.dirs.append(folder)

    def plan(self, numbers: tuple[int, ...]) -> Plan:
        actions: list[Action] = []
        for item in self.order:
            action = self._file_action(item) if isinstance(item, str) else item
            if action is not None and self._is_possible(action):
                actions.append(action)
        # A folder that a later run removed and an earlier one made is not made again to go again.
        written = {os.path.dirname(a.path) for a in actions if isinstance(a, WriteFile)}
        again = {folder for folder in self.dirs if self.system.stat(folder) is None} - written
        actions = [a for a in actions if not (isinstance(a, MakeDir) and a.path in again)]
        actions += self._dir_actions(actions)
        return Plan(
            actions=tuple(actions),
            left=tuple(dict.fromkeys(self.left)),
            undoes=tuple(number for number in numbers if number not in self.kept),
        )

    def _is_possible(self, action: Action) -> bool:
        """Return whether a file can be written; one that cannot is left for another time."""
        if not isinstance(action, WriteFile | RemoveFile):
            return True
        try:
            self.system.check_writable(action.path)
        except Refused as error:
            self._leave(action.path, _half_sentence(error), code=error.code)
            self.kept |= self.runs[action.path]
            return False
        return True

    def _later(self, action: Action) -> None:
        if action in self.order:
            self.order.remove(action)
        self.order.append(action)

    def _picture(self, path: str) -> _Picture | None:
        if path not in self.pictures:
            try:
                data, stat = self.system.read(path), self.system.stat(path)
            except Refused as error:
                self._leave(path, _half_sentence(error), code=error.code)
                return None
            mode = stat.mode if stat else None
            self.pictures[path] = _Picture(
                data, data, _digest(data), mode, mode, is_link=bool(stat and stat.is_link)
            )
        if path in self.order:
            self.order.remove(path)
        self.order.append(path)
        return self.pictures[path]

    def _file(self, receipt: Receipt, entry: Entry, picture: _Picture) -> None:
        if picture.digest == entry.after:
            self._restore(receipt, entry, picture)
            self._note(entry, picture)
        elif picture.digest == entry.before:
            pass  # somebody put it back already
        elif entry.is_back:
            picture.is_blocked = True  # all of ours went out then; older runs have nothing in it
        elif entry.kind == "remove":
            self._leave(entry.path, "somebody made it again after openmem had removed it")
            picture.is_blocked = True
        elif picture.data is None:
            pass  # removed by somebody: nothing of ours is left in it
        elif entry.edits:
            self._take_out(receipt, entry, picture)
        else:
            where = self._where(receipt, entry)
            self._leave(entry.path, f"changed since openmem wrote it; it stays as it is{where}")
            picture.is_blocked = True

    def _restore(self, receipt: Receipt, entry: Entry, picture: _Picture) -> None:
        if entry.before == ABSENT:
            if picture.is_link:
                self._leave(entry.path, "a link now, made by somebody else", code="is-link")
                picture.is_blocked = True
                return
            picture.data = picture.mode = None
            picture.digest = ABSENT
            return
        if not entry.backup and _is_followed(receipt, entry):
            picture.digest = entry.before  # the earlier write of this run holds the copy
            return
        data = self._backup(receipt, entry)
        if data is None and entry.edits:
            self._take_out(receipt, entry, picture)
            return
        if data is None:
            self._leave(entry.path, "the copy of before is missing or damaged", code="no-backup")
            picture.is_blocked = True
            return
        if picture.mode is None or picture.mode == entry.mode_after:
            picture.mode = entry.mode_before  # else the person set another one, which stays
        picture.data, picture.digest = data, entry.before

    def _take_out(self, receipt: Receipt, entry: Entry, picture: _Picture) -> None:
        assert picture.data is not None
        try:
            data, left, is_blank = take_out_all(picture.data, entry.path, entry.form, entry.edits)
        except Unparseable as error:
            self._leave(entry.path, _half_sentence(error), code=error.code)
            picture.is_blocked = True
            self.kept.add(receipt.number)
            return
        self.left += left
        if is_blank and entry.before == ABSENT and not left and not picture.is_link:
            picture.data = picture.mode = None  # we made the file, and only we wrote in it
            picture.digest = ABSENT
            return
        picture.data, picture.digest, picture.is_mixed = data, digest_of(data), True
        self._note(entry, picture)

    def _note(self, entry: Entry, picture: _Picture) -> None:
        """Keep which edits go, for a file that is written again before we write."""
        taken = TakenOut(form=entry.form, edits=entry.edits)
        if not entry.edits or not entry.form:
            picture.is_whole = True
        elif taken not in picture.out:
            picture.out.append(taken)

    def _backup(self, receipt: Receipt, entry: Entry) -> bytes | None:
        path = f"{backup_folder(self.paths, receipt.number)}/{entry.backup}"
        try:
            data = self.system.read(path)
        except OpenmemError:
            return None  # said by the caller, for the file itself
        return data if data is not None and digest_of(data) == entry.before else None

    def _where(self, receipt: Receipt, entry: Entry) -> str:
        if not entry.backup:
            return ""
        return f" (before: {backup_folder(self.paths, receipt.number)}/{entry.backup})"

    def _leave(self, path: str, why: str, code: str = "changed") -> None:
        self.left.append(Left(path=path, why=why, code=code))

    def _file_action(self, path: str) -> Action | None:
        picture = self.pictures[path]
        before = _digest(picture.found)
        if picture.data is None:
            if picture.found is None:
                return None
            return RemoveFile(path=path, before=before, why="openmem made it")
        if picture.data == picture.found and picture.mode == picture.found_mode:
            return None
        why = _OURS_OUT if picture.is_mixed else _BACK
        return WriteFile(
            path=path,
            before=before,
            data=picture.data,
            mode=picture.mode,
            why=why,
            out=() if picture.is_whole or picture.found is None else tuple(picture.out),
        )

    def _dir_actions(self, actions: Sequence[Action]) -> list[Action]:
        """Remove the folders we made that will be empty, deepest first."""
        gone = {action.path for action in actions if isinstance(action, RemoveFile)}
        needed = {os.path.dirname(a.path) for a in actions if isinstance(a, WriteFile)}
        found: list[Action] = []
        for folder in sorted(self.dirs, key=lambda path: path.count("/"), reverse=True):
            stat = self.system.stat(folder)
            if stat is None or stat.kind != "dir" or stat.is_link:
                continue
            names = self.system.list(folder)
            if folder in needed or any(f"{folder}/{name}" not in gone for name in names):
                self._leave(folder, "a folder openmem made; it holds files of others", "not-empty")
                continue
            gone.add(folder)
            found.append(RemoveDir(path=folder, why="openmem made it"))
        return found


def _digest(data: bytes | None) -> str:
    return ABSENT if data is None else digest_of(data)


def _half_sentence(error: Refused) -> str:
    """Return why a file is left, to stand behind its name."""
    if isinstance(error, Unparseable):
        return f"does not parse (line {error.line}, column {error.column}: {error.reason})"
    return error.message.removesuffix(" Nothing was written.")


def _is_followed(receipt: Receipt, entry: Entry) -> bool:
    """Return whether an earlier step of the run left the version that this one replaced."""
    earlier = receipt.entries[: receipt.entries.index(entry)]
    return any(other.path == entry.path and other.after == entry.before for other in earlier)


_BACK = "as it was before"
_OURS_OUT = "only what openmem put in goes out; the rest was changed since and stays"
