"""Codex and OpenCode through the proxy: stored as Claude Code is, their own errands told apart."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from openmem.base.paths import Paths
from openmem.context.proxy.settings import ProxySettings
from openmem.context.session import read_registration
from tests.fakes.codex_conversation import CodexConversation, output_of
from tests.fakes.proxied import events, rows, texts, threads, write_policy
from tests.fakes.responses_server import FakeResponses
from tests.fakes.running_proxy import RunningProxy, ask, wait_until
from tests.fakes.script import play
from tests.fakes.wire import Reply, Request

RESPONSES = "/a/codex/responses"
CHAT = "/a/opencode/v1/chat/completions"


@pytest.fixture
def folder(tmp_path: Path, paths: Paths) -> str:
    found = tmp_path / "project"
    found.mkdir()
    write_policy(paths, allowed=str(found))
    return str(found)


class Codex:
    """One thread of Codex before our proxy and the fake service."""

    def __init__(self, port: int, client: CodexConversation) -> None:
        self.port, self.client = port, client

    def send(self, *, kind: str = "turn", packed: bool = False) -> list[dict[str, Any]]:
        body = self.client.bytes(is_compaction=kind == "compaction")
        headers = self.client.headers(kind)
        if packed:
            body = zstandard.compress(body)
            headers.append(("content-encoding", "zstd"))
        answer = ask(self.port, "POST", RESPONSES, headers=headers, body=body)
        assert answer.status == 200, answer
        output = output_of(answer.body)
        if kind == "turn":
            self.client.answer(output)
        return output


@pytest.fixture
def service() -> Iterator[FakeResponses]:
    with FakeResponses() as found:
        yield found


@pytest.fixture
def proxy(start: Callable[..., RunningProxy], service: FakeResponses, folder: str) -> RunningProxy:
    running = start(is_recording=True, routes={"codex": service.url + "/v1"})
    wait_until(lambda: running.status()["recorder_running"])
    return running


@pytest.fixture
def codex(proxy: RunningProxy, folder: str) -> Codex:
    return Codex(proxy.port, CodexConversation(folder=folder))


def run_a_turn(codex: Codex, prompt: str = "list the files") -> None:
    steps: list[dict[str, Any]] = [
        {"think": "hm", "call": {"name": "exec_command", "input": {"cmd": "ls"}}},
        {"think": "so", "say": f"Done: {prompt}."},
    ]
    codex.client.say(play(prompt, *steps))
    codex.send()
    codex.client.results(["a.py b.py"])
    codex.send()


@pytest.mark.parametrize("packed", [False, True])
def test_a_turn_of_codex_is_stored_item_by_item(
    codex: Codex, proxy: RunningProxy, paths: Paths, packed: bool
) -> None:
    """Brief: the proxy records `…/responses`, zstd bodies too."""
    codex.client.say(play("hello", {"think": "hm", "say": "Good day."}))
    codex.send(packed=packed)
    sid = codex.client.sid
    found = [(row["role"], row["kind"], row["text"][:12]) for row in rows(paths, sid)]
    assert found[-3:] == [
        ("user", "text", "hello @@play"),
        ("assistant", "thinking", "hm"),
        ("assistant", "text", "Good day."),
    ]
    assert {role for role, _, _ in found[:-3]} == {"system"}
    (event,) = events(paths, sid)
    assert event["model"] == "gpt-6.2-sol" and event["breakpoints"] is None
    assert event["input_tokens"] > 0 and event["cache_read_tokens"] == 0
    assert event["cache_creation_tokens"] is None and event["output_tokens"] > 0
    assert proxy.status()["recorded"] == 1 and proxy.status()["fail_opens"] == {}


def test_a_resent_history_adds_only_what_is_new(codex: Codex, paths: Paths) -> None:
    """Design, section 4: the reply sent back is the reply that was stored."""
    run_a_turn(codex)
    codex.client.say(play("again", {"say": "Yes."}), context="a hook says hello")
    codex.send()
    said = [
        (r["role"], r["name"] or "") for r in rows(paths, codex.client.sid) if r["role"] != "system"
    ]
    assert said == [
        ("user", ""),
        ("assistant", ""),
        ("assistant", "exec_command"),
        ("tool", "exec_command"),
        ("assistant", ""),
        ("assistant", ""),
        ("user", ""),
        ("assistant", ""),
    ]
    assert [e["bust"] for e in events(paths, codex.client.sid)] == [None, "", ""]
    assert len(threads(paths, codex.client.sid)) == 1


def test_the_folder_is_the_one_that_codex_states(
    codex: Codex, paths: Paths, folder: str, tmp_path: Path
) -> None:
    """Design, section 6, point 9: the agent's own environment text, when no hook told it."""
    run_a_turn(codex)
    registration = read_registration(paths, codex.client.sid)
    assert registration is not None and (registration.cwd, registration.agent) == (folder, "codex")
    denied = CodexConversation(sid="0c0de000-dddd", folder=str(tmp_path / "elsewhere"))
    denied.say(f"I work in {folder}: <environment_context><cwd>{folder}</cwd>")
    Codex(codex.port, denied).send()
    assert rows(paths, denied.sid) == []


