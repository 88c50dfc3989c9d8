"""A TCP tap: forwards a connection untouched and keeps the requests that a client sent through it.

Put before our proxy it is the witness of what the agent said; the fake server is that of what
arrived. The copy is parsed beside the stream, so that a body we cannot parse is still forwarded.
"""

from __future__ import annotations

import socket
import threading

from tests.fakes.wire import Gone, Listener, Request, Stream, read_body, read_head


class Tap(Listener):
    """Forwards TCP to `upstream_port` untouched and keeps every request that the client sent."""

    def __init__(self, upstream_port: int, port: int = 0) -> None:
        super().__init__(port)
        self.upstream_port = upstream_port
        self.requests: list[Request] = []

    def serve(self, connection: socket.socket) -> None:
        try:
            upstream = socket.create_connection(("127.0.0.1", self.upstream_port), timeout=10)
        except OSError as fault:
            raise Gone from fault
        upstream.settimeout(None)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.track(upstream)
        back = threading.Thread(target=self._pump_back, args=(upstream, connection), daemon=True)
        back.start()
        mine, copy = socket.socketpair()
        parser = threading.Thread(target=self._parse, args=(copy,), daemon=True)
        parser.start()
        try:
            while data := connection.recv(1 << 16):
                mine.sendall(data)
                upstream.sendall(data)
        except OSError as fault:
            raise Gone from fault
        finally:
            mine.close()
            parser.join(5)
            for one in (upstream, connection):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # that side had closed already
            back.join(5)
            self.drop(upstream)

    def _pump_back(self, upstream: socket.socket, connection: socket.socket) -> None:
        try:
            while data := upstream.recv(1 << 16):
                connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the client went away; the other loop sees it too

    def _parse(self, copy: socket.socket) -> None:
        stream = Stream(copy)
        try:
            while True:
                method, target, headers, head = read_head(stream)
                body = read_body(stream, headers)
                self.requests.append(
                    Request(method=method, target=target, headers=headers, head=head, body=body)
                )
        except Gone:
            return
        finally:
            copy.close()
