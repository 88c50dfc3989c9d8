"""Who may call the proxy, where a request goes, and what is said when it cannot go there."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from tests.fakes.running_proxy import Connection, ask, request_bytes
from tests.fakes.wire import Gone, Reply, Request

MESSAGES = "/a/claude-code/v1/messages"


def error_of(answer):
    value = json.loads(answer.body)
    assert value["type"] == "error"
    return value["error"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "[::2]"])
def test_a_foreign_host_is_refused(start, upstream, host):
    """Issue 2, part 5; a page can make its own name resolve to this machine."""
    answer = ask(start().port, "POST", MESSAGES, host=host, body=b"{}")
    assert answer.status == 403
    assert answer.header("content-type") == "application/json"
    assert answer.header("x-should-retry") == "false"
    assert error_of(answer)["type"] == "permission_error"
    assert upstream.requests == []


@pytest.mark.parametrize(
    "header",
    [
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1.evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
    ],
)
def test_a_web_page_is_refused(start, upstream, header):
    """Issue 2, part 5: refuses a foreign Host or Origin."""
    for method, body in (("POST", b"{}"), ("OPTIONS", None), ("GET", None)):
        answer = ask(start().port, method, MESSAGES, headers=[header], body=body)
        assert answer.status == 403
    assert upstream.requests == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8913", "127.0.0.1:1", "[::1]:8913"])
def test_programs_of_this_machine_are_served(start, upstream, host):
    """The same, the other way round; a forwarded port keeps its own number."""
    headers = [("Origin", "http://localhost:3000")]
    assert ask(start().port, "GET", "/a/claude-code/x", host=host, headers=headers).status == 200
    assert len(upstream.requests) == 1


def test_an_unknown_route_says_what_to_run(start, upstream):
    """The brief of this part: 404 that names `openmem install-coding-agent`."""
    proxy = start()
    for target in ("/a/cursor/v1/messages", "/a/", "/a//v1/messages", "/v1/messages", "/"):
        answer = ask(proxy.port, "POST", target, body=b"{}")
        assert answer.status == 404
        assert "openmem install-coding-agent" in error_of(answer)["message"]
    assert upstream.requests == []
    assert proxy.status()["refused"] == 5


def test_errors_speak_the_wire_format_of_their_path(start):
    """Design, section 7: agents show the message of an error in their provider's shape."""
    answer = ask(start().port, "POST", "/a/codex/v1/responses", body=b"{}")
    assert set(json.loads(answer.body)) == {"error"}
    assert "no route for 'codex'" in json.loads(answer.body)["error"]["message"]


def test_the_bare_path_needs_an_upstream_of_its_own(start, upstream):
    """Design, section 7: `proxy run --upstream` serves the bare path."""
    proxy = start(routes={}, bare_upstream=upstream.url + "/r/one")
    assert ask(proxy.port, "POST", "/v1/messages?beta=true", body=b"{}").status == 200
    assert upstream.requests[0].target == "/r/one/v1/messages?beta=true"
    assert ask(proxy.port, "POST", "/a/claude-code/v1/messages", body=b"{}").status == 404


def test_routes_can_be_changed_while_it_runs(start, upstream):
    """Ours: wiring another agent does not restart the proxy."""
    proxy = start(routes={})
    assert ask(proxy.port, "GET", "/a/codex/v1/models").status == 404
    proxy.app.use_routes({"codex": upstream.url})
    assert ask(proxy.port, "GET", "/a/codex/v1/models").status == 200


def test_an_upgrade_is_refused_so_that_clients_fall_back(start, upstream):
    """Users' report 43: Codex tries a WebSocket first."""
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
    ]
    answer = ask(start().port, "GET", "/a/claude-code/v1/responses", headers=headers)
    assert answer.status == 426
    assert "HTTP" in json.loads(answer.body)["error"]["message"]
    assert upstream.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1.2.3", "0.0.0.0"])
