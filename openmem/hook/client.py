"""`openmem-hook EVENT --agent A`: the agent's JSON on stdin, valid output on stdout, exit 0.

Idea: ask the running proxy over its Unix socket, one line each way; without it do the work here.
Invariant: whatever happens, the process ends within the event's budget with status 0, because an
agent must never wait for us or stop because of us. One timer holds that, also while stdin, a
socket or a disk hangs.
Trap: this file is read on every prompt. It imports what the interpreter has loaded anyway and a
few built-in modules; `json` alone would double what it costs (measured: 17.4 ms of CPU against
8.2 for a bare interpreter). So the request is put together from the agent's own JSON, unparsed.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; `signal` loads `enum`
import _socket
import os
import sys
import time

from openmem.base.paths import Paths
from openmem.base.route import HOST, routed_port

# Seconds for the whole event, with room for the interpreter to start and end.
# Source: users' reports 15 and 16 (start 2 s, prompt 1 s, stop 2 s).
BUDGET_SECONDS = {"session-start": 1.8, "prompt": 0.85, "stop": 1.8}
_SOCKET_SHARE = 0.6  # of the budget; what is left is enough to do the work here
_PORT_SECONDS = 0.15  # a loopback port answers or refuses at once, unless its queue is full
_LINE_LIMIT_BYTES = 8 * 1024 * 1024  # what the control socket takes
_INPUT_LIMIT_BYTES = 32 * 1024 * 1024
_FORWARDED = (
    *("CLAUDE_PID", "CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"),
    "HOME",
)


def main(argv: list[str] | None = None) -> int:
    """Run one event; always returns 0. `argv`: without the program's name."""
    if os.environ.get("OPENMEM_ASIDE"):
        return 0  # an agent that one of our own commands runs is no session of the person's
    event, agent = _arguments(sys.argv[1:] if argv is None else argv)
    budget = BUDGET_SECONDS.get(event, 0.5)
    deadline = time.monotonic() + budget
    paths = Paths(os.environ)
    _set_timer(budget, event, agent, paths)
    try:
        _run(event, agent, paths, deadline)
    except Exception as error:  # noqa: BLE001 - fails open: the agent goes on, the fault is noted
        _note(paths, event, agent, f"fault {type(error).__name__}")
    finally:
        _signal.setitimer(_signal.ITIMER_REAL, 0)
    return 0


def _run(event: str, agent: str, paths: Paths, deadline: float) -> None:
    stdin = _read_stdin()
    environ = _environ(agent)
    share = (deadline - time.monotonic()) * _SOCKET_SHARE
    line = request_line(event, agent, stdin, environ, share)
    output = ask(paths.control_socket, line, share) if len(line) <= _LINE_LIMIT_BYTES else None
    if output is not None:
        _write(output)
        return
    port = int(environ["OPENMEM_HOOK_PORT"])
    started = False
    if port and event in ("session-start", "prompt") and not is_listening(port):
        from openmem.hook.revive import start_supervisor

        started = start_supervisor(paths, os.environ)
    from openmem.hook.handle import answer

    output = answer(event, agent, stdin, paths, environ)
    if started and not _wait_for(port, deadline):
        from openmem.hook.texts import with_warning

        output = with_warning(output, port)
        _note(paths, event, agent, "the proxy did not come up in time")
    _write(output)


def _arguments(argv: list[str]) -> tuple[str, str]:
    """Return event and agent; what is missing or unknown is left to `answer`, which notes it."""
    event, agent = "", "claude-code"
    rest = iter(argv)
    for word in rest:
        if word == "--agent":
            agent = next(rest, "")
        elif word.startswith("--agent="):
            agent = word[8:]
        elif not event:
            event = word
    return event, agent


def _environ(agent: str) -> dict[str, str]:
    """Return what the work may know of the environment: no key, no token, no address."""
    environ = {name: os.environ[name] for name in _FORWARDED if name in os.environ}
    if agent == "codex":
        from openmem.hook.codex import port_in_settings

        port = port_in_settings(environ)
    elif agent == "opencode":
        from openmem.hook import opencode

        port = opencode.port_in_settings(environ, os.environ.get(opencode.PROVIDER, ""))
    else:
        port = routed_port(os.environ.get("ANTHROPIC_BASE_URL", ""), agent)
    environ["OPENMEM_HOOK_PORT"] = str(port)
    environ["OPENMEM_HOOK_PARENT"] = str(os.getppid())
    return environ


