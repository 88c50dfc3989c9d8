"""What goes by is stored: every message once, verbatim, before its response's last byte."""

from __future__ import annotations

import gzip
import json
import os
import threading

import brotli
import pytest
import zstandard

from tests.fakes.proxied import (
    TARGET,
    assistant,
    body_of,
    environment,
    events,
    events_for,
    files_below,
    register,
    rows,
    send,
    streams,
    texts,
    threads,
    user,
    write_policy,
)
from tests.fakes.running_proxy import Connection, request_bytes, wait_until
from tests.fakes.wire import Gone, Reply, Request


@pytest.fixture
def folder(tmp_path, paths):
    """A folder that may be stored, with the policy that says so."""
    found = tmp_path / "project"
    found.mkdir()
    write_policy(paths, allowed=str(found))
    return str(found)


@pytest.fixture
def proxy(start, upstream, folder):
    upstream.handler = streams("Noted: rotation every 90 days.")
    running = start(is_recording=True)
    wait_until(lambda: running.status()["recorder_running"])
    return running


def test_a_request_and_its_answer_are_rows_when_the_answer_is_there(proxy, paths, folder):
    """Issue 2, part 5: a request's rows are committed before the last byte goes out."""
    answer = send(proxy.port, body_of(user(environment(folder), "we rotate the signing key")))
    assert answer.body == b"".join(events_for("Noted: rotation every 90 days."))
    assert answer.is_whole
    assert texts(paths, role="user") == ["we rotate the signing key"]
    assert texts(paths, role="assistant") == ["Noted: rotation every 90 days."]
    assert proxy.status()["recorded"] == 1


def test_an_agent_that_stops_reading_at_the_last_event_finds_its_rows(
    proxy, upstream, paths, folder
):
    """Ours: agents act on `message_stop` and do not wait for the end of the connection."""
    release = threading.Event()

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        for event in events_for("answer"):
            reply.chunk(event)
        release.wait(20)
        reply.end()

    upstream.handler = handle
    headers = [("x-claude-code-session-id", "s1")]
    body = body_of(user(environment(folder), "question"))
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", TARGET, port=proxy.port, headers=headers, body=body))
        client.head()
        got = b""
        while not got.endswith(b'{"type": "message_stop"}\n\n'):
            got += client.chunk()
        assert texts(paths) == [environment(folder)[18:-19].strip("\n"), "question", "answer"]
        release.set()
        assert client.chunk() == b""


def test_a_resent_history_adds_only_what_is_new(proxy, upstream, paths, folder):
    """Design, section 4: a resent history adds nothing, nor does the answer sent back."""
    first = user(environment(folder), "one")
    send(proxy.port, body_of(first))
    upstream.handler = streams("second answer")
    history = (first, assistant("Noted: rotation every 90 days."), user("two"))
    send(proxy.port, body_of(*history))
    send(proxy.port, body_of(*history))
    said = [row["text"] for row in rows(paths) if row["role"] in ("user", "assistant")]
    assert said == ["one", "Noted: rotation every 90 days.", "two", "second answer"]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("zstd", zstandard.compress), ("br", brotli.compress)],
)
def test_compressed_requests_and_responses_are_stored(
    proxy, upstream, paths, folder, encoding, pack
):
    """Users' report 43: zstd and gzip bodies."""
    packed = pack(b"".join(events_for("packed answer")))

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream"), ("content-encoding", encoding)])
        for at in range(0, len(packed), 7):
            reply.chunk(packed[at : at + 7])
        reply.end()

    upstream.handler = handle
    body = pack(body_of(user(environment(folder), "packed question")))
    answer = send(proxy.port, body, headers=[("content-encoding", encoding)])
    assert answer.body == packed
    assert upstream.requests[0].body == body
    assert texts(paths)[1:] == ["packed question", "packed answer"]
    assert events(paths)[0]["cache_read_tokens"] == 200


