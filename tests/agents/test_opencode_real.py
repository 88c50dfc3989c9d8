"""The real OpenCode, wired by our command line: plug-in, tools, recording, trim, and back.

Needs `OPENMEM_TEST_OPENCODE` (see tests/fakes/opencode.py); left out of CI for its size.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.frame import FRAME_OPEN
from openmem.context.session import read_registration
from openmem.context.trim.spent.marker import marker
from openmem.hook.delivery import last_delivery
from openmem.hook.texts import session_start_text
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.opencode import needs_opencode
from tests.fakes.opencode_scene import FAKE, OpenCodeScene, an_opencode_scene, outputs_of, texts_of
from tests.fakes.responses_server import FakeResponses
from tests.fakes.script import play

pytestmark = [pytest.mark.timeout(600), needs_opencode]

POINTER = "[openmem: session_id="


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[OpenCodeScene]:
    with an_opencode_scene(tmp_path) as made:
        yield made


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"call": {"name": tool, "input": given}}


def shell(command: str) -> dict[str, Any]:
    return call("bash", command=command, description="d")


def told(body: dict[str, Any], sid: str) -> int:
    return "\n".join(texts_of(body)).count(session_start_text(sid))


def test_a_wired_session_is_known_told_recorded_found_and_kept(scene: OpenCodeScene) -> None:
    """Issue 7, Show it: hooks fire, recall arrives, the turn is kept, MCP search answers."""
    scene.install("--agent", "opencode")
    scene.openmem("memory", "add", "The mooring mast stands at quay 17-B.")
    steps = [
        shell("cat notes.txt"),
        call("openmem_smart_compact_search", query="heron"),
        {"say": "The staging host is noted."},
    ]
    done = scene.run(play("the staging host is heron-42, near the mooring mast", *steps))
    sid = done.session_id
    assert done.said[-1] == "The staging host is noted."
    registration = read_registration(scene.paths, sid)
    assert registration is not None and registration.agent == "opencode"
    assert registration.cwd == str(scene.project)
    delivered = last_delivery(scene.paths, "opencode")
    assert delivered is not None and (delivered.event, delivered.session_id) == ("stop", sid)
    first, *_, last = scene.bodies
    names = {tool["function"]["name"] for tool in first["tools"]}
    assert {"openmem_smart_compact_search", "openmem_memory_add"} <= names
    assert FRAME_OPEN in "\n".join(texts_of(first)) and "quay 17-B" in "\n".join(texts_of(first))
    for body in scene.bodies:
        assert told(body, sid) == 1
    assert "alpha" in outputs_of(last)[0] and "heron-42" in outputs_of(last)[1]
    skills = texts_of(first)[0]
    assert "<name>openmem</name>" in skills
    said = [(r["role"], r["kind"], r["name"] or "") for r in scene.rows(sid)]
    assert [one for one in said if one[0] != "system"] == [
        ("user", "text", ""),
        ("assistant", "tool_use", "bash"),
        ("tool", "tool_result", "bash"),
        ("assistant", "tool_use", "openmem_smart_compact_search"),
        ("tool", "tool_result", "openmem_smart_compact_search"),
        ("assistant", "text", ""),
    ]
    assert [hit["session_id"] for hit in scene.found("heron-42")] == [sid]
    assert {event["kind"] for event in scene.events(sid)} == {"usage"}
    assert [event["bust"] for event in scene.events(sid)][1:] == ["", ""]
    kept = passages(scene, 2)
    assert any(text.startswith("user: the staging host is heron-42") for text in kept)
    assert "assistant: The staging host is noted." in kept
    assert not (scene.state / "logs/hook.log").exists()
    sent = {name.lower() for r in scene.service.records for name, _ in r.request.headers}
    assert not any(name.startswith("x-openmem") for name in sent)


def passages(scene: OpenCodeScene, count: int) -> list[str]:
    """What was kept of turns; the child that keeps is waited for, bounded."""
    ends = time.monotonic() + 30
    while True:
        kept = scene.data("memory", "list", "--kind", "passage")["memories"]
        if len(kept) >= count or time.monotonic() > ends:
            return [one["content"] for one in kept]
        time.sleep(0.2)


def test_a_resumed_session_sends_what_it_sent_before_and_is_not_told_twice(
    scene: OpenCodeScene,
) -> None:
    """Facts 4.3: only what OpenCode stores leaves the provider's prefix alone."""
    scene.install("--agent", "opencode")
    sid = scene.run(play("begin", {"say": "Begun."})).session_id
    scene.openmem("memory", "add", "The mooring mast stands at quay 17-B.")
    words = "at which quay does the mooring mast stand?"
    scene.run(play(words, shell("cat notes.txt"), {"say": "Gone on."}), resume=sid)
    recalled = ["quay 17-B" in "\n".join(texts_of(body)) for body in scene.bodies]
    assert recalled == [False, True, True]
    histories = [body["messages"] for body in scene.bodies]
    for earlier, later in itertools.pairwise(histories):
        assert later[: len(earlier)] == earlier
    assert [told(body, sid) for body in scene.bodies] == [1] * len(histories)
    assert [event["bust"] for event in scene.events(sid)][1:] == [""] * (len(histories) - 1)