def request_line(
    event: str, agent: str, stdin: bytes, environ: dict[str, str], seconds: float
) -> bytes:
    """Return the one line for the control socket, with the agent's JSON as it came.

    A raw line end can stand only between the tokens of a JSON text, so a blank is the same there.
    """
    import _json

    quote = _json.encode_basestring_ascii
    pairs = ",".join(f"{quote(name)}:{quote(value)}" for name, value in environ.items())
    head = (
        f'{{"op":"hook","event":{quote(event)},"agent":{quote(agent)},'
        f'"deadline_seconds":{max(seconds, 0.05):.3f},"environ":{{{pairs}}}'
    )
    payload = stdin.replace(b"\r", b" ").replace(b"\n", b" ").strip() or b"null"
    return head.encode("ascii") + b',"payload":' + payload + b"}\n"


def ask(path: str, line: bytes, seconds: float) -> str | None:
    """Return the output that the proxy gives; None when it gives none within `seconds`."""
    deadline = time.monotonic() + max(seconds, 0.05)
    reply = bytearray()
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        if not _is_private(os.path.dirname(path)):
            return None
        connection.settimeout(max(seconds, 0.05))
        connection.connect(path)
        connection.sendall(line)
        while not reply.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            connection.settimeout(left)
            part = connection.recv(65536)
            if not part:
                break
            reply += part
    except (OSError, ValueError):
        return None  # no proxy, or one that hangs: the work is done here
    finally:
        connection.close()
    return _output_of(bytes(reply))


def _output_of(reply: bytes) -> str | None:
    """Return `stdout` of `{"ok": true, "stdout": "…"}`, None for any other reply."""
    import _json

    text = reply.decode("utf-8", "replace")
    head, found, rest = text.partition('"stdout"')
    try:
        if found and "".join(head.split()) == '{"ok":true,':
            return str(_json.scanstring(rest[rest.index('"') :], 1)[0])
        return _decoded(text)
    except (ValueError, SystemError):
        # Cut off half way, or none of our protocol. SystemError is how the C scanner fails as
        # long as nobody has loaded the module that holds its exception.
        return None


def _decoded(text: str) -> str | None:
    import json  # an answer whose parts stand in another order is read in full

    value = json.loads(text)
    output = value.get("stdout") if isinstance(value, dict) and value.get("ok") is True else None
    return output if isinstance(output, str) else None


def _is_private(folder: str) -> bool:
    """Return whether a folder is this user's alone; in `/tmp` another may have made it first."""
    status = os.lstat(folder)
    return (
        status.st_mode & 0o170077 == 0o040000  # a folder, not a link; nobody else may enter
        and status.st_uid == os.getuid()
    )


def is_listening(port: int) -> bool:
    """Return whether something accepts connections on our port: proxy, supervisor or systemd."""
    connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        connection.settimeout(_PORT_SECONDS)
        connection.connect((HOST, port))
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # a full queue times out: somebody holds the port
    finally:
        connection.close()
    return True


def _wait_for(port: int, deadline: float) -> bool:
    while time.monotonic() < deadline - 0.1:
        if is_listening(port):
            return True
        time.sleep(0.02)
    return False


def _read_stdin() -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= _INPUT_LIMIT_BYTES:
        part = os.read(0, 1 << 20)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _write(output: str) -> None:
    data = output.encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


def _set_timer(seconds: float, event: str, agent: str, paths: Paths) -> None:
    """End the process when the budget is spent; a second timer bounds the note of it."""

    def give_up(number: int, frame: object) -> None:
        os._exit(0)

    def out_of_time(number: int, frame: object) -> None:
        _signal.signal(_signal.SIGALRM, give_up)
        _signal.setitimer(_signal.ITIMER_REAL, 0.05)
        _note(paths, event, agent, "out of time")
        os._exit(0)

    _signal.signal(_signal.SIGALRM, out_of_time)
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def _note(paths: Paths, event: str, agent: str, what: str) -> None:
    from openmem.hook.notes import note

    note(paths, event, agent, what)


if __name__ == "__main__":
    sys.exit(main())
