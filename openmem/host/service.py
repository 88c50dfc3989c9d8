"""Service managers: systemd's user manager, launchd, or none, and the files they are given.

Idea: where a manager runs, it holds the address (systemd) or restarts the supervisor (launchd)
across logins; elsewhere a detached supervisor does. Invariant: files are rendered by pure
functions from templates that are valid as they stand, and written only through a plan.
Trap: `systemctl` exists on machines without a user manager (containers, ssh without lingering);
only the manager's own answer counts.
Source: systemd.socket(5), systemd.service(5), launchd.plist(5). The launchd form is held by
golden files; it was not run on a Mac.
"""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.base.assets import read_asset
from openmem.base.errors import Missing
from openmem.base.paths import Paths
from openmem.host.launch import command_of, spawn
from openmem.host.record import HOST
from openmem.plan.action import Action, MakeDir, Plan, RunCommand, Secret, WriteFile
from openmem.plan.edit.planner import plan_write
from openmem.plan.system import System

LABEL = "openmem.proxy"
MODULE = "openmem.host.supervisor"
_RUNNING_STATES = ("running", "degraded", "starting", "initializing")

# What a manager's environment lacks and the proxy needs: where its files are, how to go out.
_GIVEN = (
    "OPENMEM_CONFIG_DIR",
    "OPENMEM_STATE_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
)

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What a service manager was given. `start` and `let_go`: commands, in order.

    After `let_go` the manager neither holds the address nor starts anything again, while the
    processes that run go on, so that they can drain.
    """

    manager: str
    files: tuple[str, ...]
    start: tuple[Command, ...]
    let_go: tuple[Command, ...]


def systemd_unit(paths: Paths) -> Unit:
    """Return the unit of systemd's user manager, installed or not."""
    root = paths.environ.get("XDG_CONFIG_HOME", "").strip() or f"{paths.home}/.config"
    folder = f"{root}/systemd/user"
    return Unit(
        manager="systemd",
        files=(f"{folder}/openmem.socket", f"{folder}/openmem.service"),
        start=(
            ("systemctl", "--user", "enable", "--now", "openmem.socket"),
            ("systemctl", "--user", "start", "openmem.service"),
        ),
        let_go=(("systemctl", "--user", "disable", "--now", "openmem.socket"),),
    )


def launchd_unit(paths: Paths) -> Unit:
    """Return the unit of launchd's manager for this user's desktop session, installed or not."""
    path = f"{paths.home}/Library/LaunchAgents/{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    return Unit(
        manager="launchd",
        files=(path,),
        start=(
            ("launchctl", "enable", f"{domain}/{LABEL}"),
            ("launchctl", "bootstrap", domain, path),
            ("launchctl", "kickstart", f"{domain}/{LABEL}"),
        ),
        let_go=(("launchctl", "disable", f"{domain}/{LABEL}"),),
    )


def installed_unit(paths: Paths) -> Unit | None:
    """Return the unit whose files are in place, None without one."""
    for unit in (systemd_unit(paths), launchd_unit(paths)):
        if all(os.path.exists(path) for path in unit.files):
            return unit
    return None


def run_quietly(commands: Sequence[Command], environ: Mapping[str, str]) -> bool:
    """Run commands in order; returns whether all ended well. One that fails ends nothing.

    launchd's `bootstrap` fails when the job is loaded already; what counts is asked afterwards.
    """
    results = []
    for command in commands:
        path = _found(command[0], environ)
        if path is None:
            return False
        pid = spawn([path, *command[1:]], environ)
        results.append(os.waitpid(pid, 0)[1])
    return not any(results)


def _found(program: str, environ: Mapping[str, str]) -> str | None:
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK):
            return path
    return None


def manager_of(system: System, platform: str = sys.platform) -> str:
    """Return "systemd", "launchd" or "detached": who can really keep a service for this user."""
    if platform == "darwin":
        domain = f"gui/{os.getuid()}"
        return "launchd" if _answers(system, "launchctl", "print", domain) else "detached"
    try:
        state = system.probe(("systemctl", "--user", "is-system-running")).stdout.strip()
    except Missing:
        return "detached"
    return "systemd" if state in _RUNNING_STATES else "detached"


def _answers(system: System, *command: str) -> bool:
    try:
        return system.probe(command).code == 0
    except Missing:
        return False


def service_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the manager must give the proxy, in a fixed order."""
    return {name: environ[name] for name in _GIVEN if environ.get(name)}


def render_socket(port: int) -> str:
    """Return the text of `openmem.socket`."""
    return _with(_template("openmem.socket"), "ListenStream", f"{HOST}:{port}")


def render_service(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the text of `openmem.service`. `environ`: only what the service is to be given."""
    text = _with(
        _template("openmem.service"),
        "ExecStart",
        " ".join(_quoted(word, is_command=True) for word in command),
    )
    lines = "".join(
        f"Environment={_quoted(f'{name}={value}', is_command=False)}\n"
        for name, value in environ.items()
    )
    return text + lines


