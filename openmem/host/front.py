"""The ASGI application that stands before the proxy: it counts, answers one ping, says goodbye.

Idea: whether the worker may leave is a question about requests in flight, so they are counted at
the door. Invariant: request and response bytes pass as they are; while the worker is leaving,
`connection: close` is added, which HTTP keeps for exactly this hop. Trap: the ping must tell
strangers nothing of use; it names the program, its version and a digest of the state folder, by
which a second installation recognises that the port is another openmem's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from openmem import __version__
from openmem.host.neighbour import PING_PATH

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """An application to serve. `upstream`: agent → base URL without credentials.

    `state`: what the status shows of it, as plain JSON values; `problems` lists sentences.
    """

    application: Application
    upstream: Mapping[str, str]
    state: Callable[[], Mapping[str, object]] = dict


class Front:
    """Counts requests round `application`. `last_at`: monotonic time of the last start or end."""

    def __init__(self, application: Application, mark: str) -> None:
        self.application = application
        self.active = 0
        self.served = 0
        self.last_at = time.monotonic()
        self.is_leaving = False
        self._ping = json.dumps({"openmem": __version__, "installation": mark}).encode()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        if scope["path"] == PING_PATH and _is_local(scope):
            await self._answer_ping(send)
            return
        self.active += 1
        self.touch()
        try:
            await self.application(scope, receive, self._farewell(send))
        finally:
            self.active -= 1
            self.served += 1
            self.touch()

    def touch(self) -> None:
        """Count from now how long nothing has happened."""
        self.last_at = time.monotonic()
        self._changed.set()

    def _farewell(self, send: Send) -> Send:
        async def passing(message: Message) -> None:
            if self.is_leaving and message["type"] == "http.response.start":
                headers = [h for h in message.get("headers", ()) if h[0].lower() != b"connection"]
                message = {**message, "headers": [*headers, (b"connection", b"close")]}
            await send(message)

        return passing

    async def _answer_ping(self, send: Send) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._ping)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._ping})

    async def quiet(self, seconds: float, settle_seconds: float = 0.25) -> bool:
        """Wait until no request has been in flight for `settle_seconds`; False after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            calm_at = self.last_at + settle_seconds
            if not self.active and now >= calm_at:
                return True
            if now >= deadline:
                return False
            self._changed.clear()
            wait = deadline - now if self.active else min(deadline, calm_at) - now
            try:
                await asyncio.wait_for(self._changed.wait(), max(wait, 0.001))
            except TimeoutError:
                pass  # the loop looks again


def _is_local(scope: Scope) -> bool:
    """Return whether the request names this machine, so that no web page can ask by a name."""
    for name, value in scope["headers"]:
        if name == b"host":
            return str(value.decode("latin-1")).rsplit(":", 1)[0].lower() in _LOCAL_NAMES
    return False
