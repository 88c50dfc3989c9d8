"""An answer from Claude Code's own command line: the real one, and one that misbehaves."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from openmem.base.aside import MARK
from openmem.base.config import load_config
from openmem.base.errors import Failed
from openmem.base.frame import FRAME_OPEN
from openmem.hook.client import main as hook_main
from openmem.memory.facade import Memories
from openmem.memory.headless import ask_claude
from openmem.memory.model_route import route_of
from openmem.memory.reflect import reflect
from openmem.memory.spend import Budget, read_spend
from openmem.memory.status import status_of
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Sink, claude_binary
from tests.fakes.script import play
from tests.memory.conftest import Place

HERON = "The staging database is called heron-42."
CONFIG = '[memory]\nreflect = true\nreflect_with = "claude-code"\n'


@pytest.mark.real_agent
@pytest.mark.timeout(120)
def test_the_real_claude_code_answers_past_hooks_tools_and_proxy(
    place: Place, memories: Memories, home: Path, tmp_path: Path
) -> None:
    """Issue 5, part 8: the agent's own CLI in headless mode; users' report 36: no capture of
    sessions started by our own helpers."""
    memories.add(place.person(), HERON)
    ran = tmp_path / "ran"
    hook = {"hooks": [{"type": "command", "command": f"touch {ran}", "timeout": 5}]}
    wired = {
        # nobody listens there: a request that goes through our proxy fails
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/a/claude-code"},
        "hooks": {event: [hook] for event in ("SessionStart", "UserPromptSubmit", "Stop")},
    }
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(json.dumps(wired))
    server = {"type": "stdio", "command": "touch", "args": [str(ran)], "env": {}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"openmem": server}}))
    binary = claude_binary()
    assert binary is not None
    with FakeAnthropic() as fake, Sink() as sink:
        Path(place.paths.config_file).write_text(
            f'{CONFIG}[model]\nname = "claude-opus-5-5"\n'
            f'[routes.claude-code]\nupstream = "{fake.url_of("t")}"\n'
        )
        environ = {
            **Claude(home=home, project=place.site, sink_url=sink.url).environ(),
            "PATH": f"{os.path.dirname(binary)}:/usr/bin:/bin",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/a/claude-code",
            "CLAUDE_CODE_SESSION_ID": "of-the-session-that-asks",
        }
        config = load_config(place.paths.config_file, {})
        found = reflect(
            memories,
            place.agent(),
            play("what is the staging database called?", {"say": "heron-42, says the memory."}),
            route=route_of(config, environ),
            budget=Budget(place.paths, 100_000),
        )
        bodies = [record.json for record in fake.of("t")]
    assert found.text == "heron-42, says the memory.", found.why
    (body,) = bodies
    assert not body.get("tools") and FRAME_OPEN[:15] in json.dumps(body["messages"])
    assert "Answer the question from the remembered statements" in json.dumps(body["system"])
    assert not ran.exists()
    assert not (home / ".claude/projects").exists()
    assert "of-the-session-that-asks" not in json.dumps(body)
    spend = read_spend(place.paths, time.time())
    assert spend.calls == 1 and spend.tokens == found.tokens > 0
    assert status_of(memories, place.person().bank).tokens_today == found.tokens


def _claude(folder: Path, text: str) -> Mapping[str, str]:
    """Return an environment whose `claude` does what a text of Python says."""
    program = folder / "bin/claude"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport os, sys, json, time\n{text}\n")
    program.chmod(0o755)
    return {"PATH": str(program.parent), "HOME": str(folder)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("print('no JSON')", "is not one"),
        ("print(json.dumps({'subtype': 'success', 'result': ''}))", "is not one"),
        ("print(json.dumps({'subtype': 'error_during_execution'}))", "could not answer"),
        ("sys.exit(1)", "is not one"),
        ("print('[' * 100000)", "is not one"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(tmp_path: Path, text: str, why: str) -> None:
    """Ours: another program's output is not to be relied on."""
    with pytest.raises(Failed, match=why):
        ask_claude("q", "s", model="", upstream="", environ=_claude(tmp_path, text))


def test_one_that_never_answers_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """Users' report 19: no child outlives its owner."""
    text = (
        "import subprocess\n"
        f"child = subprocess.Popen(['/bin/sleep', '600'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    with pytest.raises(Failed, match="within 1 s"):
        ask_claude("q", "s", model="", upstream="", environ=_claude(tmp_path, text), seconds=1)
    ends = time.monotonic() + 10
    pid = int((tmp_path / "pid").read_text())
    while _lives(pid) and time.monotonic() < ends:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_without_claude_it_is_said(tmp_path: Path) -> None:
    """House style: an error says what to do."""
    with pytest.raises(Failed, match="not on PATH"):
        ask_claude("q", "s", model="", upstream="", environ={"PATH": str(tmp_path)})


def test_what_carries_the_mark_asks_no_model_and_keeps_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: an agent that answers from memory must not ask for an answer in turn."""
    Path(place.paths.config_file).write_text(CONFIG)
    config = load_config(place.paths.config_file, {})
    assert route_of(config, {}) is not None and route_of(config, {MARK: "1"}) is None
    monkeypatch.setenv(MARK, "1")
    assert hook_main(["session-start", "--agent", "claude-code"]) == 0
    assert capsys.readouterr().out == "" and not os.path.exists(place.paths.state_dir)
