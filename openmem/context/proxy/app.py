"""The proxy as an ASGI application: who may call, where a request goes, what is recorded.

Idea: `make_app(settings)` gives an application that any ASGI server can run; its lifespan starts
and ends the HTTP client and the recorder process.
Invariant: a request for `/v1/messages`, `…/responses` or `…/chat/completions` is recorded,
everything else passes; nothing is refused but callers from elsewhere, unknown routes and upgrades.
Trap: the server must add nothing to responses; run it with `server_options()`.
"""

from __future__ import annotations

import time
from typing import Any

from openmem.base.errors import InvalidConfig
from openmem.context.formats.registry import wire_of
from openmem.context.proxy import guard, refusal
from openmem.context.proxy.client import Client
from openmem.context.proxy.counters import Counters
from openmem.context.proxy.exchange import Exchange, Receive, Route, Scope, Send, refuse
from openmem.context.proxy.recording.families import Families
from openmem.context.proxy.recording.job import EXPECTED, NOT_JSON, RECORDED, UNTRIMMABLE
from openmem.context.proxy.recording.link import RecorderLink
from openmem.context.proxy.refusal import Refusal
from openmem.context.proxy.settings import ProxySettings
from openmem.context.proxy.upstream import Upstream, is_ourselves, is_target, parse_upstream

_PREFIX = b"/a/"
_NOT_OURS = frozenset({"too-large", "undecodable", "unfinished", NOT_JSON, UNTRIMMABLE})


def server_options() -> dict[str, Any]:
    """Return the options of the HTTP server that the proxy's promises rest on.

    No `server` and `date` headers of its own; idle connections kept longer than clients keep
    theirs; headers as long as agents send them; WebSocket upgrades left to us to refuse.
    """
    return {
        "http": "h11",
        "loop": "asyncio",
        "ws": "none",
        "lifespan": "on",
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "access_log": False,
        "timeout_keep_alive": 120,
        "h11_max_incomplete_event_size": 256 * 1024,
    }


class ProxyApp:
    """The application. `draining`: pass everything through and record nothing."""

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self.draining = False
        self.active = 0
        self.last_request_at = 0.0
        self.counters = Counters()
        self._client = Client(settings.paths.environ)
        self._link = RecorderLink(settings, self._on_outcome) if settings.is_recording else None
        self._families = Families()
        self._routes: dict[str, Upstream | str] = {}
        self._bare: Upstream | str | None = None
        self.use_routes(settings.routes, settings.bare_upstream)

    def use_routes(self, routes: Any, bare_upstream: str = "") -> None:
        """Serve these routes from now on; requests under way keep theirs."""
        self._routes = {agent: _parsed(text) for agent, text in routes.items()}
        self._bare = _parsed(bare_upstream) if bare_upstream else None

    def status(self) -> dict[str, object]:
        """Return counters and state for `proxy status`; plain JSON values, never content."""
        link = self._link
        problems = list(self._client.problems)
        if link is not None and link.problem:
            problems.append(link.problem)
        problems += [
            f"route {agent or 'bare'}: {found}"
            for agent, found in [*self._routes.items(), ("", self._bare)]
            if isinstance(found, str)
        ]
        return {
            **self.counters.as_dict(),
            "active": self.active,
            "idle_seconds": round(time.monotonic() - self.last_request_at, 1)
            if self.last_request_at
            else None,
            "draining": self.draining,
            "recorder_running": link is not None and link.is_alive,
            "recorder_pid": link.pid if link is not None else 0,
            "recorder_restarts": link.restarts if link is not None else 0,
            "pending": link.pending if link is not None else 0,
            "problems": problems,
        }

    def _on_outcome(self, outcome: str) -> None:
        if outcome == RECORDED:
            self.counters.recorded += 1
            return
        self.counters.passed[outcome] += 1
        if outcome not in EXPECTED and outcome not in _NOT_OURS:
            self.counters.fault(outcome)

    # --- ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            self.counters.requests += 1
            self.active += 1
            self.last_request_at = time.monotonic()
            try:
                await self._http(scope, receive, send)
            finally:
                self.active -= 1
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                found = [*self._routes.values(), self._bare]
                needs_tls = any(isinstance(u, Upstream) and u.scheme == "https" for u in found)
                await self._client.start(needs_tls=needs_tls)
                if self._link is not None:
                    await self._link.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if self._link is not None:
                    await self._link.close()
                await self._client.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = guard.check(scope["headers"]) or self._route(scope)
        if isinstance(found, Refusal):
            self.counters.refused += 1
            await refuse(send, found, scope["path"])
            return
        wire = wire_of(found.path) if scope["method"] == "POST" else None
        is_recorded = wire is not None and self._link is not None and not self.draining
        if not is_recorded:
            reason = "draining" if self.draining else "other-path"
            self.counters.passed[reason] += 1
        exchange = Exchange(
            scope,
            receive,
            send,
            route=found,
            wire=wire,
            client=self._client,
            link=self._link if is_recorded else None,
            families=self._families,
            body_limit_bytes=self.settings.body_limit_bytes,
            commit_wait_seconds=self.settings.commit_wait_seconds,
            view_wait_seconds=self.settings.view_wait_seconds,
            passed=self._passed,
            fault=self.counters.fault,
        )
        await exchange.run()

    def _passed(self, reason: str) -> None:
        self.counters.passed[reason] += 1

    def _route(self, scope: Scope) -> Route | Refusal:
        if any(name == b"upgrade" for name, _ in scope["headers"]):
            return refusal.no_upgrade()
        raw_path: bytes = scope["raw_path"]
        if not is_target(raw_path, scope["query_string"]):
            return refusal.no_bare_path()
        agent, path = "", raw_path
        upstream = self._bare
        if raw_path.startswith(_PREFIX):
            name, slash, rest = raw_path[len(_PREFIX) :].partition(b"/")
            agent = name.decode("latin-1")
            path = slash + rest or b"/"
            if agent not in self._routes:
                return refusal.unknown_route(agent[:60], sorted(self._routes))
            upstream = self._routes[agent]
        if upstream is None:
            return refusal.no_bare_path()
        if isinstance(upstream, str):
            return Refusal(status=502, message=upstream)
        if is_ourselves(upstream, scope["server"][1] if scope.get("server") else None):
            return refusal.loop(upstream.origin)
        return Route(agent=agent, upstream=upstream, path=path)


def _parsed(text: str) -> Upstream | str:
    """Return an upstream, or what is wrong with it: one bad route must not stop the others."""
    try:
        return parse_upstream(text)
    except InvalidConfig as error:
        return error.message


def make_app(settings: ProxySettings) -> ProxyApp:
    """Return the proxy's application; nothing is opened before its lifespan starts."""
    return ProxyApp(settings)