def test_a_sub_agent_is_a_thread_of_the_session_it_works_for(scene: OpenCodeScene) -> None:
    """Trial: OpenCode's child sessions name their parent in a header."""
    scene.install("--agent", "opencode")
    task = call("task", description="count", prompt=play("count things", {"say": "Counted."}),
                subagent_type="general")  # fmt: skip
    sid = scene.run(play("delegate it", task, {"say": "Delegated."})).session_id
    rows = scene.rows(sid)
    assert len({row["thread"] for row in rows}) == 2
    assert "Counted." in [row["text"] for row in rows]
    assert scene.stores() == [f"{sid}.v4.db"]
    (helper,) = [r for r in scene.service.asked if r.request.header("x-parent-session-id")]
    assert told(helper.json, sid) == 0


NESTING = FAKE.replace(
    '"small_model"',
    '"subagent_depth": 3,\n  "agent": { "general": { "permission": { "task": "allow" } } },\n'
    '  "small_model"',
)


@pytest.mark.parametrize("hooks", ["--hooks", "--no-hooks"])
def test_a_sub_agents_sub_agent_is_a_thread_of_the_session_at_the_top(
    tmp_path: Path, hooks: str
) -> None:
    """Trial: each session names only the one above it; with the plug-in and without."""

    def task(prompt: str) -> dict[str, Any]:
        return call("task", description="count", prompt=prompt, subagent_type="general")

    innermost = play("count the innermost", {"say": "Innermost counted."})
    middle = play("count the middle", task(innermost), {"say": "Middle counted."})
    with an_opencode_scene(tmp_path, NESTING) as scene:
        scene.install("--agent", "opencode", hooks)
        sid = scene.run(play("delegate", task(middle), {"say": "Delegated."})).session_id
        above = [r.request.header("x-parent-session-id") for r in scene.service.asked]
        assert len({one for one in above if one}) == 2, "OpenCode did not nest"
        before = [(row["thread"], row["text"]) for row in scene.rows(sid)]
        assert len({thread for thread, _ in before}) == 3
        texts = [text for _, text in before]
        assert {"Delegated.", "Middle counted.", "Innermost counted."} <= set(texts)
        assert scene.stores() == [f"{sid}.v4.db"]
        report = scene.data("context", "import", "--agent", "opencode")
        assert report["added"] == 0 and report["known"] > 6
        shutil.rmtree(scene.state / "context")
        scene.openmem("context", "import", "--agent", "opencode")
        assert scene.stores() == [f"{sid}.v4.db"]
        rows = scene.rows(sid)
        assert len({row["thread"] for row in rows}) == 3
        assert "Innermost counted." in [row["text"] for row in rows]
        sent = {name.lower() for r in scene.service.records for name, _ in r.request.headers}
        assert not any(name.startswith("x-openmem") for name in sent)


def long_turns(scene: OpenCodeScene, sid: str, numbers: range) -> None:
    for number in numbers:
        script = play(f"task {number}", shell(f"seq {number}000000 {number}000900"),
                      {"say": f"Task {number} is done."})  # fmt: skip
        scene.run(script, resume=sid)


def test_a_long_session_is_trimmed_and_nothing_is_lost(scene: OpenCodeScene) -> None:
    """Issue 7, Show it: trim over the threshold; an exact value back; one bust for each trim."""
    scene.openmem("config", "set", "trim.soft_tokens", "22000")
    scene.install("--agent", "opencode")
    sid = scene.run(play("the staging host is heron-42", {"say": "Noted."})).session_id
    long_turns(scene, sid, range(1, 8))
    assert scene.service.refusals == []
    bodies = [json.dumps(body["messages"]) for body in scene.bodies]
    assert any(POINTER in body for body in bodies)
    assert "heron-42" in bodies[-1] and "1000450" not in bodies[-1]
    asked = call("openmem_smart_compact_search", session_id=sid, pattern="^1000450$")
    scene.run(play("what was it?", asked, {"say": "Found."}), resume=sid)
    found = outputs_of(scene.bodies[-1])[-1]
    assert "1000450" in found and "removed from context" in found
    kinds = [event["kind"] for event in scene.events(sid)]
    assert "trim" in kinds and "fail_open" not in kinds
    busts = {event["bust"] for event in scene.events(sid) if event["kind"] == "usage"}
    assert busts <= {None, "", "trim"}


