"""What goes in comes out: requests and responses cross the proxy as they are."""

from __future__ import annotations

import gzip
import socket
import threading

import brotli
import pytest
import zstandard

from tests.fakes.running_proxy import Connection, ask, request_bytes, wait_until
from tests.fakes.wire import Gone, Reply, Request

MESSAGES = "/a/claude-code/v1/messages"

ODD_BODY = (
    b'{ "model":"claude-opus-5-5" ,"messages":[{"role":"user","content":[{"type":"text",'
    b'"text":"caf\\u00e9 caf\xc3\xa9 a\\/b \\ud83d"}]},{"role":"assistant","content":[{"type":'
    b'"thinking","thinking":"","signature":"Zm9v=="}]}],"n":1e400, "big":12345678901234567890 }\n'
)


def names(headers):
    return [(name.lower(), value) for name, value in headers]


def test_request_body_path_query_and_headers_arrive_as_sent(start, upstream):
    """Users' report 38: re-serialising a body invalidates signed thinking."""
    proxy = start()
    sent = [
        ("anthropic-beta", "one-2026-01-01,two-2026-02-02"),
        ("x-api-key", "sk-fake"),
        ("X-Unheard-Of", "a"),
        ("X-Unheard-Of", "b"),
        ("anthropic-beta", "three-2099-12-31"),
        ("User-Agent", "claude-cli/2.1.332 (external, sdk-cli)"),
        ("Accept-Encoding", "gzip, deflate, br, zstd"),
        ("Cookie", "a=1; b=2"),
        ("X-Name", "caf\u00c3\u00a9"),
    ]
    target = "?beta=true&q=a%20b+c&&empty=&x=%2F"
    answer = ask(proxy.port, "POST", MESSAGES + target, headers=sent, body=ODD_BODY)
    assert answer.status == 200
    (request,) = upstream.requests
    assert request.body == ODD_BODY
    assert request.target == "/v1/messages" + target
    arrived = names(request.headers)
    assert [pair for pair in arrived if pair[0] not in ("host", "content-length")] == names(sent)
    assert request.header("content-length") == str(len(ODD_BODY))
    assert request.header("host") == upstream.url.removeprefix("http://")


def test_path_is_joined_without_being_tidied(start, upstream):
    """Ours: dots, doubled slashes and escapes are the API's business."""
    proxy = start(routes={"claude-code": upstream.url + "/gateway/v9/"})
    for path in ("//x/../y/./%2e%2E%2F", "/v1/models/a%20b", "/"):
        ask(proxy.port, "GET", "/a/claude-code" + path)
        assert upstream.requests[-1].target == "/gateway/v9" + path


def test_hop_by_hop_headers_stay_on_their_connection(start, upstream):
    """RFC 9110, section 7.6.1."""

    def handle(_: Request, reply: Reply) -> None:
        headers = [
            ("Connection", "keep-alive, X-Hop"),
            ("Keep-Alive", "timeout=5"),
            ("X-Hop", "1"),
            ("X-Stays", "1"),
            ("Proxy-Authenticate", "Basic"),
        ]
        reply.whole(200, headers, b"x")

    upstream.handler = handle
    proxy = start()
    sent = [
        ("Connection", "keep-alive, X-Mine"),
        ("X-Mine", "1"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "Basic eDp5"),
        ("Keep-Alive", "timeout=5"),
        ("X-Kept", "1"),
    ]
    answer = ask(proxy.port, "POST", MESSAGES, headers=sent, body=b"{}")
    arrived = dict(names(upstream.requests[0].headers))
    assert not arrived.keys() & {"connection", "x-mine", "te", "proxy-authorization", "keep-alive"}
    assert arrived["x-kept"] == "1"
    came = dict(names(answer.headers))
    assert not came.keys() & {"x-hop", "keep-alive", "proxy-authenticate"}
    assert came["x-stays"] == "1"


def test_headers_that_tell_the_proxy_something_stay_here(start, upstream):
    """Ours: what a plug-in of ours says to the proxy is not the provider's business."""
    proxy = start()
    sent = [("X-OpenMem-Agent", "title"), ("X-Open", "1")]
    ask(proxy.port, "POST", MESSAGES, headers=sent, body=b"{}")
    arrived = dict(names(upstream.requests[0].headers))
    assert "x-openmem-agent" not in arrived and arrived["x-open"] == "1"


