"""Checks of the provider's containers: compose, engine, state, and who else has their port.

Trap: a stack whose port was taken meanwhile fails to start with words of the engine; who holds the
port is looked up, and moving to the next free one is a change of two files, which `--fix` makes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from openmem.base.errors import InvalidConfig, Missing, Refused
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.edit.planner import plan_write
from openmem.plan.system import System
from openmem.setup.doctor.finding import Finding
from openmem.setup.own_files import plan_config
from openmem.setup.provider import start_stack
from openmem.stack.compose import Stack, find_program, project_of
from openmem.stack.engine import Container, connect
from openmem.stack.plan import compose_path
from openmem.stack.preflight import is_free, next_free
from openmem.stack.render import check_unedited, compose_text
from openmem.stack.running import answers, port_of, state_of


def check_stack(system: System, paths: Paths, name: str) -> Finding:
    """The containers, and compose to care for them."""
    try:
        find_program(paths.environ)
        engine = connect(paths.environ)
    except Missing as error:
        return Finding(
            name="stack", outcome="error", subject=name, detail=error.message, advice=error.hint
        )
    try:
        containers = engine.containers(project_of(name))
        is_up = Stack(paths, name, engine.address).is_up()
    finally:
        engine.close()
    state = state_of(containers)
    is_well = state.is_well or (state.may_be_well and answers(name, port_of(paths, name)))
    if is_well and is_up:
        return Finding(name="stack", outcome="ok", detail=f"stack of {name}: {state.words}")
    port = port_of(paths, name)
    if port and not is_free(port) and not is_well and not _publishes(containers):
        return _taken(system, paths, name, port)
    if state.fault:
        return Finding(
            name="stack",
            outcome="error",
            subject=name,
            detail=state.fault,
            advice="openmem logs   says why",
        )
    is_old = bool(containers) and is_well
    detail = "its files were changed since it was started"
    return Finding(
        name="stack",
        outcome="warning" if is_old else "error",
        subject=name,
        detail=detail if is_old else f"not running ({state.words})",
        advice="openmem up",
        fix=Plan(actions=(start_stack(name, f"starts {name} in containers"),)),
    )


def _publishes(containers: Sequence[Container]) -> bool:
    """Return whether a container of ours runs and so holds the port itself."""
    return any(one.state == "running" for one in containers)


def _taken(system: System, paths: Paths, name: str, port: int) -> Finding:
    """Another program has the port: the plan moves the stack to the next free one."""
    pid = holder_of(port)
    who = f"process {pid}" if pid else "another program"
    compose = compose_path(paths, name)
    fix: Plan | None = None
    free = 0
    try:
        check_unedited(compose, system.read(compose))
        free = next_free(port + 1)
        text = compose_text(name, free).encode()
        why = f"runs {name} on port {free}"
        actions = plan_write(system, compose, text, why, 0o600)
        actions += plan_config(system, paths, values={"server.port": free}, routes={}, why=why)
        fix = Plan(actions=(*actions, start_stack(name, f"starts {name} in containers")))
    except (Missing, Refused, InvalidConfig):
        pass  # nothing can be planned; the finding itself says what is wrong
    advice = f"openmem doctor --fix   moves it to {free} (plan shown first)"
    return Finding(
        name="stack",
        outcome="error",
        subject=name,
        detail=f"not running, and port {port} is taken by {who}",
        advice=advice if fix else "end that program, then: openmem up",
        fix=fix,
    )


def _open_in(folder: str) -> set[str]:
    """Return what the descriptors of a process lead to, as far as they may be seen."""
    targets: set[str] = set()
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return targets  # somebody else's, or ended while we looked
    for descriptor in descriptors:
        try:
            targets.add(os.readlink(f"{folder}/{descriptor}"))
        except OSError:
            continue  # closed while we looked, as the listing's own is
    return targets


def holder_of(port: int, proc: str = "/proc") -> int:
    """Return the process that listens on a port of this machine, 0 when it cannot be told."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        try:
            with open(f"{proc}/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue  # macOS has no such table
        for row in rows:
            if len(row) > 9 and row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{row[9]}]")
    for pid in os.listdir(proc) if inodes else ():
        if pid.isdigit() and not inodes.isdisjoint(_open_in(f"{proc}/{pid}/fd")):
            return int(pid)
    return 0