def test_opencode_compacts_and_goes_on_and_nothing_is_stored_twice(scene: OpenCodeScene) -> None:
    """Facts 3.4: a summary tells the history over as one text, all of which is stored already."""
    scene.install("--agent", "opencode")
    sid = scene.run(play("the staging host is heron-42", {"say": "Noted."})).session_id
    full = {"prompt_tokens": 199_000}
    scene.run(play("nearly full", {"say": "Full.", "usage": full}), resume=sid)
    scene.run(play("and once more", {"say": "Yes."}), resume=sid)
    summed = [r for r in scene.service.records if b"context summarization agent" in r.request.body]
    assert summed, "OpenCode made no summary"
    assert "heron-42" not in "\n".join(texts_of(scene.bodies[-1]))
    said = [row["text"] for row in scene.rows(sid) if row["role"] != "system"]
    assert len([text for text in said if "heron-42" in text]) == 1
    assert said[-1] == "Yes."
    assert [hit["session_id"] for hit in scene.found("heron-42")] == [sid]
    assert "fail_open" not in {event["kind"] for event in scene.events(sid)}


def test_the_command_asks_for_a_trim_and_the_model_is_told(scene: OpenCodeScene) -> None:
    """Issue 4: a person asks for a trim; nothing can stand in place of a reply in OpenCode."""
    scene.install("--agent", "opencode")
    sid = scene.run(play("begin", {"say": "Begun."})).session_id
    scene.run("/smart-compact", resume=sid)
    assert "a trim of this session is requested" in "\n".join(texts_of(scene.bodies[-1]))


def test_a_call_that_carries_a_marker_is_refused_and_any_other_runs(scene: OpenCodeScene) -> None:
    """Issue 4, part 6: a model copies what it sees; its sub-agent's call is looked at as well."""
    scene.install("--agent", "opencode")
    sid = scene.run(play("one", {"say": "Yes."})).session_id
    target = scene.project / "made.txt"

    def write(text: str) -> dict[str, Any]:
        return call("write", filePath=str(target), content=text)

    done = scene.run(
        play("two", write(marker(sid, 3)), write(marker("ses_another", 3)), {"say": "So."}),
        resume=sid,
    )
    assert done.said[-1] == "So."
    refused, ran = outputs_of(scene.bodies[-1])[-2:]
    assert "openmem: this call carries a marker" in refused and f"{sid}:3" in refused
    assert "openmem: " not in ran and "ses_another" in target.read_text()
    inner = play("copy it", write(marker(sid, 4)), {"say": "Copied."})
    task = call("task", description="copy", prompt=inner, subagent_type="general")
    scene.run(play("three", task, {"say": "Done."}), resume=sid)
    helper = [r for r in scene.service.asked if r.request.header("x-parent-session-id")][-1]
    assert f"{sid}:4" in outputs_of(helper.json)[-1] and "carries" in outputs_of(helper.json)[-1]
    assert "ses_another" in target.read_text()


def test_what_erases_asks_and_is_refused_where_nobody_can_be_asked(scene: OpenCodeScene) -> None:
    """Design 8: forgetting is the person's own; OpenCode asks before no other MCP tool."""
    scene.install("--agent", "opencode", "--no-proxy")
    scene.openmem("memory", "add", "The mooring mast stands at quay 17-B.")
    (memory,) = scene.data("memory", "list")["memories"]
    forget = call("openmem_memory_forget", id=memory["id"])
    scene.run(play("forget the mast", forget, {"say": "Done."}))
    assert [one["id"] for one in scene.data("memory", "list")["memories"]] == [memory["id"]]


def test_a_killed_proxy_is_back_for_the_next_prompt(scene: OpenCodeScene) -> None:
    """Issue 7, Show it: kill and revive."""
    scene.install("--agent", "opencode")
    sid = scene.run(play("hello", {"say": "Good day."})).session_id
    for pid in scene.processes():
        with contextlib.suppress(ProcessLookupError):  # ended with the one before it
            os.kill(pid, signal.SIGKILL)
    scene.run(play("and now", {"say": "Back."}), resume=sid)
    assert [row["text"] for row in scene.rows(sid)][-1] == "Back."


