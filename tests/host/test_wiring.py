"""The real proxy application inside the host: settings, fall-backs, one request through it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from openmem.base.errors import OpenmemError
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths
from openmem.host import record, wiring
from openmem.host.control import call
from openmem.host.wiring import hosted
from tests.fakes.installation import Installation, installation, wait_for


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(
        {
            "HOME": str(tmp_path),
            "OPENMEM_STATE_DIR": str(tmp_path / "s"),
            "OPENMEM_CONFIG_DIR": str(tmp_path / "c"),
        }
    )
    ensure_private_dir(made.config_dir)
    return made


def made(paths: Paths, bare: str = "") -> dict[str, str]:
    return dict(hosted(paths, {}, is_recording=False, bare_upstream=bare).upstream)


def test_without_settings_the_agent_goes_to_its_own_default(paths: Paths) -> None:
    """Issue 2, part 5: upstream is the base URL in force before us, else the public API."""
    assert made(paths) == {"claude-code": "https://api.anthropic.com"}


def test_a_route_of_the_settings_replaces_the_default(paths: Paths) -> None:
    """Design section 7: each route prefix maps to the upstream the agent had before."""
    Path(paths.config_file).write_text(
        '[routes.claude-code]\nupstream = "https://gw.example/x"\n'
        '[routes.other]\nupstream = "http://127.0.0.1:1"\n'
    )
    found = made(paths, bare="http://127.0.0.1:2/b")
    assert found == {
        "claude-code": "https://gw.example/x",
        "other": "http://127.0.0.1:1",
        "": "http://127.0.0.1:2/b",
    }


def test_a_password_in_an_address_is_not_shown(paths: Paths) -> None:
    """Ours: status and record are read by people and scripts."""
    assert made(paths, bare="https://u:secret@gw.example/x")[""] == "https://gw.example/x"


def test_unusable_settings_fall_back_to_the_routes_of_before(paths: Paths) -> None:
    """Design section 7: any fault of ours passes the original request through."""
    Path(paths.config_file).write_text("[routes.claude-code\n")
    ensure_private_dir(paths.run_dir)
    before = record.Record(
        port=1,
        supervisor_pid=1,
        version="1",
        started_at="x",
        manager="detached",
        upstream={"claude-code": "https://gw.example", "": "http://127.0.0.1:9"},
    )
    record.write_record(paths, before)
    found = hosted(paths, {}, is_recording=False, bare_upstream="")
    assert found.upstream == {"claude-code": "https://gw.example"}
    problems = found.state()["problems"]
    assert isinstance(problems, list) and "does not parse" in problems[0]


def test_a_broken_installation_still_passes_requests_through(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen while another part was changed: a missing file of ours kept every worker down."""

    def missing(*_: object, **__: object) -> None:
        raise OpenmemError("this installation lacks a file.", code="broken-installation")

    monkeypatch.setattr(wiring, "settings_from", missing)
    Path(paths.config_file).write_text('[routes.claude-code]\nupstream = "https://gw.example"\n')
    found = hosted(paths, {}, is_recording=False, bare_upstream="")
    assert found.upstream == {"claude-code": "https://gw.example"}
    assert found.state()["problems"] == ["this installation lacks a file."]


class Upstream(BaseHTTPRequestHandler):
    """Answers with the path it was asked for."""

    def do_GET(self) -> None:
        body = self.path.encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_real_proxy_serves_under_the_supervisor(tmp_path: Path, upstream: str) -> None:
    """Brief: the worker runs the proxy's own application on the inherited socket."""
    with installation(tmp_path / "one", is_small=False) as copy:
        set_route(copy, f"{upstream}/base")
        assert copy.launch("--start") == 0
        assert copy.get("/a/claude-code/v1/models?x=1") == b"/base/v1/models?x=1"
        worker = copy.worker()
        state = call(copy.paths, {"op": "status"}, 5)["state"]
        assert isinstance(state, dict) and state["requests"] == 1
        # changed settings are taken over by the next start, without a refused connection
        set_route(copy, f"{upstream}/moved")
        started = copy.python(
            "from openmem.host import lifecycle\n"
            "import json; print(json.dumps(lifecycle.start(paths, environ, config).to_json()))"
        )
        found = json.loads(started.communicate(timeout=60)[0])
        assert found["upstream"] == {"claude-code": f"{upstream}/moved"}
        assert found["worker_pid"] != worker
        assert copy.get("/a/claude-code/y") == b"/moved/y"
        wait_for(lambda: copy.record.upstream["claude-code"].endswith("/moved"), "recorded")


def test_a_stranger_s_host_gets_no_ping(tmp_path: Path, upstream: str) -> None:
    """Issue 2, part 5: a foreign Host is refused; the ping is no way round it."""
    with installation(tmp_path / "one", is_small=False) as copy:
        set_route(copy, upstream)
        copy.launch("--start")
        assert b"installation" in copy.get("/.openmem/ping")
        connection = http.client.HTTPConnection("127.0.0.1", copy.port, timeout=20)
        connection.request("GET", "/.openmem/ping", headers={"Host": "evil.example"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        assert response.status >= 400 and b"installation" not in body


def set_route(copy: Installation, url: str) -> None:
    folder = Path(ensure_private_dir(copy.paths.config_dir))
    (folder / "config.toml").write_text(f'[routes.claude-code]\nupstream = "{url}"\n')
