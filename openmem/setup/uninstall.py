"""Everything taken back: the runs, what stands beyond them, the process; with purge the data too.

Idea: first the receipts, which give back the bytes of before, then whatever a parser still finds
of ours. Invariant: what stays is named with the reason; nothing that a person wrote is removed
without `--purge`. Trap: the settings and the policy are files the receipts made, yet they belong
to the person by now; without `--purge` they stay.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

from openmem.base.errors import Missing
from openmem.base.paths import Paths
from openmem.hook.keep import wait_for_keepers
from openmem.host import lifecycle
from openmem.plan.action import Action, Left, Plan, RemoveDir, RemoveFile, RunCommand, WriteFile
from openmem.plan.apply import preview
from openmem.plan.receipt import plan_uninstall, purge, receipts
from openmem.plan.system import SteadySystem, System
from openmem.setup.facts import Facts
from openmem.setup.wire import plan_unwiring
from openmem.stack.compose import Stack
from openmem.stack.engine import connect
from openmem.stack.plan import SERVICES
from openmem.stack.volumes import volume_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What openmem keeps on disk. `bytes`: of the state folder; `sessions`: stored ones."""

    bytes: int = 0
    sessions: int = 0
    has_state: bool = False
    has_settings: bool = False


def kept(paths: Paths) -> Kept:
    """Return what is stored; reads names and sizes only."""
    size = sessions = 0
    for folder, _, files in os.walk(paths.state_dir):
        for name in files:
            try:
                size += os.lstat(os.path.join(folder, name)).st_size
            except FileNotFoundError:
                continue  # removed meanwhile
        if folder == paths.sessions_dir:
            sessions = len(
                {
                    name.removesuffix(".db").removesuffix(".v4")
                    for name in files
                    if name.endswith(".db")
                }
            )
    return Kept(
        bytes=size,
        sessions=sessions,
        has_state=os.path.isdir(paths.state_dir),
        has_settings=os.path.isdir(paths.config_dir),
    )


def plan_removal(system: System, paths: Paths, facts: Facts, *, is_purge: bool) -> Plan:
    """Return the plan that takes everything back. What stays is in `left`."""
    system = SteadySystem(system)
    back = plan_uninstall(system, paths)
    back = replace(back, actions=tuple(one for one in back.actions if not _starts_stack(one)))
    if not is_purge:
        back = _without_own(back, paths)
    ahead = preview(replace(back, undoes=()), system)
    return back + plan_unwiring(ahead, paths, facts.agents, facts)


def _without_own(plan: Plan, paths: Paths) -> Plan:
    """Leave settings and policy as they are, and the proxy to `finish`, which lets it drain."""
    own = paths.config_dir.rstrip("/") + "/"
    # The keys of a stack open its volumes, which stay.
    kept = (own, paths.stack_dir.rstrip("/") + "/")
    actions: list[Action] = []
    for action in plan.actions:
        if isinstance(action, RunCommand) and action.argv[-1:] == ("--stop",):
            continue
        if isinstance(action, WriteFile | RemoveFile | RemoveDir) and (
            action.path + "/"
        ).startswith(kept):
            continue
        if isinstance(action, RemoveDir) and own.startswith(action.path.rstrip("/") + "/"):
            continue
        actions.append(action)
    left = tuple(x for x in plan.left if not (x.path + "/").startswith(own))
    return replace(plan, actions=tuple(actions), left=left + _kept_files(paths))


def _kept_files(paths: Paths) -> tuple[Left, ...]:
    names = {paths.config_dir: "settings and policy", paths.state_dir: "what was stored"}
    return tuple(
        Left(path=path, why=f"{what}; --purge removes it too", code="kept")
        for path, what in names.items()
        if os.path.isdir(path)
    )


def _starts_stack(action: Action) -> bool:
    """Return whether an undo would start a provider that an earlier run had left."""
    return isinstance(action, RunCommand) and action.argv[-2:-1] == ("up",)


def volumes_of(paths: Paths) -> tuple[str, ...]:
    """Return the volumes that hold what providers stored here, those that exist."""
    names = [
        name
        for provider in SERVICES
        if Stack(paths, provider).exists()
        for name in volume_names(provider)
    ]
    if not names:
        return ()
    try:
        engine = connect(paths.environ)
    except Missing:
        return tuple(names)  # they may be there; who removes them by hand is told
    try:
        return tuple(engine.volumes(names))
    finally:
        engine.close()


def remove_volumes(paths: Paths, names: Sequence[str]) -> None:
    """Remove volumes with all that is in them. Missing without an engine."""
    if names:
        engine = connect(paths.environ)
        try:
            for name in names:
                engine.remove_volume(name)
        finally:
            engine.close()


def finish(paths: Paths, *, is_purge: bool) -> tuple[lifecycle.Stopped, tuple[Left, ...]]:
    """End the proxy and, with purge, remove our folders; returns what stays all the same.

    Without purge the proxy passes open sessions through until they have ended.
    """
    made = _folders_made(paths)
    stopped = lifecycle.stop(paths, now=is_purge)
    if not is_purge:
        return stopped, ()
    socket_folder = os.path.dirname(paths.control_socket)
    # The policy first: a child that keeps a turn then keeps nothing more, and is waited for.
    if os.path.isdir(paths.config_dir) and not os.path.islink(paths.config_dir):
        shutil.rmtree(paths.config_dir)
    wait_for_keepers(paths)
    stay = list(purge(paths))
    if not socket_folder.startswith(paths.state_dir) and os.path.isdir(socket_folder):
        shutil.rmtree(socket_folder)
    stay += [path for path in made if not _removed_if_empty(path)]
    why = "made by openmem; it holds files of others by now"
    return stopped, tuple(Left(path=path, why=why, code="not-empty") for path in stay)


def _folders_made(paths: Paths) -> list[str]:
    """Return the folders above the settings that our runs made, deepest first."""
    own = paths.config_dir.rstrip("/") + "/"
    made = {
        folder
        for receipt in receipts(paths)
        for entry in receipt.entries
        for folder in entry.made_dirs
        if own.startswith(folder.rstrip("/") + "/")
    }
    return sorted(made, key=len, reverse=True)


def _removed_if_empty(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it holds files of others
    return True