def test_a_killed_opencode_leaves_no_process_of_ours(scene: OpenCodeScene) -> None:
    """Issue 7, Show it: no process of ours is left 10 s after sessions were killed."""
    scene.install("--agent", "opencode")
    served = set(scene.processes())
    prompt = play("hello", {"say": "Late.", "delay_seconds": 60})
    child = scene.opencode.started(prompt)
    deadline = time.monotonic() + 60
    while not scene.service.asked and time.monotonic() < deadline:
        time.sleep(0.1)
    assert scene.service.asked
    child.kill()
    child.wait()
    assert scene.wait_for_no_process(beside=served) == []


def test_opencode_goes_on_without_its_launcher(scene: OpenCodeScene) -> None:
    """Facts 4.5: a hook that throws fails the person's run; ours never does."""
    scene.install("--agent", "opencode", "--no-proxy", "--no-mcp")
    (scene.state / "hooks/openmem-hook").unlink()
    done = scene.run(play("hello", {"say": "Good day."}))
    assert done.said == ["Good day."]


def test_a_hook_that_hangs_delays_the_prompt_by_its_limit_only(scene: OpenCodeScene) -> None:
    """Issue 7, part 2: every hook with a time limit."""
    scene.install("--agent", "opencode", "--no-proxy", "--no-mcp")
    launcher = scene.state / "hooks/openmem-hook"
    launcher.write_text("#!/bin/sh\nexec sleep 60\n")
    done = scene.opencode.run(play("hello", {"say": "Good day."}), timeout_seconds=50)
    assert done.said == ["Good day."]


WIRED = """{
  "model": "{model}",
  "small_model": "{model}",
  "provider": { "{provider}": { "options": { "baseURL": "{url}", "apiKey": "a-fake-key" } } }
}
"""


@pytest.mark.parametrize(
    ("provider", "model"),
    [("anthropic", "anthropic/claude-sonnet-4-5"), ("openai", "openai/gpt-5.1")],
)
def test_a_provider_of_another_wire_format_is_recorded_and_trimmed_alike(
    tmp_path: Path, provider: str, model: str
) -> None:
    """Issue 7 part 2: base URL per provider in use; Messages and Responses beside Chat."""
    made: FakeAnthropic | FakeResponses = (
        FakeAnthropic() if provider == "anthropic" else FakeResponses()
    )
    with made as service:
        url = service.url_of("default") if isinstance(service, FakeAnthropic) else service.url
        text = WIRED.replace("{provider}", provider).replace("{model}", model)
        with an_opencode_scene(tmp_path, text.replace("{url}", f"{url}/v1")) as scene:
            scene.openmem("config", "set", "trim.soft_tokens", "12000")
            scene.install("--agent", "opencode")
            sid = scene.run(play("the staging host is heron-42", {"say": "Noted."})).session_id
            long_turns(scene, sid, range(1, 5))
            found = [row["text"] for row in scene.rows(sid)]
            assert "Task 4 is done." in found and any("1000450" in text for text in found)
            kinds = [event["kind"] for event in scene.events(sid)]
            assert "trim" in kinds and "fail_open" not in kinds
            route = f"opencode-{provider}"
            status = scene.data("proxy", "status")
            assert status["upstream"][route] == f"{url}/v1"
            sent = [r for r in service.records if r.request.body]
            assert {r.status for r in sent} == {200}
            assert POINTER in sent[-1].request.plain_body.decode()


def test_everything_comes_back_to_the_byte(scene: OpenCodeScene) -> None:
    """Issue 7, Show it: uninstall byte-exact, after a session."""
    config = scene.config_dir / "opencode.jsonc"
    scene.run(play("before", {"say": "ok"}))  # OpenCode makes its own files first
    before = {path: path.read_bytes() for path in scene.config_dir.rglob("*") if path.is_file()}
    scene.install("--agent", "opencode")
    assert f"127.0.0.1:{scene.port}/a/opencode-fake" in config.read_text()
    again = scene.openmem("install-coding-agent", "--agent", "opencode", "--yes")
    assert "othing to do" in again.stdout + again.stderr
    scene.run(play("hello", {"say": "Good day."}))
    scene.openmem("uninstall-coding-agent", "--agent", "opencode", "--yes")
    after = {path: path.read_bytes() for path in scene.config_dir.rglob("*") if path.is_file()}
    assert after == before
    scene.openmem("uninstall", "--yes")
    assert scene.run(play("after", {"say": "Still here."})).said == ["Still here."]
