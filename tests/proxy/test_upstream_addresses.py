"""Which proxy and which certificates a request goes out with."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from openmem.base.errors import InvalidConfig
from openmem.base.paths import Paths
from openmem.context.proxy.upstream import is_loopback, parse_upstream, proxy_for
from tests.fakes.running_proxy import ask
from tests.fakes.wire import Gone, HttpServer, Listener, Stream, read_body, read_head

DATA = Path(__file__).parent / "data"
MESSAGES = "/a/claude-code/v1/messages"


@pytest.mark.parametrize(
    ("text", "origin", "base"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com", ""),
        ("https://Gate.Example:443/llm/v2/", "https://gate.example", "/llm/v2"),
        ("http://[::1]:8080", "http://[::1]:8080", ""),
        (" http://10.0.0.5:80 ", "http://10.0.0.5", ""),
    ],
)
def test_addresses_are_read(text, origin, base):
    """Ours."""
    found = parse_upstream(text)
    assert (found.origin, found.base) == (origin, base)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.anthropic.com",
        "ftp://x",
        "http://",
        "http://x:99999",
        "https://x/?a=1",
        "http://x/#a",
    ],
)
def test_what_is_no_address_is_refused(text):
    """Ours: a route that cannot work is said, not tried."""
    with pytest.raises(InvalidConfig):
        parse_upstream(text)


def test_a_login_in_an_address_is_refused_and_not_shown():
    """Design, section 7: logins pass untouched; house style: no secret in a message."""
    with pytest.raises(InvalidConfig) as caught:
        parse_upstream("https://me:hunter2@gate.example")
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("a.localhost", True), ("127.9.9.9", True), ("::1", True),
     ("0.0.0.0", True), ("localhost.evil.example", False), ("10.0.0.1", False)],
)  # fmt: skip
def test_loopback_is_told_by_name_and_address(host, expected):
    """The brief of this part: loopback upstreams never via a proxy."""
    assert is_loopback(host) is expected


CORPORATE = {"HTTPS_PROXY": "http://proxy.corp:3128", "http_proxy": "proxy.corp:3129"}


@pytest.mark.parametrize(
    ("upstream", "more", "expected"),
    [
        ("https://api.anthropic.com", {}, "http://proxy.corp:3128"),
        ("http://gate.corp", {}, "http://proxy.corp:3129"),
        ("http://127.0.0.1:4000", {}, ""),
        ("http://localhost:4000", {"NO_PROXY": ""}, ""),
        ("https://api.anthropic.com", {"https_proxy": "http://lower:1"}, "http://lower:1"),
        ("https://gate.corp", {"NO_PROXY": "a.b, .corp"}, ""),
        ("https://gate.corp", {"NO_PROXY": "gate.corp:443"}, ""),
        ("https://gate.corp", {"NO_PROXY": "gate.corp:80"}, "http://proxy.corp:3128"),
        ("https://agate.corp", {"NO_PROXY": "gate.corp"}, "http://proxy.corp:3128"),
        ("https://x.gate.corp", {"no_proxy": "*.gate.corp"}, ""),
        ("https://10.1.2.3", {"NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3", {"NO_PROXY": "10.0.0.0/8 example"}, "http://proxy.corp:3128"),
        ("https://[fd00::5]", {"NO_PROXY": "[fd00::5]"}, ""),
        ("https://anything.example", {"NO_PROXY": "*"}, ""),
    ],
)
def test_proxy_variables_are_read_as_elsewhere(upstream, more, expected):
    """Users' report 45: corporate proxy variables ignored."""
    assert proxy_for(parse_upstream(upstream), {**CORPORATE, **more}) == expected


def test_a_proxy_of_another_kind_is_said():
    """Ours."""
    with pytest.raises(InvalidConfig):
        proxy_for(parse_upstream("https://x.example"), {"ALL_PROXY": "socks5://p:1"})