def render_plist(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the text of launchd's `openmem.proxy.plist`."""
    value = plistlib.loads(_template(f"{LABEL}.plist").encode())
    value["ProgramArguments"] = list(command)
    if environ:
        value["EnvironmentVariables"] = dict(environ)
    return plistlib.dumps(value, sort_keys=False).decode()


def _template(name: str) -> str:
    return read_asset("templates", "service", name)


def _with(template: str, key: str, value: str) -> str:
    """Return the template with the one line of `key` changed."""
    lines = template.splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.startswith(f"{key}=")]
    lines[places[0]] = f"{key}={value}\n"
    return "".join(lines)


def _quoted(word: str, *, is_command: bool) -> str:
    """Return a word as systemd reads it back: quoted, with its own specifiers made plain.

    Source: systemd.service(5), "Command lines"; systemd.unit(5), "Specifiers".
    """
    if "\n" in word or "\r" in word or "\0" in word:
        raise ValueError("a line end cannot stand in a unit file")
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    if is_command:
        text = text.replace("$", "$$")
    plain = word and all(c.isalnum() or c in "/._-+:=@," for c in word)
    return text if plain else f'"{text}"'


def service_actions(system: System, paths: Paths, environ: Mapping[str, str], port: int) -> Plan:
    """Return the plan that keeps the proxy running on this machine; empty when it is kept.

    By the service manager where one answers, else by a detached supervisor.
    """
    manager = manager_of(system)
    start = RunCommand(
        argv=tuple(command_of(MODULE, "--start")),
        probe=tuple(command_of(MODULE, "--probe")),
        undo=tuple(command_of(MODULE, "--stop")),
        why="starts the proxy",
    )
    if manager == "detached":
        return Plan() if _is_done(system, start) else Plan(actions=(start,))
    given = service_environment(environ)
    if manager == "systemd":
        unit = systemd_unit(paths)
        texts = [
            render_socket(port),
            render_service(command_of(MODULE, "--service", "systemd"), given),
        ]
        whys = ["keeps the proxy reachable", "runs the proxy"]
    else:
        unit = launchd_unit(paths)
        texts = [render_plist(command_of(MODULE, "--service", "launchd"), given)]
        whys = ["keeps the proxy running"]
    secrets = tuple(_secrets(given))
    actions: list[Action] = []
    folder = os.path.dirname(unit.files[0])
    if system.stat(folder) is None:
        actions.append(MakeDir(path=folder, why="holds the user's own services", mode=0o755))
    for path, text, why in zip(unit.files, texts, whys, strict=True):
        actions += plan_write(system, path, text.encode(), why, 0o600, secrets=secrets)
    is_changed = bool(actions)
    commands = _systemd_commands(system, unit, actions) if manager == "systemd" else []
    if _answers(system, *command_of(MODULE, "--probe", "detached")):
        commands.insert(0, _handing_over(manager))
        is_changed = True
    commands.append(start)
    if is_changed or not all(_is_done(system, command) for command in commands):
        actions += commands
    return Plan(actions=tuple(actions))


def _handing_over(manager: str) -> RunCommand:
    return RunCommand(
        argv=tuple(command_of(MODULE, "--give-way")),
        undo=tuple(command_of(MODULE, "--start")),
        why=f"hands the proxy's address over to {manager}",
    )


def _systemd_commands(system: System, unit: Unit, actions: Sequence[Action]) -> list[RunCommand]:
    """Return what systemd is told before the proxy is started; the last is always there."""
    reload = ("systemctl", "--user", "daemon-reload")
    active = ("systemctl", "--user", "is-active", "--quiet", "openmem.socket")
    stop = ("systemctl", "--user", "disable", "--now", "openmem.socket", "openmem.service")
    commands = []
    if any(isinstance(action, WriteFile) for action in actions):
        if _answers(system, *active):
            commands.append(
                RunCommand(
                    argv=("systemctl", "--user", "stop", "openmem.socket", "openmem.service"),
                    why="lets go of the address as it was",
                )
            )
        commands.append(RunCommand(argv=reload, undo=reload, why="lets systemd read the files"))
    opening = RunCommand(
        argv=unit.start[0], undo=stop, probe=active, why="opens the proxy's address"
    )
    return [*commands, opening]


def _is_done(system: System, command: RunCommand) -> bool:
    return bool(command.probe) and _answers(system, *command.probe)


def _secrets(given: Mapping[str, str]) -> list[Secret]:
    """Return the values that hold a password: a corporate proxy's address often does."""
    found = []
    for name, value in given.items():
        if "://" in value and "@" in value:
            quoted = value.replace("%", "%%")
            # a saved plan looks the value up again, which works only for one written as it is
            found.append(Secret(quoted, f"env:{name}" if quoted == value else ""))
    return found
