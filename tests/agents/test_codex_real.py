"""The real Codex, wired by our command line: hooks, tools, recording, trim, compaction, and back.

Needs `OPENMEM_TEST_CODEX` (see tests/fakes/codex.py); left out of CI for its size.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.context.session import read_registration
from openmem.context.trim.spent.marker import marker
from openmem.hook.delivery import last_delivery
from openmem.hook.texts import session_start_text
from tests.fakes.codex import needs_codex
from tests.fakes.codex_scene import BUILT_IN, CUSTOM, GATE, CodexScene, a_codex_scene
from tests.fakes.script import play
from tests.fakes.wire import Reply, Request

pytestmark = [pytest.mark.timeout(400), needs_codex]

POINTER = "[openmem: session_id="
TRUSTED = ("--trust-hooks", "--allow-tools")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[CodexScene]:
    """Codex behind a provider of the person's."""
    with a_codex_scene(tmp_path, CUSTOM + GATE) as made:
        yield made


@pytest.fixture
def built_in(tmp_path: Path) -> Iterator[CodexScene]:
    """Codex with its own provider, whose address the person had set."""
    with a_codex_scene(tmp_path, BUILT_IN) as made:
        yield made


def paths_of(scene: CodexScene) -> Paths:
    return Paths({"HOME": str(scene.home)})


def texts(body: dict[str, Any]) -> str:
    return "\n".join(
        part.get("text", "")
        for item in body["input"]
        for part in (item.get("content") or [] if isinstance(item.get("content"), list) else [])
    )


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"call": {"name": f"mcp__openmem/{tool}", "input": given}}


def shell(command: str) -> dict[str, Any]:
    return {"think": "hm", "call": {"name": "exec_command", "input": {"cmd": command}}}


def test_a_wired_session_is_known_told_recorded_and_found(scene: CodexScene) -> None:
    """Issue 7, Show it: hooks fire, MCP search answers, proxy records."""
    scene.install(*TRUSTED)
    steps = [shell("cat notes.txt"), call("smart_compact_search", query="heron"), {"say": "Read."}]
    done = scene.run(play("the staging host is heron-42", *steps))
    sid = done.session_id
    assert done.said[-1] == "Read."
    registration = read_registration(paths_of(scene), sid)
    assert registration is not None and registration.agent == "codex"
    assert registration.cwd == str(scene.project) and sid in registration.transcript_path
    delivered = last_delivery(paths_of(scene), "codex")
    assert delivered is not None and (delivered.event, delivered.session_id) == ("stop", sid)
    first, *_, last = scene.bodies
    assert "mcp__openmem" in {tool.get("name") for tool in first["tools"]}
    assert "- openmem: Find what was said" in texts(first)  # the skill
    for body in scene.bodies:
        assert texts(body).count(session_start_text(sid)) == 1
    outputs = [i["output"] for i in last["input"] if i["type"] == "function_call_output"]
    assert "alpha" in str(outputs[0]) and "heron-42" in str(outputs[1])
    found = [(row["role"], row["kind"], row["name"] or "") for row in scene.rows(sid)]
    said = [one for one in found if one[0] != "system"]
    assert said == [
        ("user", "text", ""),
        ("assistant", "thinking", ""),
        ("assistant", "tool_use", "exec_command"),
        ("tool", "tool_result", "exec_command"),
        ("assistant", "tool_use", "mcp__openmem__smart_compact_search"),
        ("tool", "tool_result", "mcp__openmem__smart_compact_search"),
        ("assistant", "text", ""),
    ]
    assert [hit["session_id"] for hit in scene.found("heron-42")] == [sid]
    assert {event["kind"] for event in scene.events(sid)} == {"usage"}
    assert [event["bust"] for event in scene.events(sid)] == [None, "", ""]
    assert not (scene.state / "logs/hook.log").exists()
    assert scene.sink.asked == []


