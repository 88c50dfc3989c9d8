"""CPU of a whole hook process against an interpreter that does nothing.

Measured as the kernel counts it for the child (user and system time), so that a busy machine makes
it noisy but not longer. The commands are those that setup wrote into the agent's own settings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.bench.figures import Figure, Report, median
from openmem.bench.seeding import seed
from openmem.bench.stage import Stage, free_port

SOCKET_LIMIT = 3.5
STANDALONE_LIMIT = 8.0
EVENTS = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "tool": "PreToolUse",
    "stop": "Stop",
}


def run(*, repeats: int = 31, statements: int = 0) -> Report:
    """Return the figures for each wired event, with the proxy up and with it stopped.

    `statements`: so many are remembered about the project before, and prompts vary.
    """
    figures: list[Figure] = []
    with Stage() as stage:
        upstream = stage.upstream()
        try:
            wire(stage, upstream)
            prompts = seed(stage.environ(), stage.project, statements) if statements else []
            commands = hook_commands(stage)
            asked = _Asked(stage, tuple(prompts))
            figures += _measure(asked, commands, "by the socket", SOCKET_LIMIT, repeats)
            stage.openmem("proxy", "stop", "--now")
            figures += _measure(asked, commands, "standalone", STANDALONE_LIMIT, repeats)
        finally:
            stage.openmem("uninstall", "--purge", "--yes")
    notes = [f"floor: {os.path.basename(sys.executable)} -I -S -c pass"]
    if statements:
        notes.append(f"{statements:,} statements in the bank; {len(prompts)} prompts in turn")
    name = "hook-memory" if statements else "hook"
    return Report(bench=name, figures=tuple(figures), notes=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the hooks are given. `prompts`: asked in turn, each in a session of its own."""

    stage: Stage
    prompts: tuple[str, ...] = ()

    def payload(self, event: str, turn: int) -> dict[str, object]:
        payload = _payload(self.stage, event)
        if self.prompts:
            payload["session_id"] = f"00000000-0000-4000-8000-{turn:012x}"
            if event == "prompt":
                payload["prompt"] = self.prompts[turn % len(self.prompts)]
        return payload


def wire(stage: Stage, upstream_port: int) -> None:
    """Let setup wire Claude Code in the stage's HOME, before an upstream of ours."""
    folder = os.path.join(stage.home, ".claude")
    os.makedirs(folder)
    settings = {"env": {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{upstream_port}"}}
    with open(os.path.join(folder, "settings.json"), "w", encoding="utf-8") as file:
        json.dump(settings, file)
    stage.openmem("setup", "--yes", "--port", str(free_port()))


def hook_commands(stage: Stage) -> dict[str, str]:
    """Return the shell command that setup wired for each event."""
    with open(os.path.join(stage.home, ".claude/settings.json"), encoding="utf-8") as file:
        hooks = json.load(file).get("hooks", {})
    found: dict[str, str] = {}
    for event, name in EVENTS.items():
        for group in hooks.get(name, []):
            for hook in group["hooks"]:
                if "openmem" in hook.get("command", ""):
                    found[event] = hook["command"]
    if len(found) != len(EVENTS):
        raise Failed(f"setup wired {sorted(found)} of {sorted(EVENTS)}.")
    return found


def _measure(
    asked: _Asked, commands: Mapping[str, str], how: str, limit: float, repeats: int
) -> list[Figure]:
    stage = asked.stage
    environ = stage.environ(CLAUDE_PROJECT_DIR=stage.project)
    floor = [sys.executable, "-I", "-S", "-c", "pass"]
    figures = []
    for event, command in commands.items():
        line = ["/bin/sh", "-c", f"exec {command}"]
        floors: list[float] = []
        ours: list[float] = []
        for turn in range(repeats + 1):
            payload = json.dumps(asked.payload(event, turn)).encode()
            floor_ms = cpu_ms(floor, b"", environ, stage.project)
            our_ms = cpu_ms(line, payload, environ, stage.project)
            if turn:  # the first of each fills caches
                floors.append(floor_ms)
                ours.append(our_ms)
        figures.append(
            Figure(
                name=f"{event} hook, {how}",
                unit="ms CPU",
                value=median(ours),
                floor=median(floors),
                limit=limit,
                samples=repeats,
            )
        )
    return figures


def _payload(stage: Stage, event: str) -> dict[str, object]:
    payload: dict[str, object] = {
        "session_id": "00000000-0000-4000-8000-00000000c0de",
        "transcript_path": os.path.join(stage.home, ".claude/projects/x/c0de.jsonl"),
        "cwd": stage.project,
        "hook_event_name": EVENTS[event],
    }
    extra: dict[str, dict[str, object]] = {
        "session-start": {"source": "startup"},
        "prompt": {"prompt": "Where is the parser's error raised?", "permission_mode": "default"},
        "tool": {
            "tool_name": "Edit",
            "tool_input": {
                "file_path": "/project/parser.py",
                "old_string": "raise Error",
                "new_string": "raise ParseError" * 40,
            },
        },
        "stop": {"stop_hook_active": False, "last_assistant_message": "It is in parser.py."},
    }
    return payload | extra[event]


def cpu_ms(command: Sequence[str], stdin: bytes, environ: Mapping[str, str], folder: str) -> float:
    """Return the CPU time of one process and those it waited for. Failed when it exits non-zero."""
    child = subprocess.Popen(
        command,
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None
    try:
        child.stdin.write(stdin)
        child.stdin.close()
    except BrokenPipeError:
        pass  # the floor reads no input
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise Failed(f"{command[-1]} ended with {child.returncode} during a bench.")
    return (usage.ru_utime + usage.ru_stime) * 1000