def test_usage_is_an_event_with_what_was_kept_of_the_prefix(proxy, paths, folder):
    """Context-store contract, Events; design, section 6 point 10."""
    first = user(environment(folder), "one")
    send(proxy.port, body_of(first))
    marked = user("two")
    marked["content"][0]["cache_control"] = {"type": "ephemeral"}
    send(proxy.port, body_of(first, assistant("a"), marked))
    send(proxy.port, body_of(first, assistant("a"), marked, assistant("b"), model="claude-x"))
    one, two, three = events(paths)
    assert (one["input_tokens"], one["cache_read_tokens"]) == (10, 200)
    assert (one["cache_creation_tokens"], one["output_tokens"]) == (30, 7)
    assert one["model"] == "claude-opus-5-5"
    assert one["thread_root"] == threads(paths)[0]["thread"]
    assert (one["prefix_kept"], one["bust"]) == (None, None)
    assert two["prefix_kept"] == two["prefix_bytes"] > 0
    assert (two["bust"], two["breakpoints"], two["breakpoint_at"]) == ("", 1, "m-1")
    assert (three["bust"], three["prefix_kept"]) == ("model", 0)
    assert three["breakpoint_at"] == "m-2"


def test_a_response_that_is_no_stream_is_stored_too(proxy, upstream, paths, folder):
    """Ours: clients may ask without streaming."""
    message = {
        "type": "message",
        "content": [{"type": "text", "text": "whole"}],
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    data = json.dumps(message).encode()
    upstream.handler = lambda _, reply: reply.whole(
        200, [("content-type", "application/json")], data
    )
    answer = send(proxy.port, body_of(user(environment(folder), "q"), stream=False))
    assert answer.body == data
    assert texts(paths, role="assistant") == ["whole"]
    assert events(paths)[0]["cache_read_tokens"] is None


def test_a_stream_that_breaks_off_leaves_what_was_complete(proxy, upstream, paths, folder):
    """The brief of this part: a cut stream records what was complete, with a note."""

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        for event in events_for("whole block")[:4]:
            reply.chunk(event)
        reply.cut()

    upstream.handler = handle
    answer = send(proxy.port, body_of(user(environment(folder), "q")))
    assert not answer.is_whole
    wait_until(lambda: proxy.status()["pending"] == 0)
    assert texts(paths)[1:] == ["q", "whole block"]
    assert events(paths)[0]["error"] == "upstream-broke"


def test_a_client_that_leaves_has_its_request_stored(proxy, upstream, paths, folder):
    """The same, from the other side."""

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        try:
            for event in events_for("x")[:3]:
                reply.chunk(event)
            while True:
                reply.chunk(b": wait\n\n")
                threading.Event().wait(0.01)
        except Gone:
            raise

    upstream.handler = handle
    headers = [("x-claude-code-session-id", "s1")]
    body = body_of(user(environment(folder), "q"))
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", TARGET, port=proxy.port, headers=headers, body=body))
        client.head()
        client.chunk()
    wait_until(lambda: proxy.status()["recorded"] == 1)
    assert texts(paths)[1:] == ["q"]
    assert events(paths)[0]["error"] == "client-left"


def test_an_error_of_the_api_is_no_call_that_counts(proxy, upstream, paths, folder):
    """Ours: usage is what was billed; the request's rows are kept all the same."""
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    upstream.handler = lambda _, reply: reply.whole(529, [], body)
    answer = send(proxy.port, body_of(user(environment(folder), "q")))
    assert (answer.status, answer.body) == (529, body)
    assert texts(paths)[1:] == ["q"]
    assert events(paths) == []


def test_secrets_are_masked_in_the_store_and_not_on_the_wire(proxy, upstream, paths, folder):
    """Design, section 6 point 9."""
    secret = "sk-ant-api03-" + "Ab1_" * 12
    send(proxy.port, body_of(user(environment(folder), f"key {secret} end")))
    assert secret.encode() in upstream.requests[0].body
    for name in files_below(paths.state_dir):
        with open(os.path.join(paths.state_dir, name), "rb") as file:
            assert secret.encode() not in file.read()
    assert "[REDACTED:anthropic:" in texts(paths, role="user")[-1]


def test_a_denied_folder_leaves_nothing_on_disk(proxy, upstream, paths, folder, tmp_path):
    """Design, section 6 point 8: byte for byte, no row, no registration, nothing."""
    before = files_below(str(tmp_path))
    body = body_of(user(environment("/somewhere/else"), "private"))
    send(proxy.port, body, sid="denied")
    send(proxy.port, b'{"messages": [not json', sid="denied")
    send(proxy.port, body_of(user("no folder at all")), sid="unknown")
    send(proxy.port, body_of(user("quota"), max_tokens=1, tools=[]), sid="side")
    assert upstream.requests[0].body == body
    assert files_below(str(tmp_path)) == before
    assert proxy.status()["denied_passed_through"] == 2
    assert proxy.status()["recorded"] == 0


def test_without_a_policy_nothing_is_stored(start, upstream, paths, home):
    """Issue 2, part 3: missing, unreadable or invalid means no."""
    upstream.handler = streams()
    proxy = start(is_recording=True)
    wait_until(lambda: proxy.status()["recorder_running"])
    for text in ("", "version = 2", "not toml ="):
        if text:
            os.makedirs(paths.config_dir, exist_ok=True)
            with open(paths.policy_file, "w", encoding="utf-8") as file:
                file.write(text)
        assert send(proxy.port, body_of(user(environment(str(home)), "q"))).status == 200
    assert not os.path.exists(paths.state_dir)


def test_a_change_of_the_policy_holds_from_the_next_request_on(proxy, paths, folder):
    """Design, section 4: one gate; no restart."""
    send(proxy.port, body_of(user(environment(folder), "one")))
    write_policy(paths)
    send(proxy.port, body_of(user(environment(folder), "one"), assistant("a"), user("two")))
    assert "two" not in texts(paths)
    write_policy(paths, allowed=folder)
    send(proxy.port, body_of(user(environment(folder), "one"), assistant("a"), user("three")))
    assert texts(paths, role="user") == ["one", "three"]


def test_what_a_hook_registered_outranks_what_the_agent_states(proxy, paths, folder):
    """Design, section 6: the workspace is what its hook registered, else the stated folder."""
    register(paths, "s1", "/somewhere/else")
    send(proxy.port, body_of(user(environment(folder), "q")))
    assert rows(paths) == []
    register(paths, "s2", folder)
    send(proxy.port, body_of(user("q without a folder")), sid="s2")
    assert texts(paths, "s2", role="user") == ["q without a folder"]


def test_a_stated_folder_is_registered_and_holds_for_later_requests(proxy, paths, folder):
    """Users' report 47: any request with an unknown id registers it lazily."""
    send(proxy.port, body_of(user(environment(folder), "q")))
    with open(f"{paths.sessions_dir}/s1.json", encoding="utf-8") as file:
        assert json.load(file)["cwd"] == folder
    send(proxy.port, body_of(user("after a compaction")))
    assert "after a compaction" in texts(paths)


def test_sub_agents_and_errands_are_threads_of_their_own(proxy, paths, folder):
    """Users' report 42: three interleaved streams with one session id, and a title request."""
    first = user(environment(folder), "the same first message")
    for step in range(3):
        grown = [first]
        for number in range(step):
            grown += [assistant(f"did {number}"), user(f"go on {number}")]
        for agent in ("", "a1", "a2"):
            headers = [("x-claude-code-agent-id", agent)] if agent else []
            send(proxy.port, body_of(*grown), headers=headers)
    title = body_of(
        user("the same first message"),
        system="Generate a concise title for this session.",
        tools=[],
        model="claude-haiku-5-5",
        max_tokens=100,
    )
    send(proxy.port, title)
    found = {(one["kind"], one["agent_id"]) for one in threads(paths)}
    assert found == {("main", ""), ("sub-agent", "a1"), ("sub-agent", "a2"), ("side", "")}
    busts = {event["bust"] for event in events(paths)}
    assert busts <= {None, ""}
    assert os.path.exists(f"{paths.sessions_dir}/s1.v4.db")


def test_an_errand_makes_no_session(proxy, paths, folder):
    """Users' report 42: title and warm-up requests do not create sessions."""
    title = body_of(user(environment(folder), "x"), system="You are a title generator.", tools=[])
    assert send(proxy.port, title, sid="new").status == 200
    assert send(proxy.port, title, sid="").status == 200
    assert files_below(paths.state_dir) == []
    assert proxy.status()["passed_through"]["side"] == 2


def test_a_session_without_an_id_gets_one_that_lasts(proxy, paths, folder):
    """Users' report 41."""
    for cch in ("aa", "bb"):
        billing = f"x-anthropic-billing-header: cc_version=2.1.332; cch={cch};"
        system = [{"type": "text", "text": billing}, {"type": "text", "text": "Agent."}]
        send(proxy.port, body_of(user(environment(folder), "one"), system=system), sid="")
    system = [{"type": "text", "text": "Agent."}]
    send(proxy.port, body_of(user(environment(folder), "other"), system=system), sid="")
    made = sorted(n for n in os.listdir(paths.sessions_dir) if n.endswith(".v4.db"))
    assert len(made) == 2
    assert all(name.startswith("fp-") for name in made)


@pytest.mark.parametrize("bomb", ["gzip", "zstd", "br"])
def test_a_body_beyond_the_cap_passes_unrecorded(start, upstream, paths, folder, bomb):
    """Users' report 43, and the brief: passed through unrecorded, and counted."""
    upstream.handler = streams()
    proxy = start(is_recording=True, body_limit_bytes=200_000)
    wait_until(lambda: proxy.status()["recorder_running"])
    big = body_of(user(environment(folder), "x" * 300_000))
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress, "br": brotli.compress}[bomb](big)
    assert len(packed) < 2000
    assert send(proxy.port, packed, headers=[("content-encoding", bomb)]).status == 200
    assert send(proxy.port, big).status == 200
    assert [r.body for r in upstream.requests] == [packed, big]
    assert rows(paths) == []
    assert proxy.status()["passed_through"]["too-large"] == 2
    assert proxy.status()["fail_opens_today"] == 0


