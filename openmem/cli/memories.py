"""Memory as a command meets it: who asks, for which folder, and the facade opened for one command.

Invariant: only a command that writes makes files where there are none. Trap: an agent runs these
commands in its shell, under the person's account; what it adds waits for review all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from openmem.cli.command import Run

if TYPE_CHECKING:
    from openmem.base.config import Config
    from openmem.memory.facade import Memories
    from openmem.memory.importing import Imported
    from openmem.memory.model import Actor, Memory
    from openmem.memory.scope import Scope

How = Literal["read", "write", "dry"]


def actor_of(run: Run) -> Actor:
    """Return who is at the command line: the person, or an agent that runs it in its shell."""
    from openmem.memory.model import Actor

    environ = run.paths.environ
    is_agents = bool(environ.get("CLAUDECODE") or environ.get("AI_AGENT"))
    if is_agents and not run.console.is_interactive:
        name = "claude-code" if environ.get("CLAUDECODE") else environ["AI_AGENT"][:40]
        return Actor(kind="agent", name=name)
    return Actor(kind="person", name=environ.get("USER", "") or environ.get("LOGNAME", ""))


def scope_here(run: Run) -> Scope:
    """Return the scope of the working folder."""
    from openmem.memory.scope import scope_of

    return scope_of(os.getcwd(), run.paths, actor_of(run))


def config_here(run: Run, scope: Scope) -> Config:
    """Return the settings as this folder's project narrows them."""
    from openmem.base.config import load_config

    root = scope.workspace.git_root or scope.workspace.folder
    return load_config(run.paths.config_file, run.paths.environ, project_dir=root)


@contextmanager
def opened(run: Run, scope: Scope, how: How = "read") -> Iterator[Memories]:
    """Open memory for one command. Only "write" makes files where there are none; "dry" leaves
    every file as it is."""
    from openmem.memory.opening import open_frozen, open_memories

    config = config_here(run, scope)
    is_frozen = how == "dry" or (how == "read" and not os.path.exists(run.paths.ledger_file))
    memories = (open_frozen if is_frozen else open_memories)(run.paths, config=config)
    try:
        yield memories
    finally:
        memories.close()


def record(one: Memory) -> dict[str, Any]:
    """Return a memory as the envelope gives it: as exported, and its state."""
    from openmem.memory.portability import record_of

    return {**record_of(one), "state": one.state}


def imported(outcome: Imported) -> dict[str, Any]:
    """Return an import's outcome as the envelope gives it."""
    data = asdict(outcome)
    data["errors"] = [{"line": line, "why": why} for line, why in outcome.errors]
    return data


def moved_note(run: Run, scope: Scope, bank: str) -> tuple[str, ...]:
    """Return a hint when the folder's bank is empty because the repository was moved or renamed."""
    from openmem.memory.places import looks_moved_from

    old = "" if bank else looks_moved_from(run.paths, scope.workspace, scope.bank)
    return (
        (f"This looks like {old}, moved. Use its bank:  openmem bank link . {old}",) if old else ()
    )