def test_a_call_that_carries_a_marker_is_refused_and_any_other_runs(scene: CodexScene) -> None:
    """Issue 4, part 6; Codex 0.171.0 takes Claude Code's way to refuse, and patches from its
    shell."""
    scene.install(*TRUSTED)
    sid = scene.run(play("one", {"say": "Yes."})).session_id

    lines = ["apply_patch <<'EOF'", "*** Begin Patch", "*** Add File: a"]
    patch = "\n".join([*lines, f"+{marker(sid, 3)}", "*** End Patch", "EOF"])
    other = marker("another-session", 3)
    done = scene.run(
        play("two", shell(patch), shell(f"echo '{other}'"), {"say": "So."}), resume=sid
    )
    assert done.said[-1] == "So."
    found = [i for i in scene.bodies[-1]["input"] if i["type"] == "function_call_output"]
    refused, ran = (str(item["output"]) for item in found)
    assert "openmem: this call carries a marker" in refused and f"{sid}:3" in refused
    assert other in ran


def test_what_erases_is_asked_for_whatever_else_is_allowed(scene: CodexScene) -> None:
    """Issue 5, part 4: no tool that erases is agreed to in passing; nobody is there to ask."""
    scene.install(*TRUSTED)
    steps = [call("memory_search", query="x"), call("memory_forget", id="m-1"), {"say": "Done."}]
    scene.run(play("look it up", *steps))
    found = [i for i in scene.bodies[-1]["input"] if i["type"] == "function_call_output"]
    allowed, refused = (str(item["output"]) for item in found)
    assert "approv" not in allowed and "0 memories" in allowed
    assert "approv" in refused and "not-found" not in refused


def test_a_session_that_is_too_long_for_its_model_fits_once_the_stream_said_so(
    scene: CodexScene,
) -> None:
    """Newest-models facts 3: Codex itself resends everything; the words name no window."""
    scene.install(*TRUSTED)
    outputs = [shell(f"seq {number}0000 {number}6000") for number in range(1, 11)]
    sid = scene.run(play("one", *outputs, {"say": "Yes."})).session_id
    answer = scene.service.http._handle
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    failed = {"type": "response.failed", "response": {"id": "resp_1", "error": error}}

    def refuse(request: Request, reply: Reply) -> None:
        if len(request.plain_body) < 100_000:
            answer(request, reply)
            return
        reply.start(200, [("content-type", "text/event-stream")])
        reply.chunk(f"event: response.failed\ndata: {json.dumps(failed)}\n\n".encode())
        reply.end()

    scene.service.http._handle = refuse
    # The first was too small for its model's supposed window to be asked about.
    for _ in range(2):
        done = scene.codex.run(play("two", {"say": "So."}), resume=sid)
        assert done.status != 0 and "ran out of room" in done.stdout
    assert scene.run(play("three", {"say": "On."}), resume=sid).said == ["On."]
    assert "[openmem: session_id=" in json.dumps(scene.bodies[-1]["input"])


def test_untrusted_hooks_do_not_run_and_the_session_is_recorded_all_the_same(
    scene: CodexScene,
) -> None:
    """Facts 1.2: skipped without a word; the folder is then known by what Codex says of it."""
    scene.install()
    done = scene.run(play("hello", {"say": "Good day."}))
    assert last_delivery(paths_of(scene), "codex") is None
    assert session_start_text(done.session_id) not in texts(scene.bodies[0])
    registration = read_registration(paths_of(scene), done.session_id)
    assert registration is not None and registration.cwd == str(scene.project)
    assert [row["text"] for row in scene.rows(done.session_id)][-1] == "Good day."


def test_the_built_in_provider_goes_to_http_at_once(built_in: CodexScene) -> None:
    """Trial: 426 ends the WebSocket attempt; every other refusal costs seven tries or the turn."""
    built_in.install(*TRUSTED)
    done = built_in.run(play("hello", {"say": "Good day."}))
    assert done.said == ["Good day."]
    sid = done.session_id
    assert [row["text"] for row in built_in.rows(sid)][-1] == "Good day."
    status = json.loads(built_in.openmem("proxy", "status", "--json").stdout)["data"]
    assert status["counters"]["refused"] == 1
    assert [r.request.target for r in built_in.service.records if r.request.body] == [
        "/v1/responses"
    ]
    assert "functions" in json.dumps(built_in.bodies[0]["input"][0])  # tools are an item


