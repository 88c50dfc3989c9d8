"""Starting a supervisor: `python -m openmem.host.supervisor` with one of the words below.

`--detach`     be sure that the proxy's port listens, then return: by the service manager where a
               unit is installed, else by a supervisor in a session of its own. What hooks run.
               Does nothing after `proxy stop`.
`--start`      the same on a person's word: takes the mark of a wanted stop away first.
`--adopt`      the same, run by a worker whose supervisor died; also while the proxy drains.
`--service M`  become the supervisor under the service manager M (systemd or launchd).
`--probe [M]`  exit 0 when a supervisor (under the manager M) is alive here and none wants it gone.
`--give-way`   end the proxy without the mark of a wanted stop: somebody else takes the address.
`--stop`       end the proxy at once and leave that mark.

Idea: whoever starts us returns once the port listens, which is before any worker is up; the
connections wait in the queue meanwhile. Invariant: exit status 0 of a start means that connecting
works; 3 stopped by a person, 6 the port is somebody else's, 1 anything else.
Trap: the lock and the socket are taken before the fork, so that the parent knows the outcome.
"""

from __future__ import annotations

import os
import time

from openmem.base.errors import DONE, FAILED, MISSING, USAGE, InvalidConfig, Missing, OpenmemError
from openmem.base.paths import Paths
from openmem.host.hold import Held, hold, is_listening
from openmem.host.launch import become, clean_environment
from openmem.host.logbook import Logbook
from openmem.host.record import (
    clear_stopped,
    is_stopped,
    is_supervised,
    read_record,
    remove_record,
)

STOPPED = 3
DEFAULT_PORT = 8913
_SYSTEMD_FIRST_FD = 3
_LOCK_WAIT_SECONDS = 15.0
_LISTEN_WAIT_SECONDS = 3.0
_MANAGER_WAIT_SECONDS = 1.0


def launch(words: list[str]) -> int:
    """Do what the words ask; returns the exit status."""
    environ = clean_environment(os.environ)
    paths = Paths(environ)
    word, rest = (words[0], words[1:]) if words else ("", [])
    if word == "--probe" and len(rest) <= 1:
        return DONE if _is_alive(paths, *rest) else FAILED
    if word == "--service" and len(rest) == 1:
        return _serve_for(rest[0], paths, environ)
    if rest:
        return USAGE
    if word == "--detach":
        return STOPPED if is_stopped(paths) else _ensure(paths, environ)
    if word == "--start":
        return _start(paths, environ)
    if word == "--adopt":
        return _detach(paths, environ, wanted_port(paths, environ))
    if word in ("--stop", "--give-way"):
        return _end(paths, is_wanted=word == "--stop")
    return USAGE


def wanted_port(paths: Paths, environ: dict[str, str]) -> int:
    """Return the port of the proxy that was here before us, else the one of the settings.

    Agents that run have the earlier address; a changed setting counts from `proxy start` on, which
    takes the record away. Settings that cannot be read must not leave an agent without a proxy.
    """
    from openmem.base.config import load_config

    record = read_record(paths)
    if record is not None:
        return record.port
    try:
        return load_config(paths.config_file, environ).number("proxy.port")
    except InvalidConfig as error:
        Logbook(paths, "launcher").fault("settings cannot be used", error)
        return DEFAULT_PORT


def _is_alive(paths: Paths, manager: str = "") -> bool:
    if not is_supervised(paths) or is_stopped(paths):
        return False
    record = read_record(paths)
    return not manager or (record is not None and record.manager == manager)


def _start(paths: Paths, environ: dict[str, str]) -> int:
    was_stopped = is_stopped(paths)
    clear_stopped(paths)
    if is_supervised(paths):
        from openmem.host.control import ControlError, call
        from openmem.host.service import installed_unit, run_quietly

        unit = installed_unit(paths)
        if was_stopped and unit is not None:
            run_quietly(unit.start, environ)  # it was told to let go; it keeps the proxy again
        try:
            call(paths, {"op": "resume"}, _MANAGER_WAIT_SECONDS)
        except ControlError:
            pass  # no worker is up yet; the one that comes reads that the mark is gone
    else:
        remove_record(paths)  # from here on the settings' port counts
    return _ensure(paths, environ)