def test_what_is_not_understood_passes_and_is_noted(proxy, upstream, paths, folder):
    """Design, section 7: any fault passes the original; the event has place and kind only."""
    send(proxy.port, body_of(user(environment(folder), "one")))
    for body in (b'{"messages": "secret words"}', b'{"messages":{}}', b'{"secret":"words"}'):
        assert send(proxy.port, body).status == 200
        assert upstream.requests[-1].body == body
    noted = events(paths, kind="fail_open")
    assert len(noted) == 3
    assert {event["error"] for event in noted} == {"NotUnderstood"}
    assert all(":" in event["location"] for event in noted)
    assert "secret" not in json.dumps(noted)
    assert proxy.status()["fail_opens_today"] == 3


def test_draining_passes_everything_and_stores_nothing(proxy, paths, folder):
    """Design, section 7: `proxy stop` stays as a plain pass-through."""
    proxy.app.draining = True
    assert send(proxy.port, body_of(user(environment(folder), "one"))).status == 200
    assert rows(paths) == []
    proxy.app.draining = False
    send(proxy.port, body_of(user(environment(folder), "two")))
    assert texts(paths, role="user") == ["two"]


def test_no_login_reaches_the_recorder_or_the_disk(proxy, paths, folder):
    """The brief of this part: auth headers untouched and never logged."""
    headers = [("authorization", "Bearer made-up-login"), ("cookie", "c=made-up-cookie")]
    send(proxy.port, body_of(user(environment(folder), "q")), headers=headers)
    for name in files_below(paths.state_dir):
        with open(os.path.join(paths.state_dir, name), "rb") as file:
            assert b"made-up" not in file.read()


def test_a_hundred_requests_at_once_have_all_their_rows(proxy, paths, folder):
    """Issue 2: every request whose response was delivered whole has its rows."""
    problems: list[str] = []

    def one(number: int) -> None:
        sid = f"s{number % 10}"
        answer = send(
            proxy.port, body_of(user(environment(folder), f"prompt number {number}.")), sid=sid
        )
        if not answer.is_whole or f"prompt number {number}." not in texts(paths, sid):
            problems.append(f"{number}: {answer.status}")

    workers = [threading.Thread(target=one, args=(number,)) for number in range(100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert problems == []
    assert proxy.status()["recorded"] == 100
