"""An answer from the agent's own command line, run once, without a screen, tools or our hooks.

Idea: who has an agent has a model; its command line answers one question and says what it cost.
Invariant: it is no session of the person's: no hook, no MCP server, no project, nothing saved, and
its requests do not pass through our proxy; the environment carries a mark for what is started all
the same. Trap: the agent's settings name our proxy as its address; the upstream of before has to be
stated over it. Never run inside a process that carries the mark.
Source: Claude Code 2.1.332, `claude --help`, and `tests/memory/test_headless.py` with the real one.
Standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

from openmem.base.aside import MARK
from openmem.base.errors import Failed
from openmem.base.route import routed_port

CLAUDE = "claude-code"
SECONDS = 120.0
# What Claude Code sends besides the question, with its own system prompt and tools left out.
OVERHEAD_TOKENS = 3_000
_BASE_URL = "ANTHROPIC_BASE_URL"
# Of a session that this process may have been started in; they would make the child part of it.
_SESSION = ("CLAUDECODE", "CLAUDE_PROJECT_DIR", "CLAUDE_PID")
_SESSION_PREFIX = "CLAUDE_CODE_SESSION"


def ask_claude(
    prompt: str,
    system: str,
    *,
    model: str,
    upstream: str,
    environ: Mapping[str, str],
    seconds: float = SECONDS,
) -> tuple[str, int]:
    """Return what Claude Code answers and the tokens that it reports. Failed.

    `model`: "" for the one that the person uses. `upstream`: where its requests go instead of to
    our proxy, "" to leave the address alone.
    """
    binary = shutil.which("claude", path=environ.get("PATH", ""))
    if binary is None:
        raise Failed(
            "claude is not on PATH.", hint="Or: openmem config set memory.reflect_with model"
        )
    told = {"disableAllHooks": True, **({"env": {_BASE_URL: upstream}} if upstream else {})}
    command = [
        *(binary, "-p", "--output-format", "json"),
        *("--system-prompt", system),
        *("--tools", ""),
        *("--strict-mcp-config", "--disable-slash-commands", "--no-session-persistence"),
        *("--setting-sources", "user", "--settings", json.dumps(told)),
        *(("--model", model) if model else ()),
    ]
    # A folder of its own: no project's instructions are read, and no repository is looked at.
    with tempfile.TemporaryDirectory(prefix="openmem-") as folder:
        data = _run(command, prompt, folder, _environment(environ, upstream), seconds)
    try:
        return _answer(json.loads(data))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Failed("Claude Code's answer is not one.") from None


def _environment(environ: Mapping[str, str], upstream: str) -> dict[str, str]:
    given = {
        name: value
        for name, value in environ.items()
        if name not in _SESSION and not name.startswith(_SESSION_PREFIX)
    }
    if routed_port(given.get(_BASE_URL, ""), CLAUDE):
        del given[_BASE_URL]
    if upstream:
        given[_BASE_URL] = upstream
    return {**given, MARK: "1", "CLAUDE_CODE_MAX_RETRIES": "1"}


def _run(
    command: list[str], stdin: str, folder: str, environ: dict[str, str], seconds: float
) -> bytes:
    """Return what a command prints. Failed; its whole group is ended when its time is over."""
    try:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # may hold content; the JSON says whether it failed
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(f"claude does not start ({os.strerror(error.errno or 0)}).") from None
    try:
        stdout, _ = child.communicate(stdin.encode("utf-8", "replace"), timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"Claude Code did not answer within {seconds:.0f} s.") from None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    return stdout


def _answer(value: Any) -> tuple[str, int]:
    if value.get("is_error") or value.get("subtype") != "success":
        raise Failed("Claude Code could not answer.")
    text = value["result"]
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no text")
    usage = value.get("usage") or {}
    counted = (
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    )
    return text, sum(int(usage.get(name) or 0) for name in counted)