def test_response_headers_keep_order_repeats_and_nothing_is_added(start, upstream):
    """Issue 2, part 5: response bytes unchanged."""
    headers = [
        ("content-type", "application/json"),
        ("request-id", "req_1"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("anthropic-ratelimit-requests-remaining", "7"),
        ("anthropic-thinking-prefix-mismatch", "block=messages.1.content.0;kind=text"),
    ]
    upstream.handler = lambda _, reply: reply.whole(200, headers, b"{}")
    answer = ask(start().port, "POST", MESSAGES, body=b"{}")
    assert list(answer.headers) == [*headers, ("content-length", "2")]


@pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 503, 529])
def test_errors_of_the_api_come_through_as_they_are(start, upstream, status):
    """Newest models, section 1.4: do not hide the 400; forward error bodies unmodified."""
    body = b'{"type":"error","error":{"type":"x","message":"messages.1.content.0: Invalid"}}\n'
    headers = [("content-type", "application/json"), ("retry-after", "17")]
    upstream.handler = lambda _, reply: reply.whole(status, headers, body)
    answer = ask(start().port, "POST", MESSAGES, body=b"{}")
    assert (answer.status, answer.body) == (status, body)
    assert answer.header("retry-after") == "17"
    assert answer.header("x-openmem-proxy") == ""


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
        ("identity", bytes),
    ],
)
def test_compressed_bodies_cross_compressed_in_both_directions(start, upstream, encoding, pack):
    """Users' report 43, and the design: content-encoding is left as it is."""
    packed = pack(ODD_BODY)
    headers = [("content-type", "application/json"), ("content-encoding", encoding)]
    upstream.handler = lambda _, reply: reply.whole(200, headers, packed)
    sent = [("Content-Encoding", encoding)]
    answer = ask(start().port, "POST", MESSAGES, headers=sent, body=packed)
    assert upstream.requests[0].body == packed
    assert upstream.requests[0].header("content-encoding") == encoding
    assert answer.body == packed
    assert answer.header("content-encoding") == encoding


def test_a_stream_passes_piece_by_piece_as_it_comes(start, upstream):
    """Users' report 44: `event:` lines dropped, streams buffered.

    The upstream sends the next piece only after the client has seen the one before it.
    """
    pieces = [
        b'event: message_start\ndata: {"type":',
        b'"message_start"}\n\n',
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b': comment\n\nevent: content_block_delta\r\ndata: {"text":"caf\xc3',
        b'\xa9"}\r\n\r\n',
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n',
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ]
    seen = threading.Semaphore(0)

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream; charset=utf-8")])
        for piece in pieces:
            reply.chunk(piece)
            if not seen.acquire(timeout=10):
                return  # the client never saw it; its read will fail the test
        reply.end()

    upstream.handler = handle
    with Connection(start().port) as client:
        client.send(request_bytes("POST", MESSAGES, port=1, host="localhost", body=b"{}"))
        status, _, _ = client.head()
        assert status == 200
        for piece in pieces:
            got = b""
            while len(got) < len(piece):
                got += client.chunk()
            assert got == piece
            seen.release()
        assert client.chunk() == b""


def test_a_cut_response_is_cut_for_the_client_too(start, upstream):
    """Users' report 44: an early close must not look like a proper end."""

    def handle(request: Request, reply: Reply) -> None:
        if "sized" in request.target:
            reply._write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        else:
            reply.start(200, [("content-type", "text/event-stream")])
            reply.chunk(b"data: 1\n\n")
        reply.closes = True
        raise Gone

    upstream.handler = handle
    port = start().port
    for target in ("", "?sized"):
        answer = ask(port, "POST", MESSAGES + target, body=b"{}")
        assert answer.status == 200
        assert not answer.is_whole
    upstream.handler = None
    assert ask(port, "POST", MESSAGES, body=b"{}").is_whole


def test_a_client_that_leaves_ends_the_upstream_request(start, upstream):
    """The brief of this part: cancel upstream when the client leaves; it costs tokens."""
    ended = threading.Event()

    def handle(_: Request, reply: Reply) -> None:
        reply.start(200, [("content-type", "text/event-stream")])
        try:
            for _ in range(2000):
                reply.chunk(b"event: ping\ndata: {}\n\n")
                threading.Event().wait(0.005)
        except Gone:
            ended.set()
            raise

    upstream.handler = handle
    proxy = start()
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", MESSAGES, port=proxy.port, body=b"{}"))
        client.head()
        client.chunk()
    assert ended.wait(8)
    wait_until(lambda: proxy.status()["active"] == 0)