def test_a_chatgpt_login_sends_zstd_and_is_recorded(built_in: CodexScene) -> None:
    """Trial: only such a login compresses its requests."""

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"chatgpt_plan_type": "pro", "chatgpt_account_id": "a-1", "chatgpt_user_id": "u"}
    token = ".".join((part({"alg": "none"}), part({"exp": 4102444800,
                     "https://api.openai.com/auth": claims}), "c2ln"))  # fmt: skip
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "last_refresh": "2026-11-30T10:00:00Z",
             "tokens": {"id_token": token, "access_token": token, "refresh_token": "r",
                        "account_id": "a-1"}}  # fmt: skip
    (built_in.home / ".codex/auth.json").write_text(json.dumps(login))
    built_in.codex.extra["CODEX_API_KEY"] = ""
    built_in.install(*TRUSTED)
    done = built_in.run(play("hello", {"say": "Good day."}))
    (sent,) = [r.request for r in built_in.service.records if r.endpoint == "responses"]
    assert sent.header("content-encoding") == "zstd"
    assert [row["text"] for row in built_in.rows(done.session_id)][-1] == "Good day."


def long_turns(scene: CodexScene, sid: str, numbers: range) -> None:
    for number in numbers:
        script = play(f"task {number}", shell(f"seq {number}000000 {number}000900"),
                      {"think": "so", "say": f"Task {number} is done."})  # fmt: skip
        scene.run(script, resume=sid)


def test_a_long_session_is_trimmed_and_never_refused_and_nothing_is_lost(
    scene: CodexScene,
) -> None:
    """Issue 4, Show it: the real Codex over the threshold, with resume; an exact value back."""
    scene.openmem("config", "set", "trim.soft_tokens", "18000")
    scene.install(*TRUSTED)
    sid = scene.run(play("the staging host is heron-42", {"say": "Noted."})).session_id
    long_turns(scene, sid, range(1, 9))
    assert scene.service.refusals == [] and scene.service.dropped == []
    bodies = [json.dumps(body["input"]) for body in scene.bodies]
    assert any(POINTER in body for body in bodies)
    assert "heron-42" in bodies[-1] and "1000450" not in bodies[-1]
    asked = call("smart_compact_search", session_id=sid, pattern="^1000450$")
    scene.run(play("what was it?", asked, {"say": "Found."}), resume=sid)
    outputs = [i["output"] for i in scene.bodies[-1]["input"]
               if i["type"] == "function_call_output"]  # fmt: skip
    assert "1000450" in str(outputs[-1]) and "removed from context" in str(outputs[-1])
    kinds = [event["kind"] for event in scene.events(sid)]
    assert "trim" in kinds and "fail_open" not in kinds
    busts = {event["bust"] for event in scene.events(sid) if event["kind"] == "usage"}
    assert busts <= {None, "", "trim"}


def test_what_was_sent_before_begins_what_is_sent_next(scene: CodexScene) -> None:
    """Issue 4: between two trims the prefix is byte-identical, over resumes and a restart."""
    scene.openmem("config", "set", "trim.soft_tokens", "18000")
    scene.install(*TRUSTED)
    sid = scene.run(play("begin", {"say": "Begun."})).session_id
    long_turns(scene, sid, range(1, 5))
    scene.openmem("proxy", "stop", "--now")
    scene.openmem("proxy", "start")
    long_turns(scene, sid, range(5, 7))
    inputs = [body["input"] for body in scene.bodies]
    broken = [n for n in range(1, len(inputs)) if inputs[n][: len(inputs[n - 1])] != inputs[n - 1]]
    trims = sum(event["kind"] == "trim" for event in scene.events(sid))
    assert 0 < len(broken) == trims