def test_an_upstream_that_is_the_proxy_itself_is_refused(start, host):
    """The brief of this part: a loop would multiply one request without end."""
    proxy = start(routes={})
    proxy.app.use_routes({"claude-code": f"http://{host}:{proxy.port}/a/claude-code"})
    answer = ask(proxy.port, "POST", MESSAGES, body=b"{}")
    assert answer.status == 508
    assert "itself" in error_of(answer)["message"]
    assert proxy.status()["requests"] == 1


def test_an_upstream_that_is_down_is_said_with_a_pace_to_retry(start):
    """Newest models, section 2.4: clients keep to `retry-after` and show our message."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    proxy = start(routes={"claude-code": f"http://127.0.0.1:{port}"})
    answer = ask(proxy.port, "POST", MESSAGES, body=b"{}")
    assert answer.status == 503
    assert int(answer.header("retry-after")) >= 1
    message = error_of(answer)["message"]
    assert f"http://127.0.0.1:{port} cannot be reached (connection refused)" in message
    assert "prompt is too long" not in message


def test_a_name_that_does_not_resolve_is_said(start):
    """The same."""
    proxy = start(routes={"claude-code": "http://no-such-host.invalid"})
    answer = ask(proxy.port, "POST", MESSAGES, body=b"{}")
    assert answer.status == 503
    assert "does not resolve" in error_of(answer)["message"]


def test_an_upstream_that_hangs_up_without_an_answer_is_502_and_asked_once(start, upstream):
    """Ours: a request may have been worked on, so it is not sent again."""

    def handle(_: Request, reply: Reply) -> None:
        reply.closes = True
        raise Gone

    upstream.handler = handle
    answer = ask(start().port, "POST", MESSAGES, body=b"{}")
    assert answer.status == 502
    assert answer.header("retry-after")
    assert len(upstream.requests) == 1


def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(start):
    """RFC 9110, section 9.2.2: nothing of the request was seen, so it goes out again."""
    listener = socket.create_server(("127.0.0.1", 0))
    bodies: list[bytes] = []
    closed = threading.Event()

    def serve() -> None:
        for number in range(2):
            connection, _ = listener.accept()
            with connection:
                data = b""
                while not data.endswith(b"{}"):
                    data += connection.recv(1 << 16)
                bodies.append(data)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                if number == 0:
                    # Leave without a word once the next request is on its way.
                    connection.recv(1)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            closed.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        proxy = start(routes={"claude-code": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        assert ask(proxy.port, "POST", MESSAGES, body=b"{}").body == b"ok"
        assert ask(proxy.port, "POST", MESSAGES, body=b"{}").body == b"ok"
    thread.join(10)
    assert len(bodies) == 2


def test_a_bad_route_stops_no_other(start, upstream):
    """Ours: status names the route; the rest works."""
    proxy = start(routes={"codex": "ftp://x", "claude-code": upstream.url})
    answer = ask(proxy.port, "POST", "/a/codex/v1/responses", body=b"{}")
    assert answer.status == 502
    assert ask(proxy.port, "POST", MESSAGES, body=b"{}").status == 200
    assert any("route codex" in problem for problem in proxy.status()["problems"])


def test_garbage_from_the_upstream_is_502(start):
    """Ours: what is no HTTP cannot be passed on."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        proxy = start(routes={"claude-code": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        assert ask(proxy.port, "POST", MESSAGES, body=b"{}").status == 502
    thread.join(10)


def test_a_connection_serves_many_requests(start, upstream):
    """Ours: keep-alive towards the client, also after a refusal with an unread body."""
    proxy = start()
    with Connection(proxy.port) as client:
        for target, status in ((MESSAGES, 200), ("/a/nope/x", 404), (MESSAGES, 200)):
            client.send(request_bytes("POST", target, port=proxy.port, body=b"{}"))
            assert client.answer().status == status
    assert len(upstream.requests) == 2