def _ensure(paths: Paths, environ: dict[str, str]) -> int:
    """Make the port listen, by whoever is to hold it."""
    port = wanted_port(paths, environ)
    if is_supervised(paths) and is_listening(port):
        return DONE
    if _is_started_by_manager(paths, environ, port):
        return DONE
    return _detach(paths, environ, port)


def _is_started_by_manager(paths: Paths, environ: dict[str, str], port: int) -> bool:
    """Start the installed unit, if there is one; False where its manager does not take it.

    Asked even when the port listens: systemd may hold the address without a service behind it,
    and a stranger there makes the unit fail.
    """
    from openmem.host.service import installed_unit, run_quietly

    unit = installed_unit(paths)
    if unit is None or not run_quietly(unit.start, environ):
        return False
    deadline = time.monotonic() + _MANAGER_WAIT_SECONDS
    while not is_listening(port):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _detach(paths: Paths, environ: dict[str, str], port: int) -> int:
    log = Logbook(paths, "launcher")
    deadline = time.monotonic() + _LISTEN_WAIT_SECONDS
    try:
        # a lock that is taken by a mere question is free again at once, so one look is not enough
        while (held := hold(paths, port)) is None:
            if is_listening(port):
                return DONE  # another start was first; its socket is as good as ours
            if time.monotonic() >= deadline:
                return FAILED
            time.sleep(0.02)
    except Missing:
        log.line(f"port {port} is taken by another program")
        return MISSING
    except (OSError, OpenmemError) as error:
        log.fault("cannot hold the address", error)
        return FAILED
    if os.fork() > 0:
        return DONE
    os.setsid()
    try:
        _leave_streams()
        _become(paths, held, environ, "detached")
    except OSError as error:
        log.fault("cannot become the supervisor", error)
    os._exit(FAILED)  # the fork of a caller must not run the caller's clean-up


def _serve_for(manager: str, paths: Paths, environ: dict[str, str]) -> int:
    """Become the supervisor in this very process, which the service manager watches."""
    from openmem.host.ending import worker_pid

    if is_stopped(paths) and worker_pid(paths) is None:
        return DONE  # ended by a person; nothing drains that would need us
    given = _given_socket()
    port = 0 if given is not None else wanted_port(paths, environ)
    log = Logbook(paths, "launcher")
    try:
        held = hold(paths, port, given_fd=given, wait_seconds=_LOCK_WAIT_SECONDS)
        if held is None:
            log.line("another supervisor keeps the lock")
            return FAILED
        if is_stopped(paths) and not held.workers:
            return DONE  # ended by a person while we waited for the lock
        _become(paths, held, environ, manager)
    except (OSError, OpenmemError) as error:
        log.fault("cannot serve", error)
    return FAILED


def _given_socket() -> int | None:
    """Return the listening socket that the service manager passed, None when it passed none.

    Source: systemd's sd_listen_fds(3): LISTEN_PID names us, LISTEN_FDS counts, 3 is the first.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    return _SYSTEMD_FIRST_FD if os.environ.get("LISTEN_FDS", "0") != "0" else None


def _become(paths: Paths, held: Held, environ: dict[str, str], manager: str) -> None:
    before = read_record(paths) if held.workers else None
    line_fds = [entry["fd"] for entry in held.workers if isinstance(entry["fd"], int)]
    orders = {
        "listen": held.listen_fd,
        "lock": held.lock_fd,
        "port": held.port,
        "manager": manager,
        # a worker taken over has served since then; a new one begins anew
        "started_at": before.started_at if before else "",
        "restarts": before.restarts if before else 0,
        "workers": held.workers,
    }
    become(orders, environ, [held.listen_fd, held.lock_fd, *line_fds])


def _leave_streams() -> None:
    """Let go of the caller's terminal and pipes; a pipe kept open would make the caller wait."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.chdir("/")


def _end(paths: Paths, *, is_wanted: bool) -> int:
    from openmem.host.ending import end_now, give_way

    try:
        end_now(paths) if is_wanted else give_way(paths)
    except OpenmemError as error:
        Logbook(paths, "launcher").fault("cannot end the proxy", error)
        return error.exit_status
    return DONE