@pytest.mark.parametrize("kind", ["custom", "built-in"])
def test_codex_compacts_a_trimmed_session_and_goes_on(tmp_path: Path, kind: str) -> None:
    """Issue 4, Show it: compaction, local and by the provider."""
    limit = "model_auto_compact_token_limit = 60000\n"
    model = 'model = "gpt-5.1-codex"\n'  # its shell is a plain function
    config = limit + (CUSTOM + GATE if kind == "custom" else model + BUILT_IN)
    with a_codex_scene(tmp_path, config) as scene:
        scene.openmem("config", "set", "trim.soft_tokens", "18000")
        scene.install(*TRUSTED)
        sid = scene.run(play("begin", {"say": "Begun."})).session_id
        long_turns(scene, sid, range(1, 6))
        assert any(POINTER in json.dumps(body["input"]) for body in scene.bodies)
        big = {"input_tokens": 90_000, "total_tokens": 90_010}
        scene.run(play("nearly full", {"say": "Full.", "usage": big}), resume=sid)
        scene.run(play("go on", {"say": "Gone on."}), resume=sid)
        asked, after = scene.bodies[-2:]
        assert POINTER in json.dumps(asked["input"])  # the summary is made of what is in context
        assert POINTER not in json.dumps(after["input"])
        assert scene.service.refusals == []
        kinds = [event["kind"] for event in scene.events(sid)]
        assert "compaction" in kinds and "fail_open" not in kinds
        scene.run(play("and once more", {"say": "Yes."}), resume=sid)
        assert [row["text"] for row in scene.rows(sid)][-1] == "Yes."


def test_a_sub_agent_is_a_thread_of_its_own(scene: CodexScene) -> None:
    """Facts 3.2; the fake service plays the sub-agent's own script."""
    scene.install(*TRUSTED)
    spawn = {"call": {"name": "multi_agent_v1/spawn_agent",
                      "input": {"message": play("count", {"say": "Counted."})}}}  # fmt: skip
    wait = shell("sleep 1")
    done = scene.run(play("delegate it", spawn, wait, {"say": "Delegated."}))
    sid = done.session_id
    helpers = [r for r in scene.service.records if r.request.header("x-openai-subagent")]
    assert helpers, "the sub-agent did not ask"
    threads = {row["thread"] for row in scene.rows(sid)}
    assert len(threads) == 2
    assert "Counted." in [row["text"] for row in scene.rows(sid)]
    told = [texts(r.json) for r in helpers]
    assert all(session_start_text(sid) not in text for text in told)


def test_codex_starts_when_openmem_is_gone(scene: CodexScene) -> None:
    """Trial: a required server that does not start keeps Codex from starting."""
    scene.install(*TRUSTED, "--no-proxy")
    launcher = scene.state / "hooks/openmem-mcp"
    lines = launcher.read_text().splitlines()
    lines = ["python='/no/python'" if line.startswith("python=") else line for line in lines]
    launcher.write_text("\n".join(lines) + "\n")
    done = scene.run(play("hello", {"say": "Good day."}))
    assert done.said == ["Good day."]


def test_a_killed_proxy_is_back_for_the_next_session(scene: CodexScene) -> None:
    """Issue 7, Show it: kill and revive; a dead proxy would hang Codex for a minute."""
    scene.install(*TRUSTED)
    sid = scene.run(play("hello", {"say": "Good day."})).session_id
    for pid in scene.processes():
        with contextlib.suppress(ProcessLookupError):  # ended with the one before it
            os.kill(pid, signal.SIGKILL)
    scene.run(play("and now", {"say": "Back."}), resume=sid)
    assert [row["text"] for row in scene.rows(sid)][-1] == "Back."


def test_everything_comes_back_to_the_byte(scene: CodexScene) -> None:
    """Issue 7, Show it: uninstall byte-exact, after a session."""
    config = scene.home / ".codex/config.toml"
    scene.run(play("before", {"say": "ok"}))  # Codex makes its own files first
    before = config.read_bytes()
    scene.install(*TRUSTED)
    scene.run(play("hello", {"say": "Good day."}))
    scene.openmem("uninstall-coding-agent", "--agent", "codex", "--yes")
    assert config.read_bytes() == before
    assert not (scene.home / ".codex/hooks.json").exists()
    scene.openmem("uninstall", "--yes")
    done = scene.run(play("after", {"say": "Still here."}))
    assert done.said == ["Still here."]
