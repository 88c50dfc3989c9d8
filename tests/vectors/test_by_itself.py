"""The whole way: recorded by a proxy, given vectors in a quiet moment, found by meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.base.paths import Paths
from openmem.base.vectors.settings import VectorSettings
from openmem.context.proxy.settings import ProxySettings
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from tests.fakes.embedding_server import Embedder
from tests.fakes.proxied import body_of, environment, send, streams, texts, user, write_policy
from tests.fakes.running_proxy import RunningProxy, wait_until
from tests.fakes.wire import HttpServer


@pytest.mark.heavy
def test_a_recorded_session_can_be_found_by_meaning_after_a_quiet_moment(
    paths: Paths, settings: VectorSettings, embedder: Embedder, tmp_path: Path
) -> None:
    """Issue 3, part 8: in the background, off the request's path."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_policy(paths, allowed=str(folder))
    with HttpServer(streams("It stands in the garage.")) as upstream:
        wanted = ProxySettings(paths=paths, routes={"claude-code": upstream.url}, vectors=settings)
        with RunningProxy(wanted) as proxy:
            first = user(environment(str(folder)), "where is the automobile?")
            assert send(proxy.port, body_of(first)).is_whole
            wait_until(lambda: "It stands in the garage." in texts(paths))
            assert embedder.calls == [], "nothing is asked while there is work"
            wait_until(lambda: embedder.calls != [], seconds=90)
            wait_until(lambda: Path(paths.sessions_dir, "s1.vectors.f32").exists())
            page = search(
                paths, Query(text="truck", is_hybrid=True), Scope(all_workspaces=True), settings
            )
    assert page.hits and page.hits[0].excerpt == "where is the automobile?"
    assert not any("Primary working directory" in text for call in embedder.calls for text in call)
