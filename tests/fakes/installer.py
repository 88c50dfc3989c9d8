"""A small installation of three files, and programs that do it, break it off, or get in its way.

`python -m tests.fakes.installer apply|crash N|write PATH` are children of the tests in
`tests/plan`; HOME says where they work.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping

from openmem.base.paths import Paths
from openmem.plan.action import Edit, Plan, plan_of
from openmem.plan.apply import apply, apply_replanning
from openmem.plan.edit.planner import plan_json_edit, plan_remove, plan_write
from openmem.plan.system import RealSystem, System

SETTINGS = b'{\r\n\t"model": "x", // mine\r\n\t"env": {"A": "1"}\r\n}'


def settings_edits(version: str) -> list[Edit]:
    return [
        Edit(keys=("env", "ANTHROPIC_BASE_URL"), op="set", value=f"http://127.0.0.1:{version}"),
        Edit(
            keys=("hooks", "Stop"),
            op="append",
            value={"hooks": [{"type": "command", "command": f"openmem-hook stop {version}"}]},
            marker="openmem-hook",
        ),
    ]


def installation(system: System, home: str, version: str = "1") -> Plan:
    """Settings edited, an MCP entry in a new file, a file of our own, an old file removed."""
    return plan_of(
        [
            *plan_json_edit(
                system,
                f"{home}/.agent/settings.json",
                settings_edits(version),
                strict=False,
                why="hooks",
            ),
            *plan_json_edit(
                system,
                f"{home}/.agent.json",
                [Edit(keys=("mcpServers", "openmem"), op="set", value={"command": version})],
                strict=True,
                why="the MCP server",
            ),
            *plan_write(
                system, f"{home}/.config/openmem/policy.toml", version.encode(), "the policy"
            ),
            *plan_remove(system, f"{home}/.agent/old-hook", "left by an older version"),
        ]
    )


def lay_out(home: str) -> None:
    """Make the files of somebody who has an agent."""
    os.mkdir(f"{home}/.agent")
    for name, data, mode in (
        ("settings.json", SETTINGS, 0o640),
        ("old-hook", b"#!/bin/sh\n", 0o755),
    ):
        with open(f"{home}/.agent/{name}", "wb") as file:
            file.write(data)
        os.chmod(f"{home}/.agent/{name}", mode)


def snapshot(home: str) -> dict[str, tuple[int, bytes | str]]:
    """Return mode and bytes of everything in HOME but openmem's own state."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for folder, names, files in os.walk(home):
        if folder.endswith("/.local/share"):
            names[:] = [name for name in names if name != "openmem"]
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            if path in (f"{home}/.local", f"{home}/.local/share"):
                continue
            mode = os.lstat(path).st_mode
            if os.path.islink(path):
                found[path] = (mode, os.readlink(path))
            elif os.path.isdir(path):
                found[path] = (mode, "folder")
            else:
                with open(path, "rb") as file:
                    found[path] = (mode, file.read())
    return found


class KilledSystem(RealSystem):
    """The machine, with a process that is killed at its n-th change: before, inside or after it."""

    def __init__(self, environ: Mapping[str, str], at: int) -> None:
        super().__init__(environ)
        self.countdown = at

    def _tick(self) -> None:
        self.countdown -= 1
        if self.countdown == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        self._tick()
        super().write(path, data, mode=mode, expect=expect)
        self._tick()

    def remove(self, path: str, *, expect: str | None = None) -> None:
        self._tick()
        super().remove(path, expect=expect)
        self._tick()

    def make_dir(self, path: str, *, mode: int = 0o700) -> None:
        super().make_dir(path, mode=mode)
        self._tick()


def kill_inside_swap() -> None:
    """Kill this process when a file has been written beside its target but not put in place."""
    import openmem.plan.system.real as real

    def killed(one: str, other: str) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return False

    real.exchange = killed


def _write_for_ever(path: str) -> None:
    """Add one to a counter in a JSON file every 20 ms, truncating and rewriting it in place."""
    print("ready", flush=True)
    count = 0
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                root = json.load(file)
        except ValueError:
            time.sleep(0.001)  # the other side of the same race: look again
            continue
        count += 1
        root["counter"] = count
        text = json.dumps(root, indent=2)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[: len(text) // 2])
            file.flush()
            time.sleep(0.002)
            file.write(text[len(text) // 2 :])
        print(count, flush=True)
        time.sleep(0.02)


def main() -> None:
    environ = dict(os.environ)
    home, paths = environ["HOME"], Paths(environ)
    match sys.argv[1:]:
        case ["apply", version]:
            system = RealSystem(environ)
            apply(installation(system, home, version), system, paths, label="setup")
        case ["add", key]:
            system = RealSystem(environ)
            edit = Edit(keys=("mcpServers", key), op="set", value={"command": key})
            path = f"{home}/.agent.json"
            apply_replanning(
                lambda: plan_of(plan_json_edit(system, path, [edit], strict=True, why="mcp")),
                system,
                paths,
                label=f"add {key}",
                attempts=20,
            )
        case ["crash", at]:
            killed = KilledSystem(environ, int(at))
            apply(installation(killed, home), killed, paths, label="setup")
        case ["crash-inside"]:
            kill_inside_swap()
            system = RealSystem(environ)
            apply(installation(system, home), system, paths, label="setup")
        case ["write", path]:
            _write_for_ever(path)


if __name__ == "__main__":
    main()
