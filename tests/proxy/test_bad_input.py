"""Requests that are odd or broken, through the real proxy with trimming on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openmem.context.proxy.settings import ProxySettings
from openmem.context.trim.limits import TrimSettings
from tests.fakes.proxied import (
    TARGET,
    body_of,
    environment,
    events,
    register,
    rows,
    send,
    streams,
    texts,
    user,
    write_policy,
)
from tests.fakes.running_proxy import ask, wait_until
from tests.fakes.wire import Reply, Request

TRIM = TrimSettings(soft_tokens=6_000, hard_tokens=9_000)
LONG = "a line of no interest\n" * 3_000


@pytest.fixture
def folder(tmp_path, paths):
    found = tmp_path / "project"
    found.mkdir()
    write_policy(paths, allowed=str(found))
    register(paths, "s1", str(found))
    return str(found)


@pytest.fixture
def proxy(start, upstream, folder):
    upstream.handler = streams("Noted.")
    running = start(is_recording=True, trim=TRIM, commit_wait_seconds=30, view_wait_seconds=60)
    wait_until(lambda: running.status()["recorder_running"])
    return running


def _whole(*odd: str, model: str = '"claude-opus-5-5"') -> bytes:
    """Return a large request with odd messages in it, as raw JSON."""
    long = json.dumps({"role": "user", "content": [{"type": "text", "text": LONG}]})
    reply = '{"role":"assistant","content":"ok"}'
    listed = ",".join([long, reply, *odd, '{"role":"user","content":"and now"}'])
    return f'{{"model":{model},"max_tokens":9,"messages":[{listed}]}}'.encode()


def test_what_is_no_json_is_the_clients_and_counts_apart(proxy, upstream, paths, folder):
    """Issue 4, bad input: a broken client does not make doctor warn as if we failed."""
    send(proxy.port, body_of(user(environment(folder), "one")))
    broken = [b"not json", b"\x00\x01", b"[]", b'"text"', b"7", b"{", b'{"a":1}{"b":2}', b"\xff{}"]
    for body in broken:
        assert send(proxy.port, body).status == 200
        assert upstream.requests[-1].body == body
    wait_until(lambda: proxy.status()["passed_through"].get("not-json") == len(broken))
    assert proxy.status()["fail_opens_today"] == 0 and proxy.status()["fail_opens"] == {}
    assert events(paths, kind="fail_open") == []
    assert texts(paths, role="user") == ["one"]


UNTRIMMABLE = {
    "an unknown role": _whole('{"role":"narrator","content":"x"}'),
    "a key twice at the top": _whole()[:-1] + b',"max_tokens":9}',
    "an entry that is no message": _whole('"just a text"'),
    "a summary of the provider's own": _whole(
        '{"role":"assistant","content":[{"type":"compaction","content":"So far: x"}]}'
    ),
    "a lone surrogate": _whole('{"role":"user","content":"\\ud83d"}'),
    "a number beyond any": _whole('{"role":"user","content":[{"type":"x","n":1e400}]}'),
}


@pytest.mark.parametrize("name", UNTRIMMABLE)
def test_what_cannot_be_edited_for_certain_goes_as_it_came_and_is_counted(proxy, upstream, name):
    """Issue 4, bad input: duplicate keys, 1e400, unknown items: untouched and counted."""
    body = UNTRIMMABLE[name]
    assert send(proxy.port, body).status == 200
    assert upstream.requests[-1].body == body
    wait_until(lambda: sum(proxy.status()["passed_through"].values()) == 1)
    counted = proxy.status()["passed_through"]
    assert set(counted) <= {"untrimmable", "not-understood"}, counted


EDITABLE = {
    "a number of twenty digits": '{"content":[{"type":"x","n":12345678901234567890}]}',
    "a block nobody knows": '{"content":[{"type":"hologram","of":["x"]}]}',
    "fields nobody knows": '{"content":"x","mood":{"a":1.50,"a2":1E5}}',
    "a key twice inside a block": '{"content":[{"type":"text","text":"a","z":1,"z":2}]}',
    "a key twice in a message": '{"content":"x","content":"y"}',
    "content of no kind": '{"content":7}',
    "escapes": '{"content":"\\u00e9\\/\\u2028 \\ud83d\\ude80"}',
}


@pytest.mark.parametrize("name", EDITABLE)
def test_odd_parts_keep_their_bytes_where_the_rest_is_trimmed(proxy, upstream, folder, name):
    """Issue 4, bad input: unknown items, 20-digit integers. Kept values keep their bytes."""
    odd = EDITABLE[name].replace("{", '{"role":"user",', 1)
    first = json.dumps(user(environment(folder), "begin"))
    long = json.dumps(user(LONG))
    reply = '{"role":"assistant","content":"ok"}'
    listed = [first, reply, long, reply, odd, reply, '{"role":"user","content":"and now"}']
    body = f'{{"model":"claude-opus-5-5","max_tokens":9,"messages":[{",".join(listed)}]}}'.encode()
    assert send(proxy.port, body).status == 200
    sent = upstream.requests[-1].body
    if sent == body:
        return  # untouched, which is always right
    assert json.loads(sent)["messages"][0] == json.loads(first)
    kept = odd.encode() in sent
    assert kept or b"[openmem: session_id=" in sent
    assert LONG.encode()[:60] not in sent


def test_a_huge_request_passes_untouched_and_is_counted(start, upstream, folder):
    """Issue 4, bad input: huge."""
    upstream.handler = streams("Noted.")
    running = start(is_recording=True, trim=TRIM, body_limit_bytes=300_000)
    body = _whole(*[json.dumps(user(LONG)), '{"role":"assistant","content":"ok"}'] * 6)
    assert len(body) > 300_000
    assert send(running.port, body).status == 200
    assert upstream.requests[-1].body == body
    assert running.status()["passed_through"] == {"too-large": 1}
    assert running.status()["fail_opens"] == {}


def test_a_trimmed_session_that_sends_something_odd_gets_all_of_it_sent(
    proxy, upstream, paths, folder
):
    """Issue 4, bad input: passes untouched, with an event, and goes on trimmed afterwards."""

    def counted(_: Request, reply: Reply) -> None:
        streams("Noted.", usage={"input_tokens": 30_000})(_, reply)

    upstream.handler = counted
    messages: list[dict[str, Any]] = [user(environment(folder), "begin")]
    for number in range(3):
        messages += [{"role": "assistant", "content": "ok"}, user(f"{number} {LONG}")]
    assert send(proxy.port, body_of(*messages)).status == 200
    assert b"[openmem: session_id=" in upstream.requests[-1].body
    odd = [*messages, {"role": "narrator", "content": "x"}, user("what?")]
    assert send(proxy.port, body_of(*odd)).status == 200
    assert upstream.requests[-1].body == body_of(*odd)
    noted = events(paths, kind="fail_open")
    assert [event["error"] for event in noted] == ["NotTrimmable"]
    messages += [{"role": "assistant", "content": "ok"}, user("go on")]
    assert send(proxy.port, body_of(*messages)).status == 200
    assert b"[openmem: session_id=" in upstream.requests[-1].body
    stored = [row for row in rows(paths) if row["text"].startswith("1 a line")]
    assert len(stored) == 1


def test_two_agents_with_one_session_id_are_two_threads(start, upstream, paths, folder):
    """Issue 4, bad input: separate threads, neither edits the other."""
    upstream.handler = streams("Noted.")
    routes = {"claude-code": upstream.url, "other-agent": upstream.url}
    running = start(routes=routes, is_recording=True, trim=TRIM, commit_wait_seconds=30)
    wait_until(lambda: running.status()["recorder_running"])
    talks: dict[str, list[dict[str, Any]]] = {
        "claude-code": [user(environment(folder), "the first agent's")],
        "other-agent": [user(environment(folder), "the second agent's")],
    }
    for number in range(4):
        for agent, messages in talks.items():
            if number:
                messages += [
                    {"role": "assistant", "content": "ok"},
                    user(f"{number} of {agent}", LONG[:30_000]),
                ]
            headers = [("x-claude-code-session-id", "s1")]
            target = TARGET.replace("claude-code", agent)
            body = body_of(*messages)
            assert ask(running.port, "POST", target, headers=headers, body=body).status == 200
            sent = json.loads(upstream.requests[-1].body)["messages"]
            other = next(name for name in talks if name != agent)
            assert f"of {other}" not in json.dumps(sent)
            assert sent[0] == messages[0]
            assert f"{number} of {agent}" in json.dumps(sent) or not number
    found = {row["thread"] for row in rows(paths) if row["role"] == "user"}
    assert len(found) == 2
    assert events(paths, kind="fail_open") == []


def test_the_settings_of_these_tests_trim_at_all(paths) -> None:
    """House style: a limit that nothing can miss is none."""
    settings = ProxySettings(paths=paths, routes={}, trim=TRIM)
    assert settings.view_from_bytes < len(_whole())