def test_a_sub_agent_of_codex_is_a_thread_of_its_own(codex: Codex, paths: Paths) -> None:
    """Facts 3.2: the same session id, a thread id of its own."""
    run_a_turn(codex)
    sid = codex.client.sid
    helper = CodexConversation(sid="0c0de000-5ab5", folder=codex.client.folder, parent=sid)
    helper.say("list the files")
    Codex(codex.port, helper).send()
    run_a_turn(codex, "and now")
    found = [(one["kind"], one["agent_id"]) for one in threads(paths, sid)]
    assert found == [("main", ""), ("sub-agent", helper.sid)]
    assert rows(paths, helper.sid) == []


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_summary_that_codex_asks_for_is_a_fork_and_what_follows_is_the_main_thread(
    codex: Codex, paths: Paths, is_remote: bool
) -> None:
    """Facts 3.4: compaction is told by `request_kind`; prompts are kept word for word."""
    codex.client.is_remote = is_remote
    run_a_turn(codex, "first")
    run_a_turn(codex, "second")
    sid = codex.client.sid
    before = len(rows(paths, sid))
    codex.send(kind="compaction")
    added = rows(paths, sid)[before:]
    # Its prompt and the summary; what the provider sums up itself is closed and says nothing.
    assert [row["role"] for row in added] == ([] if is_remote else ["user", "assistant"])
    kinds = ["main"] if is_remote else ["main", "side"]
    assert [one["kind"] for one in threads(paths, sid)] == kinds
    codex.client.compact("Two things were done.")
    codex.send()
    prompts = [row for row in rows(paths, sid) if row["text"].startswith("first @@play")]
    assert [bool(row["in_context"]) for row in prompts] == [True]
    answers = [row for row in rows(paths, sid) if row["text"] == "Done: first."]
    assert [bool(row["in_context"]) for row in answers] == [False]
    assert len(events(paths, sid, "compaction")) == 1
    assert [one["kind"] for one in threads(paths, sid)] == kinds


@pytest.mark.parametrize("kind", ["prewarm", "guardian_review", "memory_consolidation"])
def test_errands_of_codex_leave_no_row_but_count(codex: Codex, paths: Paths, kind: str) -> None:
    """Issue 7 part 1: told apart by the turn metadata; what they retell is stored already."""
    run_a_turn(codex)
    before = rows(paths, codex.client.sid)
    codex.client.say("the conversation so far, as text")
    codex.send(kind=kind)
    assert rows(paths, codex.client.sid) == before
    assert len(events(paths, codex.client.sid)) == 3


def test_odd_metadata_is_no_fault(codex: Codex, paths: Paths, proxy: RunningProxy) -> None:
    """Issue 4, Bad input: a header that is not what we know counts as absent."""
    codex.client.say("hello")
    for odd in ("{", "[]", '{"request_kind": 7, "workspaces": []}', "7"):
        headers = [pair for pair in codex.client.headers() if pair[0] != "x-codex-turn-metadata"]
        headers.append(("x-codex-turn-metadata", odd))
        ask(codex.port, "POST", RESPONSES, headers=headers, body=codex.client.bytes())
    assert texts(paths, codex.client.sid, role="user") == ["hello"]
    assert proxy.status()["fail_opens"] == {}


