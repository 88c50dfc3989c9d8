"""The runs: every task through every arm and variant.

Each run of openmem is a HOME of its own with the real hook, proxy and MCP server as processes; the
provider and the client live here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from openmem.base.errors import Failed, Usage
from openmem.bench.context.clearing import Reading
from openmem.bench.context.conversation import MODEL, Thread
from openmem.bench.context.edits import EditScript
from openmem.bench.context.measures import Outcome, outcome
from openmem.bench.context.model import Script
from openmem.bench.context.provider import Provider
from openmem.bench.context.report import ContextReport
from openmem.bench.context.server import Line, Upstream
from openmem.bench.context.session import (
    ARMS,
    CLEARING_ARMS,
    OUR_ARMS,
    SUPERSEDED,
    Resume,
    Session,
    run_task,
)
from openmem.bench.context.task import Task
from openmem.bench.context.tasks import task_of
from openmem.bench.context.toolbox import McpServer, Toolbox
from openmem.bench.stage import Stage
from openmem.context.models import load_models, model_of
from openmem.context.trim.limits import Thresholds, TrimSettings, thresholds_of

VARIANTS = ("plain", "echoing", "forgetful", "resumed", "sub-agent", "loop", "forgetful-loop")
# What an arm loses, or frees, does not depend on the others.
_VARIANTS_OF = {
    "drop": ("plain",),
    "native": ("plain",),
    SUPERSEDED: ("plain", "loop"),
    **{arm: ("plain", "loop", "forgetful-loop") for arm in CLEARING_ARMS},
}
SMALL_SIZES = ("R520", "L640")
SMALL_WINDOW, LARGE_WINDOW = 32_768, 200_000
_LARGE_RECORDS = 1_000
_SESSION = "00000000-0000-4000-8000-0000000000b1"
_RESERVE = 32_000
_ROUTE = "/a/claude-code/v1/messages?beta=true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to run. `window`: tokens, 0 for 32,768 with small sizes and 200,000 with large ones."""

    sizes: Sequence[str] = SMALL_SIZES
    arms: Sequence[str] = ARMS
    variants: Sequence[str] = VARIANTS
    window: int = 0
    seed: int = 42

    def checked(self) -> Wanted:
        """Return it when every word is known. Usage otherwise."""
        for words, known, what in (
            (self.arms, ARMS, "arm"),
            (self.variants, VARIANTS, "variant"),
        ):
            for word in words:
                if word not in known:
                    raise Usage(f"there is no {what} {word!r}.", hint=f"Known: {', '.join(known)}.")
        for size in self.sizes:
            task_of(size, self.seed)
        return self


def wanted_of(*, size: str, arms: str, variants: str, window: int, seed: int) -> Wanted:
    """Return what words of a command line name, separated by commas; "" for all. Usage."""

    def listed(words: str, default: Sequence[str]) -> tuple[str, ...]:
        return tuple(word.strip() for word in words.split(",") if word.strip()) or tuple(default)

    return Wanted(
        sizes=listed(size, SMALL_SIZES),
        arms=listed(arms, ARMS),
        variants=listed(variants, VARIANTS),
        window=window,
        seed=seed,
    ).checked()


def run(wanted: Wanted) -> ContextReport:
    """Return the report. The baselines run once a task; openmem in every variant."""
    wanted = wanted.checked()
    outcomes: list[Outcome] = []
    for size in wanted.sizes:
        task = task_of(size, wanted.seed)
        large = task.records >= _LARGE_RECORDS or bool(task.files)
        window = wanted.window or (LARGE_WINDOW if large else SMALL_WINDOW)
        for arm in wanted.arms:
            if arm == SUPERSEDED and not task.files:
                continue  # nothing in it is ever superseded
            for variant in wanted.variants:
                if variant not in _VARIANTS_OF.get(arm, VARIANTS):
                    continue
                outcomes.append(run_one(task, arm, variant, window))
    return ContextReport(outcomes=tuple(outcomes))


