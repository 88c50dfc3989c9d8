"""The two small shell scripts that agents run, and the commands by which they run them.

Idea: settings of agents name a file in our state folder, which names the interpreter. So the entry
survives an upgrade, and a removed installation leaves a script that ends quietly, not a broken
hook. Invariant: the stored command is one program for any path: blanks, quotes, `$(…)`.
Trap: a script holds no logic; it could be older than the package.
Source: users' report 11; docs/reference/hooks.md.
"""

from __future__ import annotations

import os
import shlex
import sys

from openmem.base.assets import read_asset
from openmem.base.errors import Refused
from openmem.base.paths import Paths
from openmem.plan.action import Action
from openmem.plan.edit.planner import plan_remove, plan_write
from openmem.plan.system import System

HOOK = "openmem-hook"
MCP = "openmem-mcp"
PROVIDER_KEY = "openmem-provider-key"  # runs for an agent that speaks to the provider itself
_WHY = {
    HOOK: "starts the session hooks",
    MCP: "starts the MCP server",
    PROVIDER_KEY: "gives the provider's key",
}


def launcher_path(paths: Paths, name: str) -> str:
    """Return where a launcher stands: `<state>/hooks/openmem-hook`."""
    return f"{paths.state_dir}/hooks/{name}"


def rendered(name: str, paths: Paths, *, python: str = "", root: str = "") -> bytes:
    """Return a launcher for this installation. `root`: the folder that holds the package.

    Refused when a path cannot be written as UTF-8: a shell would look for another one.
    """
    values = {
        "python": python or sys.executable,
        "root": root or _package_root(),
        "state": os.path.abspath(paths.state_dir),
        "config": os.path.abspath(paths.config_dir),
    }
    lines = []
    for line in read_asset("hooks", name).split("\n"):
        key = line.removesuffix("=''")
        lines.append(f"{key}={shlex.quote(values[key])}" if key in values else line)
    try:
        return "\n".join(lines).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(
            "a folder of this installation has a name that is not UTF-8.",
            hint="Install openmem in another folder, or set OPENMEM_STATE_DIR to one.",
        ) from None


def _package_root() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def fault_of(paths: Paths, name: str) -> str:
    """Return why a launcher that agents are told to run does not run, "" when it does."""
    path = launcher_path(paths, name)
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        return f"cannot be read: {os.strerror(error.errno or 0)}"
    if not os.access(path, os.X_OK):
        return "may not be run"
    stated = dict(line.partition("=")[::2] for line in text.split("\n"))
    python = _first(stated.get("python", ""))
    if not os.access(python, os.X_OK):
        return f"names an interpreter that is gone: {python or '(none)'}"
    root = _first(stated.get("root", ""))
    if not os.path.isdir(f"{root}/openmem"):
        return f"names an installation that is gone: {root or '(none)'}"
    return ""


def _first(text: str) -> str:
    try:
        return next(iter(shlex.split(text)), "")
    except ValueError:
        return ""  # a quote that does not end: not as we wrote it


def hook_command(paths: Paths, event: str, agent: str) -> str:
    """Return the shell command for an event, as an agent's settings hold it."""
    program = shlex.quote(os.path.abspath(launcher_path(paths, HOOK)))
    return f"{program} {event} --agent {agent}"


def plan_launchers(system: System, paths: Paths, names: tuple[str, ...]) -> list[Action]:
    """Return the writes that make these launchers as they should be, or nothing to do."""
    actions: list[Action] = []
    for name in names:
        data = rendered(name, paths)
        actions += plan_write(system, launcher_path(paths, name), data, _WHY[name], 0o700)
    return actions


def plan_launcher_removal(system: System, paths: Paths) -> list[Action]:
    """Return the removal of the launchers that are there."""
    actions: list[Action] = []
    for name in (HOOK, MCP, PROVIDER_KEY):
        actions += plan_remove(system, launcher_path(paths, name), f"{_WHY[name]} no more")
    return actions