@pytest.mark.parametrize("body", [b"not json", b'{"input":7}', b'{"input":[7]}', b"{}"])
def test_what_is_not_understood_passes_untouched_and_is_counted(
    codex: Codex, service: FakeResponses, proxy: RunningProxy, paths: Paths, body: bytes
) -> None:
    """Issue 4, Bad input."""
    got: list[bytes] = []
    service.http._handle = lambda request, reply: (  # type: ignore[assignment]
        got.append(request.body),
        reply.whole(200, [("content-type", "application/json")], b"{}"),
    )
    answer = ask(codex.port, "POST", RESPONSES, headers=codex.client.headers(), body=body)
    assert answer.status == 200 and got == [body]
    why = "not-json" if body == b"not json" else "not-understood"
    wait_until(lambda: proxy.status()["passed_through"].get(why) == 1)
    assert rows(paths, codex.client.sid) == []


# --- OpenCode


def chunks(text: str, *, thinks: str = "", calls: list[tuple[str, str]] | None = None) -> bytes:
    """Return a streamed chat answer, cut small as a server of OpenCode's sends it."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": part} for part in thinks]
    deltas += [{"content": part} for part in text]
    for number, (name, arguments) in enumerate(calls or []):
        head = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": number, "id": f"c{number}", "function": head}]})
        deltas += [
            {"tool_calls": [{"index": number, "function": {"arguments": part}}]}
            for part in arguments
        ]
    values: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": d}]} for d in deltas]
    values.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 50, "completion_tokens": 7}
    usage |= {"prompt_tokens_details": {"cached_tokens": 30}}  # type: ignore[dict-item]
    values.append({"choices": [], "usage": usage})
    lines = [f"data: {json.dumps(value)}\n\n" for value in values]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


@pytest.fixture
def opencode(start: Callable[..., RunningProxy], upstream: Any, folder: str) -> RunningProxy:
    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        reply.chunk(chunks("Done.", thinks="hm", calls=[("bash", '{"command": "ls"}')]))
        reply.end()

    upstream.handler = handle
    running = start(is_recording=True, routes={"opencode": upstream.url})
    wait_until(lambda: running.status()["recorder_running"])
    return running


def chat(
    port: int,
    *messages: dict[str, Any],
    has_tools: bool = True,
    sid: str = "ses_1",
    parent: str = "",
) -> None:
    body: dict[str, Any] = {"model": "m1", "stream": True, "messages": list(messages)}
    if has_tools:
        body["tools"] = [{"type": "function", "function": {"name": "bash"}}]
    headers = [("x-session-id", sid), ("x-session-affinity", sid)]
    headers += [("x-parent-session-id", parent)] if parent else []
    answer = ask(port, "POST", CHAT, headers=headers, body=json.dumps(body).encode())
    assert answer.status == 200 and answer.body.endswith(b"data: [DONE]\n\n")


def prompt_of(folder: str) -> dict[str, Any]:
    text = f"You are opencode.\n<env>\n  Working directory: {folder}\n</env>"
    return {"role": "system", "content": text}


def test_a_turn_of_opencode_is_stored_with_its_reply(
    opencode: RunningProxy, paths: Paths, folder: str
) -> None:
    """Brief: the proxy records `…/chat/completions`; chat usage."""
    chat(opencode.port, prompt_of(folder), {"role": "user", "content": "list"})
    found = [(r["role"], r["kind"], r["name"] or "", r["text"]) for r in rows(paths, "ses_1")][1:]
    assert found == [
        ("user", "text", "", "list"),
        ("assistant", "thinking", "", "hm"),
        ("assistant", "text", "", "Done."),
        ("assistant", "tool_use", "bash", '{"command":"ls"}'),
    ]
    (event,) = events(paths, "ses_1")
    counts = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens")
    assert [event[name] for name in counts] == [20, 30, None, 7]
    registration = read_registration(paths, "ses_1")
    assert registration is not None and (registration.agent, registration.cwd) == (
        "opencode",
        folder,
    )
    call = {"id": "c0", "type": "function",
            "function": {"name": "bash", "arguments": '{"command": "ls"}'}}  # fmt: skip
    resent = {"role": "assistant", "content": "Done.", "reasoning_content": "hm",
              "tool_calls": [call]}  # fmt: skip
    before = len(rows(paths, "ses_1"))
    chat(opencode.port, prompt_of(folder), {"role": "user", "content": "list"}, resent,
         {"role": "tool", "tool_call_id": "c0", "content": "a.py"})  # fmt: skip
    assert [r["name"] for r in rows(paths, "ses_1")[before:] if r["role"] == "tool"] == ["bash"]
    assert len(rows(paths, "ses_1")) == before + 1 + 3


def test_sub_agents_of_opencode_at_any_depth_are_threads_of_one_session(
    opencode: RunningProxy, upstream: Any, paths: Paths, folder: str
) -> None:
    """Brief: nested children belong to the root session; what goes on is as it was sent."""
    above = ""
    for sid in ("ses_1", "ses_2", "ses_3", "ses_4"):
        mine = {"role": "user", "content": f"I am {sid}"}
        chat(opencode.port, prompt_of(folder), mine, sid=sid, parent=above)
        assert upstream.requests[-1].header("x-parent-session-id") == above
        above = sid
    assert {name.partition(".")[0] for name in os.listdir(paths.sessions_dir)} == {"ses_1"}
    found = [(one["kind"], one["agent_id"]) for one in threads(paths, "ses_1")]
    assert found == [("main", ""), *(("sub-agent", f"ses_{n}") for n in (2, 3, 4))]
    assert texts(paths, "ses_1", role="user") == [f"I am ses_{n}" for n in (1, 2, 3, 4)]


def test_titles_and_summaries_of_opencode_never_touch_the_conversation(
    opencode: RunningProxy, paths: Paths, folder: str
) -> None:
    """Brief: OpenCode's side requests are told apart; a summary retells what is stored."""
    chat(opencode.port, prompt_of(folder), {"role": "user", "content": "list"})
    before = rows(paths, "ses_1")
    title = {"role": "system", "content": "You are a title generator. You output ONLY a title."}
    asked = {"role": "user", "content": "Generate a title for this conversation:\n"}
    chat(opencode.port, title, asked, {"role": "user", "content": "list"}, has_tools=False)
    summary = {"role": "system", "content": "You are a context summarization agent. Summarize."}
    retold = {"role": "user", "content": "Here is the conversation so far:\n[User]: list"}
    chat(opencode.port, summary, retold, has_tools=False)
    assert rows(paths, "ses_1") == before  # else a search would count every line twice
    assert [one["kind"] for one in threads(paths, "ses_1")] == ["main"]
    assert len(events(paths, "ses_1")) == 3