def run_one(task: Task, arm: str, variant: str, window: int) -> Outcome:
    """Return what one run came to. Failed when the provider's script itself broke."""
    limits = thresholds_of(window, _RESERVE, TrimSettings(), proven=False)
    echoing, forgetful = variant == "echoing", variant.startswith("forgetful")
    script = Script(echoing=echoing, forgetful=forgetful)
    if task.files:
        script = EditScript(echoing=echoing, forgetful=forgetful, seed=task.seed)
    reading: Reading = "each" if arm == "clear-each" else "batches"
    provider = Provider(script.reply, window=0 if arm == "keep" else window, reading=reading)
    resume = Resume() if variant == "resumed" else None
    stored = 0
    begun = time.monotonic()
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(provider))
        is_ours = arm in OUR_ARMS
        if is_ours:
            stage = stack.enter_context(Stage())
            session = _with_openmem(stack, stage, upstream.port, _trim_lines(arm, limits), task)
            if resume is not None:
                resume = _Restart(stage, upstream.port)
        else:
            tools = Toolbox(files=dict(task.files))
            main = Thread(session_id=_SESSION, folder="/project", tools=tools.declared())
            session = Session(line=Line(upstream.port), main=main, toolbox=tools)
            session.soft, session.target = limits.soft, limits.target
            session.compact_at = window * 4 // 5
        session.arm = arm
        try:
            run_task(
                session,
                task,
                sub_agents=variant == "sub-agent",
                in_loop=variant.endswith("loop"),
                resume=resume,
            )
        finally:
            session.line.close()
        if is_ours:
            stage.end_last()  # the proxy: what it holds in memory is on disk then
            stored = _stored_bytes(stage)
    if provider.faults:
        raise Failed(f"the bench's provider broke: {provider.faults[0]}")
    return outcome(
        task,
        session,
        provider.log,
        variant=variant,
        window=window,
        soft=limits.soft,
        hard=limits.hard,
        model=model_of(MODEL, load_models()),
        seconds=time.monotonic() - begun,
        stored_bytes=stored,
    )


def _with_openmem(
    stack: ExitStack, stage: Stage, upstream_port: int, trim: str, task: Task
) -> Session:
    """Return a session whose requests go through a proxy, begun by the hook. `trim`: settings."""
    stage.allow_everything()
    _write_settings(stage, trim, upstream_port)
    port = stage.proxy(upstream_port)
    start_text = _start_text(stage, port)
    environ = stage.environ(CLAUDE_PROJECT_DIR=stage.project, CLAUDE_CODE_SESSION_ID=_SESSION)
    server = stack.enter_context(McpServer(stage.project, environ))
    tools = Toolbox(server, files=dict(task.files))
    main = Thread(
        session_id=_SESSION,
        folder=stage.project,
        tools=tools.declared(),
        start_text=start_text,
    )
    return Session(line=Line(port, path=_ROUTE), main=main, toolbox=tools)


def _trim_lines(arm: str, limits: Thresholds) -> str:
    """Return an arm's settings: thresholds of the run's window, the model's own being another."""
    lines = [f"soft_tokens = {limits.soft}", f"hard_tokens = {limits.hard}"]
    lines.append(f"superseded = {'true' if arm == SUPERSEDED else 'false'}")
    if arm in CLEARING_ARMS:
        lines += ["clear_tool_uses = true", f"enabled = {'true' if arm == 'both' else 'false'}"]
    return "\n".join(["[trim]", *lines, ""])


def _write_settings(stage: Stage, trim: str, upstream_port: int) -> None:
    """Write the settings and the route."""
    path = os.path.join(stage.home, ".config/openmem/config.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(trim)
        file.write(f'[routes.claude-code]\nupstream = "http://127.0.0.1:{upstream_port}"\n')


def _start_text(stage: Stage, port: int) -> str:
    """Return what the SessionStart hook tells the session. Failed when it tells nothing."""
    with open(os.path.join(stage.home, ".claude.json"), "w", encoding="utf-8") as file:
        json.dump({"mcpServers": {"openmem": {"command": "openmem-mcp"}}}, file)
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": _SESSION,
        "cwd": stage.project,
        "source": "startup",
    }
    done = subprocess.run(
        [sys.executable, "-m", "openmem", "hook", "session-start", "--agent", "claude-code"],
        env=stage.environ(
            ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}/a/claude-code",
            CLAUDE_PROJECT_DIR=stage.project,
        ),
        cwd=stage.project,
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        timeout=60,
    )
    if not done.stdout:
        raise Failed(f"the SessionStart hook said nothing. {done.stderr}".rstrip())
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])


class _Restart(Resume):
    """A resume behind a proxy that was started anew: nothing of the trim may be in memory only."""

    def __init__(self, stage: Stage, upstream_port: int) -> None:
        self._stage, self._upstream_port = stage, upstream_port

    def act(self, session: Session, *, as_blocks: bool) -> None:
        super().act(session, as_blocks=as_blocks)
        session.line.close()
        self._stage.end_last()
        session.line = Line(self._stage.proxy(self._upstream_port), path=_ROUTE)


def _stored_bytes(stage: Stage) -> int:
    root = os.path.join(stage.home, ".local/share/openmem/context")
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(root)
        for name in names
    )