def test_a_client_that_leaves_before_the_answer_ends_the_upstream_request(start, upstream):
    """The same, while the model still thinks."""
    arrived, ended = threading.Event(), threading.Event()

    def handle(_: Request, reply: Reply) -> None:
        arrived.set()
        try:
            if not reply.connection.recv(1):
                ended.set()
        except OSError:
            ended.set()
        reply.closes = True
        raise Gone

    upstream.handler = handle
    proxy = start()
    with Connection(proxy.port) as client:
        client.send(request_bytes("POST", MESSAGES, port=proxy.port, body=b"{}"))
        assert arrived.wait(8)
    assert ended.wait(8)
    wait_until(lambda: proxy.status()["active"] == 0)


def test_expect_continue_is_answered_and_the_body_follows(start, upstream):
    """RFC 9110, section 10.1.1."""
    proxy = start()
    with Connection(proxy.port) as client:
        head = [("Expect", "100-continue"), ("Content-Length", "4")]
        client.send(request_bytes("POST", MESSAGES, port=proxy.port, headers=head))
        assert client.head()[0] == 100
        client.send(b"{  }")
        assert client.answer().status == 200
    assert upstream.requests[0].body == b"{  }"
    assert upstream.requests[0].header("expect") == ""


@pytest.mark.parametrize("is_recording", [False, True])
def test_a_chunked_upload_arrives_whole(start, upstream, is_recording):
    """The brief of this part: chunked uploads; trailers are ignored."""
    proxy = start(is_recording=is_recording)
    body = b"5\r\nhello\r\n1\r\n,\r\n6\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\n"
    head = [("Transfer-Encoding", "chunked")]
    for target in (MESSAGES, "/a/claude-code/v1/files"):
        assert ask(proxy.port, "POST", target, headers=head, body=body).status == 200
        assert upstream.requests[-1].body == b"hello, world"


def test_head_get_and_other_paths_pass(start, upstream):
    """Issue 2, part 5: every other path passed through."""
    proxy = start()
    upstream.handler = lambda _, reply: reply.whole(200, [("x-a", "1")], b"12345")
    head = ask(proxy.port, "HEAD", "/a/claude-code/")
    assert (head.status, head.header("content-length"), head.body) == (200, "5", b"")
    got = ask(proxy.port, "GET", "/a/claude-code/v1/models?limit=1000")
    assert got.body == b"12345"
    counted = ask(proxy.port, "POST", "/a/claude-code/v1/messages/count_tokens", body=b"{}")
    assert counted.body == b"12345"
    assert [r.method for r in upstream.requests] == ["HEAD", "GET", "POST"]
    assert upstream.requests[1].header("content-length") == ""


def test_a_redirect_is_the_clients_to_follow(start, upstream):
    """Ours: the proxy fetches nothing that the client did not ask for."""
    headers = [("location", "http://127.0.0.1:1/elsewhere"), ("set-cookie", "s=1")]
    upstream.handler = lambda _, reply: reply.whole(307, headers, b"")
    proxy = start()
    assert ask(proxy.port, "GET", "/a/claude-code/x").status == 307
    assert ask(proxy.port, "GET", "/a/claude-code/x").header("location").endswith("/elsewhere")
    assert len(upstream.requests) == 2
    assert upstream.requests[1].header("cookie") == "", "a cookie of one client went with another"


def test_the_proxy_adds_no_login_from_netrc(start, upstream, home):
    """Ours: logins pass untouched, and none is made up."""
    (home / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (home / ".netrc").chmod(0o600)
    ask(start().port, "GET", "/a/claude-code/x")
    assert upstream.requests[0].header("authorization") == ""


def test_a_large_body_crosses_whole_on_both_kinds_of_path(start, upstream):
    """Ours: bodies beyond one buffer, streamed and gathered."""
    body = bytes(range(256)) * 20_000
    upstream.handler = lambda r, reply: reply.whole(200, [], r.body)
    proxy = start(is_recording=True)
    for target in (MESSAGES, "/a/claude-code/v1/files"):
        answer = ask(proxy.port, "POST", target, body=body)
        assert answer.body == body


def test_an_early_refusal_of_the_api_reaches_the_client(start):
    """Newest models, section 1.4: never hide the API's error, not even one before the body."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            body = b'{"type":"error","error":{"type":"request_too_large"}}'
            connection.sendall(
                b"HTTP/1.1 413 Too Large\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
            )
            connection.settimeout(10)
            try:
                while connection.recv(1 << 16):
                    pass
            except OSError:
                pass

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    with listener:
        port = listener.getsockname()[1]
        proxy = start(routes={"claude-code": f"http://127.0.0.1:{port}"})
        answer = ask(proxy.port, "POST", MESSAGES, body=b"x" * 1_000_000)
        assert answer.status == 413
        assert b"request_too_large" in answer.body
        server.join(10)
