"""A machine with a policy, a repository that may be stored and a folder that may not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openmem.base.paths import Paths

ROOT = Path(__file__).parents[2]
SID = "0b5c0d6e-7f10-4a21-9b32-c43d54e65f76"
POLICY = """version = 1
[defaults.git]
store = true
recall = true
retain = true
[defaults.other]
store = false
"""


@dataclass
class Machine:
    """`repo`: a git repository; `elsewhere`: a folder outside git. `environ`: of the agent."""

    home: Path
    repo: Path
    elsewhere: Path
    paths: Paths
    environ: dict[str, str] = field(default_factory=dict)

    def payload(self, event: str, **fields: object) -> dict[str, object]:
        names = {"session-start": "SessionStart", "prompt": "UserPromptSubmit", "stop": "Stop"}
        value: dict[str, object] = {
            "session_id": SID,
            "transcript_path": f"{self.home}/.claude/projects/-repo/{SID}.jsonl",
            "cwd": str(self.repo),
            "hook_event_name": names.get(event, ""),
        }
        if event == "session-start":
            value["source"] = "startup"
        if event == "prompt":
            value["prompt"] = "what did we decide?"
        value.update(fields)
        return value

    def run(
        self, event: str, stdin: bytes | None = None, *, timeout: float = 30, **fields: object
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the hook as its own process, as the launcher does."""
        data = json.dumps(self.payload(event, **fields)).encode() if stdin is None else stdin
        return subprocess.run(
            hook_command(event),
            input=data,
            capture_output=True,
            env=self.environ,
            cwd=self.repo,
            timeout=timeout,
            check=False,
        )

    def files(self) -> list[str]:
        """Every file below the state folder, relative."""
        root = Path(self.paths.state_dir)
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())

    def route(self, port: int = 8913) -> None:
        """Let the agent's requests come to us, and tell it of our MCP server."""
        self.environ["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{port}/a/claude-code"
        (self.home / ".claude.json").write_text('{"mcpServers": {"openmem": {}}}')


def hook_command(event: str) -> list[str]:
    code = (
        "import sys\nsys.path.append(sys.argv.pop(1))\n"
        "from openmem.hook.client import main\nsys.exit(main())"
    )
    return [sys.executable, "-I", "-S", "-c", code, str(ROOT), event, "--agent", "claude-code"]


@pytest.fixture
def machine(home: Path, tmp_path: Path) -> Machine:
    repo, elsewhere = tmp_path / "repo", tmp_path / "elsewhere"
    for folder in (repo / ".git", elsewhere):
        folder.mkdir(parents=True)
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (repo / ".git" / "config").write_text(
        '[remote "origin"]\n\turl = git@github.com:acme/site.git\n'
    )
    paths = Paths({"HOME": str(home)})
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(POLICY)
    # No test but those of keeping wants a child that outlives its hook.
    Path(paths.config_file).write_text("[memory]\nkeep_turns = false\n")
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "CLAUDE_PID": "4242"}
    return Machine(home=home, repo=repo, elsewhere=elsewhere, paths=paths, environ=environ)
