"""The fake Anthropic server itself: what it streams, keeps, cuts and refuses."""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.faults import NAMED
from tests.fakes.script import Call, Step, play
from tests.fakes.strict.rules import StrictRules
from tests.fakes.tap import Tap

CHECKOUT = Path(__file__).resolve().parents[2]


def _post(
    port: int, body: Any, *, run: str = "r", headers: dict[str, str] | None = None, tail: str = ""
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request("POST", f"/r/{run}/v1/messages{tail}", data, headers or {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def _body(prompt: str, *, stream: bool = True) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": "claude-opus-5-5", "stream": stream, "messages": messages}


def _events(data: bytes) -> list[dict[str, Any]]:
    return [
        json.loads(line.removeprefix(b"data: "))
        for line in data.split(b"\n")
        if line.startswith(b"data: ")
    ]


CALL = {"name": "Bash", "input": {"command": "echo hi"}}


def test_a_stream_has_the_events_of_the_real_api_in_their_order() -> None:
    """Messages API, streaming: message_start, ping, blocks, message_delta, message_stop."""
    prompt = play("go", {"think": "hm", "say": "hello", "calls": [CALL, CALL]})
    with FakeAnthropic() as server:
        status, headers, data = _post(server.port, _body(prompt))
    events = _events(data)
    kinds = [e["type"] for e in events]
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4
    assert data.startswith(b"event: message_start\ndata: {")
    parts = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(p.get("text", "") for p in parts) == "hello"
    inputs = [
        e["delta"].get("partial_json", "") for e in events if e.get("index") == 2 and "delta" in e
    ]
    assert json.loads("".join(inputs)) == CALL["input"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_the_step_follows_the_request_and_not_a_counter() -> None:
    """Ours: a retry gets the same answer; the next turn gets the next step."""
    prompt = play("go", {"say": "first"}, {"say": "second"})
    body = _body(prompt, stream=False)
    with FakeAnthropic() as server:
        answers = [json.loads(_post(server.port, body)[2]) for _ in range(2)]
        body["messages"] += [
            {"role": "assistant", "content": "first"},
            {"role": "user", "content": "?"},
        ]
        answers.append(json.loads(_post(server.port, body)[2]))
    assert [a["content"][0]["text"] for a in answers] == ["first", "first", "second"]


def test_a_script_from_python_wins_over_the_prompt() -> None:
    """Ours: steps can be given by the test itself."""

    def script(run: str, body: dict[str, Any]) -> Step | None:
        return Step(say=f"from python, {run}", calls=(Call(name="Bash"),))

    with FakeAnthropic(script=script) as server:
        answer = json.loads(_post(server.port, _body("hi", stream=False), run="x")[2])
    assert answer["content"][0]["text"] == "from python, x"
    assert answer["stop_reason"] == "tool_use"


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd", "deflate"])
def test_the_record_holds_the_bytes_that_were_sent(encoding: str) -> None:
    """Ours: byte comparison needs the body as it came, compressed or not."""
    plain = json.dumps(_body("hi")).encode()
    sent = {
        "": lambda: plain,
        "gzip": lambda: gzip.compress(plain),
        "zstd": lambda: zstandard.compress(plain),
        "deflate": lambda: zlib.compress(plain),
    }[encoding]()
    headers = {"X-Odd-Case": "1", **({"content-encoding": encoding} if encoding else {})}
    with FakeAnthropic() as server, Tap(server.port) as tap:
        assert _post(tap.port, sent, headers=headers)[0] == 200
        (record,) = server.of("r")
        assert record.request.body == sent
        assert record.request.plain_body == plain
        assert b"\r\nX-Odd-Case: 1\r\n" in record.request.head
        (seen,) = tap.requests
        assert (seen.head, seen.body) == (record.request.head, record.request.body)


def test_a_chunked_body_is_joined() -> None:
    """HTTP/1.1, chunked transfer coding."""
    connection = http.client.HTTPConnection
    with FakeAnthropic() as server:
        client = connection("127.0.0.1", server.port, timeout=10)
        data = json.dumps(_body("hi")).encode()
        parts = iter([data[:10], data[10:]])
        client.request("POST", "/r/r/v1/messages", parts, encode_chunked=True)
        assert client.getresponse().read()
        client.close()
        assert server.of("r")[0].request.body == data


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_fault_by_request_number_hits_that_request_only(name: str) -> None:
    """newest-models facts, 5.9: fault injection by request number."""
    with FakeAnthropic() as server:
        server.faults["r", 2] = name
        answers = [_post(server.port, _body("hi")) for _ in range(3)]
    assert [a[0] for a in answers] == [200, NAMED[name].status, 200]
    refused = json.loads(answers[1][2])
    assert refused["type"] == "error"
    assert refused["error"]["message"] == NAMED[name].message
    for key, value in NAMED[name].headers:
        assert answers[1][1][key] == value


@pytest.mark.parametrize("fault", ["cut-stream", "cut-in-event", "no-answer"])
def test_a_cut_connection_is_an_error_for_the_client(fault: str) -> None:
    """newest-models facts, 5.9: cut streams."""
    with FakeAnthropic() as server:
        server.faults["r", 1] = fault
        with pytest.raises((http.client.HTTPException, OSError)):
            _post(server.port, _body("hi"))
        assert _post(server.port, _body("hi"))[0] == 200


def test_a_compressed_stream_decodes_to_the_plain_one() -> None:
    """Ours: the service may compress what it streams."""
    with FakeAnthropic(encoding="gzip") as server:
        _, headers, data = _post(server.port, _body("hi"), headers={"accept-encoding": "gzip"})
        assert headers["content-encoding"] == "gzip"
        assert _events(gzip.decompress(data))[-1]["type"] == "message_stop"
        assert "content-encoding" not in _post(server.port, _body("hi"))[1]


def test_other_paths_answer_as_the_service_does() -> None:
    """Messages API: token counting, models; an unknown path is 404."""
    with FakeAnthropic() as server:
        counted = json.loads(_post(server.port, _body("hi"), tail="/count_tokens")[2])
        assert counted["input_tokens"] > 0
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        client.request("GET", "/v1/models")
        assert json.loads(client.getresponse().read())["data"]
        client.request("GET", "/v1/nothing")
        answer = client.getresponse()
        assert answer.status == 404 and answer.read()
        client.close()
        assert _post(server.port, b"{not json")[0] == 400


def test_strict_rules_refuse_and_sign_over_the_wire() -> None:
    """newest-models facts, 5: an answer sent back is valid, an edited history is not."""
    rules = StrictRules()
    with FakeAnthropic(rules=rules) as server:
        body = _body(play("go", {"think": "hm", "say": "one"}), stream=False)
        body["thinking"] = {"type": "adaptive"}
        answer = json.loads(_post(server.port, body)[2])
        body["messages"] += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": "two"},
        ]
        assert _post(server.port, body)[0] == 200
        body["messages"][0]["content"] = "edited"
        assert _post(server.port, body)[0] == 400
        assert [run for run, _ in rules.refusals] == ["r"]


def test_the_process_form_writes_heads_and_bodies_without_keys(tmp_path: Path) -> None:
    """Ours: usable from a shell; the facts file leaves credentials out."""
    command = [sys.executable, "-m", "tests.fakes", "--log", str(tmp_path), "--strict", "new"]
    child = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        assert _post(port, _body("hi"), headers={"x-api-key": "k-123"})[0] == 200
    finally:
        child.terminate()
        assert child.wait(10) == 0
        assert child.stdout is not None
        child.stdout.close()
    stem = tmp_path / "r" / "00001-messages"
    assert json.loads(stem.with_suffix(".body").read_bytes()) == _body("hi")
    facts = stem.with_suffix(".json").read_text()
    assert "k-123" not in facts and json.loads(facts)["status"] == 200
