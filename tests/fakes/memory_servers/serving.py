"""What the stand-ins share: serving on loopback, keys, complaints, and finding by words."""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_STOP = {"the", "a", "to", "how", "is", "of", "and", "does", "which", "what", "do", "in", "not"}


@dataclass(frozen=True)
class Asked:
    """One request. `path`: without its query; `query`: last value of each key."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Complaint(Exception):
    """The adapter sent what the real server was never seen to take."""


Answer = tuple[int, Any]


@dataclass
class Stand:
    """One stand-in. `key`: the one it takes, "" for none; `hold`: a status and body in place of
    every answer, or a function that may end the connection."""

    key: str = ""
    complaints: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    instead: Callable[[Asked], Answer | None] | None = None
    url: str = ""

    def answer(self, asked: Asked) -> Answer:
        raise NotImplementedError

    def require(self, is_so: bool, what: str) -> None:
        if not is_so:
            raise Complaint(what)

    def check_keys(self, table: Any, known: set[str], needed: set[str] = frozenset()) -> None:
        """Complain about fields that were never recorded, or are missing."""
        self.require(isinstance(table, dict), f"not an object: {table!r}")
        self.require(set(table) <= known, f"unknown: {sorted(set(table) - known)}")
        self.require(needed <= set(table), f"missing: {sorted(needed - set(table))}")

    def paths(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.asked]


def words(text: str) -> set[str]:
    """Return the words of a text, roughly stemmed."""
    found = re.findall(r"[a-z0-9]+", text.lower())
    return {re.sub(r"(ing|es|s|e)$", "", w) if len(w) > 3 else w for w in found} - _STOP


def likeness(question: str, text: str) -> float:
    """Return how much of two texts is shared, 0 to 1."""
    one, other = words(question), words(text)
    return len(one & other) / (len(one) * len(other)) ** 0.5 if one and other else 0.0


@contextmanager
def serving(stand: Stand, *, port: int = 0, certificate: str = "") -> Iterator[Stand]:
    """Serve a stand-in; complaints fail at the end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            asked = Asked(
                method=self.command,
                path=parts.path,
                query={k: v[-1] for k, v in parse_qs(parts.query, keep_blank_values=True).items()},
                headers={k.lower(): v for k, v in self.headers.items()},
                body=self.rfile.read(size),
            )
            stand.asked.append(asked)
            try:
                answer = stand.instead(asked) if stand.instead else None
                status, body = answer or stand.answer(asked)
            except Complaint as complaint:
                stand.complaints.append(f"{asked.method} {asked.path}: {complaint}")
                status, body = 599, {"detail": str(complaint)}
            except ConnectionAbortedError:
                self.close_connection = True
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that leaves early is no fault here."""

    server = Server(("127.0.0.1", port), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if certificate else "http"
    stand.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stand
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not stand.complaints, stand.complaints


def segments(path: str) -> list[str]:
    return [unquote(part) for part in path.strip("/").split("/")]
