"""Fixtures: an upstream that answers as told, and our proxy before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.context.proxy.settings import ProxySettings
from tests.fakes.running_proxy import RunningProxy
from tests.fakes.wire import HttpServer, Reply, Request

Handler = Callable[[Request, Reply], None]


@dataclass(slots=True)
class Upstream:
    """An upstream on loopback. `handler` may be exchanged; `requests`: what arrived."""

    url: str = ""
    handler: Handler | None = None
    requests: list[Request] = field(default_factory=list)

    def handle(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        if self.handler is not None:
            self.handler(request, reply)
            return
        reply.whole(200, [("content-type", "application/json")], b'{"ok":true}')


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    found = Upstream()
    with HttpServer(found.handle) as server:
        found.url = server.url
        yield found
        assert server.faults == []


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths(dict(os.environ))


@pytest.fixture
def start(paths: Paths, upstream: Upstream) -> Iterator[Callable[..., RunningProxy]]:
    """Start a proxy before the upstream; keywords change its settings."""
    with ExitStack() as stack:

        def run(**changes: object) -> RunningProxy:
            values: dict[str, object] = {
                "paths": paths,
                "routes": {"claude-code": upstream.url},
                "is_recording": False,
                **changes,
            }
            return stack.enter_context(RunningProxy(ProxySettings(**values)))  # type: ignore[arg-type]

        yield run