def test_a_title_alone_makes_no_session(opencode: RunningProxy, paths: Paths, folder: str) -> None:
    """Identity: an errand never makes a session of its own."""
    title = {"role": "system", "content": "You are a title generator. You output ONLY a title."}
    chat(opencode.port, title, {"role": "user", "content": "list"}, has_tools=False)
    wait_until(lambda: opencode.status()["passed_through"].get("side") == 1)
    assert rows(paths, "ses_1") == []


def test_a_wired_proxy_keeps_an_agents_own_base_path(
    start: Callable[..., RunningProxy], service: FakeResponses, folder: str, paths: Paths
) -> None:
    """Issue 7 part 1: the old base URL, with whatever path it had, is the upstream."""
    running = start(is_recording=True, routes={"codex": f"{service.url}/r/x/v1"})
    client = CodexConversation(folder=folder)
    client.say("hello")
    ask(running.port, "POST", RESPONSES, headers=client.headers(), body=client.bytes())
    assert [record.request.path for record in service.records] == ["/r/x/v1/responses"]
    assert texts(paths, client.sid, role="assistant") == ["Understood."]


def test_nothing_of_a_denied_codex_session_is_left(
    start: Callable[..., RunningProxy], service: FakeResponses, paths: Paths, tmp_path: Path
) -> None:
    """Design, section 6, point 8."""
    write_policy(paths, allowed=str(tmp_path / "other"))
    settings = ProxySettings(paths=paths, routes={"codex": service.url})
    with RunningProxy(settings) as running:
        client = CodexConversation(folder=str(tmp_path))
        client.say("hello")
        body = client.bytes()
        ask(running.port, "POST", RESPONSES, headers=client.headers(), body=body)
        wait_until(lambda: running.status()["passed_through"].get("denied") == 1)
    assert service.records[0].request.body == body
    assert not os.path.exists(paths.sessions_dir)