class TlsServer(Listener):
    """Answers `ok` over TLS; `heads`: what arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[bytes] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(DATA / "server.pem")

    def serve(self, connection: socket.socket) -> None:
        try:
            secure = self._context.wrap_socket(connection, server_side=True)
        except OSError as error:
            raise Gone from error
        with secure:
            stream = Stream(secure)
            _, _, headers, head = read_head(stream)
            read_body(stream, headers)
            self.heads.append(head)
            secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


class ConnectProxy(Listener):
    """A corporate proxy: tunnels every CONNECT to one port; `targets`: what was asked for."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._to = port
        self.heads: list[bytes] = []

    def serve(self, connection: socket.socket) -> None:
        self.heads.append(Stream(connection).until(b"\r\n\r\n"))
        with socket.create_connection(("127.0.0.1", self._to)) as upstream:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(upstream, connection), daemon=True)
            back.start()
            _pump(connection, upstream)
            back.join(5)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def paths_with(home, **environ):
    return Paths({"HOME": str(home), **environ})


def test_a_private_authority_is_trusted_when_it_is_named(start, home):
    """Users' report 45: a private CA file."""
    for variable in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"):
        with TlsServer() as server:
            proxy = start(
                routes={"claude-code": f"https://127.0.0.1:{server.port}"},
                paths=paths_with(home, **{variable: str(DATA / "authority.pem")}),
            )
            assert ask(proxy.port, "POST", MESSAGES, body=b"{}").body == b"ok"
            assert b"POST /v1/messages HTTP/1.1" in server.heads[0]


def test_an_unknown_authority_is_refused_with_what_to_do(start, home):
    """The same, without it: never sent in the clear, never unverified."""
    with TlsServer() as server:
        proxy = start(
            routes={"claude-code": f"https://127.0.0.1:{server.port}"},
            paths=paths_with(home, NODE_EXTRA_CA_CERTS="/nowhere.pem"),
        )
        answer = ask(proxy.port, "POST", MESSAGES, body=b"{}")
        assert answer.status == 502
        assert b"NODE_EXTRA_CA_CERTS" in answer.body
        assert server.heads == []
    assert any("/nowhere.pem" in problem for problem in proxy.status()["problems"])


def test_https_goes_through_the_corporate_proxy(start, home):
    """Users' report 45: HTTPS_PROXY honoured; the tunnel shows the name only."""
    with TlsServer() as server, ConnectProxy(server.port) as corporate:
        proxy = start(
            routes={"claude-code": "https://api.test"},
            paths=paths_with(
                home,
                HTTPS_PROXY=f"http://me:secret@127.0.0.1:{corporate.port}",
                SSL_CERT_FILE=str(DATA / "authority.pem"),
            ),
        )
        sent = [("x-api-key", "sk-fake")]
        assert ask(proxy.port, "POST", MESSAGES, headers=sent, body=b"{}").body == b"ok"
        (tunnel,) = corporate.heads
        assert tunnel.startswith(b"CONNECT api.test:443 HTTP/1.1")
        assert b"Proxy-Authorization: Basic" in tunnel
        assert b"sk-fake" not in tunnel
        assert b"x-api-key: sk-fake" in server.heads[0]
        assert b"roxy-" not in server.heads[0]


def test_plain_http_goes_through_the_corporate_proxy_with_its_target_unchanged(start, home):
    """The same, for an upstream without TLS."""
    seen: list[str] = []

    def handle(request, reply) -> None:
        seen.append(request.target)
        reply.whole(200, [], b"ok")

    with HttpServer(handle) as corporate:
        proxy = start(
            routes={"claude-code": "http://gate.example/base"},
            paths=paths_with(home, HTTP_PROXY=corporate.url),
        )
        assert ask(proxy.port, "GET", "/a/claude-code/x//y?q=%20&r").body == b"ok"
    assert seen == ["http://gate.example/base/x//y?q=%20&r"]


def test_a_corporate_proxy_that_refuses_is_said(start, home):
    """Ours."""
    with HttpServer(lambda _, reply: reply.whole(407, [], b"")) as corporate:
        proxy = start(
            routes={"claude-code": "https://api.test"},
            paths=paths_with(home, HTTPS_PROXY=corporate.url),
        )
        answer = ask(proxy.port, "POST", MESSAGES, body=b"{}")
        assert answer.status == 502
        assert b"HTTPS_PROXY answered 407" in answer.body
