"""Asks Codex's own app-server what it makes of some hooks: `ask_hooks BINARY HOOKS-JSON`.

Run as a program of its own, because the answer needs a dialogue. It lays the hooks into a folder
made for this, starts the app-server there and prints what `hooks/list` says of them, as JSON.
Invariant: nothing of the person's is read or written, and nothing outside this machine is reached:
the server's way out is a closed port. Source: Codex 0.171.0, `hooks/list` of the app-server.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

_SECONDS = 15.0
_QUIET = """check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
"""
_NOWHERE = "http://127.0.0.1:9"


def main(argv: list[str]) -> int:
    """Print the list; 1 when Codex does not give one."""
    binary, hooks = argv
    folder = tempfile.mkdtemp(prefix="openmem-codex-")
    try:
        listed = _ask(binary, hooks, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if listed is None:
        return 1
    sys.stdout.write(json.dumps(listed))
    return 0


def _ask(binary: str, hooks: str, folder: str) -> list[Any] | None:
    with open(f"{folder}/hooks.json", "w", encoding="utf-8") as file:
        file.write(hooks)
    with open(f"{folder}/config.toml", "w", encoding="utf-8") as file:
        file.write(_QUIET)
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "LANG": "C.UTF-8",
        "HOME": folder,
        "CODEX_HOME": folder,
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), _NOWHERE),
    }
    said = [
        {"id": 0, "method": "initialize", "params": {"clientInfo": _US}},
        {"method": "initialized"},
        {"id": 1, "method": "hooks/list", "params": {"cwds": [folder]}},
    ]
    child = subprocess.Popen(
        [binary, "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd=folder,
        start_new_session=True,
    )
    assert child.stdin is not None and child.stdout is not None
    watchdog = _end_after(child)
    try:
        child.stdin.write("".join(json.dumps(one) + "\n" for one in said).encode())
        child.stdin.flush()
        for line in child.stdout:
            found = _hooks_in(line)
            if found is not None:
                return found
    except OSError:
        pass  # it ended before it was told everything: there is no list
    finally:
        watchdog.cancel()
        with contextlib.suppress(OSError):  # it ended before it read what is still buffered
            child.stdin.close()
        _end(child)
    return None


_US = {"name": "openmem", "title": "openmem", "version": "1"}


def _hooks_in(line: bytes) -> list[Any] | None:
    try:
        message = json.loads(line)
        if message.get("id") != 1:
            return None  # a notice, or the answer to the greeting
        hooks = message["result"]["data"][0]["hooks"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None  # another version's way to say it
    return hooks if isinstance(hooks, list) else None


def _end_after(child: subprocess.Popen[bytes]) -> threading.Timer:
    timer = threading.Timer(_SECONDS, _kill, [child])
    timer.daemon = True
    timer.start()
    return timer


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End it with what it started: the program may be a script that runs another."""
    with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
        os.killpg(child.pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(2.0)
    except subprocess.TimeoutExpired:
        _kill(child)
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
