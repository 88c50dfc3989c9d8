"""One call, one reply, one clear error; the same over both transports."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmem.base.errors import OpenmemError, Usage
from openmem.memory.providers.base import TimedOut
from openmem.memory.providers.http import PooledTransport
from openmem.memory.providers.plain_http import PlainTransport
from openmem.memory.providers.wire import (
    Address,
    KeyRefused,
    Link,
    ServerFailed,
    Transport,
    Unreachable,
    checked_url,
    server_name,
)
from tests.fakes.memory_servers.serving import Answer, Asked, Stand, serving

CERTIFICATES = Path(__file__).resolve().parents[1] / "proxy/data"
SECRET = "s3cret-words-nobody-may-see"
both = pytest.mark.parametrize("make", [PlainTransport, PooledTransport])


@dataclass
class Echo(Stand):
    """Answers what a test says."""

    status: int = 200
    body: object = None

    def answer(self, asked: Asked) -> Answer:
        return self.status, self.body if self.body is not None else {"path": asked.path}


def link(url: str, make: Callable[[], Transport], **more: object) -> Link:
    address = Address(provider="mem0", url=url, **{"seconds": 5.0, **more})  # type: ignore[arg-type]
    return Link(address, make(), headers_of=lambda: {"x-api-key": SECRET}, sleep=lambda _: None)


@both
def test_a_call_arrives_whole_and_its_answer_comes_back(make: Callable[[], Transport]) -> None:
    """Issue 6, part 3."""
    with serving(Echo()) as stand:
        one = link(stand.url, make)
        assert one.json("POST", "/a%2Fb?x=1", {"text": "ÿ→"}) == (200, {"path": "/a%2Fb"})
        one.close()
    asked = stand.asked[0]
    assert asked.json == {"text": "ÿ→"} and asked.query == {"x": "1"}
    assert asked.headers["x-api-key"] == SECRET


@both
@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, {"detail": f"no {SECRET}"}, KeyRefused, "refuses the key"),
        (400, {"detail": "LOGIN_BAD_CREDENTIALS"}, KeyRefused, "refuses the key"),
        (500, {"detail": f"Fact extraction failed: {SECRET}"}, ServerFailed, "model's answer"),
        (502, {"code": "provider_unavailable", "x": SECRET}, ServerFailed, "does not answer"),
        (422, {"detail": SECRET}, ServerFailed, "422"),
        (302, {"location": SECRET}, ServerFailed, "not followed"),
        (200, b"<html>hello</html>", ServerFailed, "does not speak like mem0"),
    ],
)
def test_each_fault_is_one_clear_error_without_content(
    make: Callable[[], Transport],
    status: int,
    body: object,
    kind: type[OpenmemError],
    words: str,
) -> None:
    """Issue 6, bad input; facts of providers, section 6, item 4."""
    with serving(Echo(status=status, body=body)) as stand:
        with pytest.raises(kind) as raised:
            link(stand.url, make).json("POST", "/x", {"text": SECRET})
        assert words in raised.value.message and SECRET not in str(raised.value)
        assert SECRET not in raised.value.hint
        assert len(stand.asked) == 1, "what was answered is not asked again"


@both
def test_a_closed_port_is_tried_three_times_and_named(make: Callable[[], Transport]) -> None:
    """Issue 6, part 3: retries on connect only."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    pauses: list[float] = []
    address = Address(provider="mem0", url=f"http://127.0.0.1:{port}", seconds=5.0)
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        Link(address, make(), headers_of=dict, sleep=pauses.append).json("GET", "/x")
    assert pauses == [0.1, 0.3]


@both
def test_a_call_that_was_heard_is_not_sent_again(make: Callable[[], Transport]) -> None:
    """Issue 6, part 3: or a memory would be added twice."""

    def gone(asked: Asked) -> Answer:
        raise ConnectionAbortedError

    with serving(Echo(instead=gone)) as stand:
        with pytest.raises(Unreachable, match="broke off"):
            link(stand.url, make).json("POST", "/x", {})
        assert len(stand.asked) == 1


@both
def test_a_server_that_is_silent_is_left_in_time(make: Callable[[], Transport]) -> None:
    """Issue 6, part 3: timeouts."""
    may_go = threading.Event()

    def late(asked: Asked) -> Answer:
        may_go.wait(20)
        return 200, {}

    with serving(Echo(instead=late)) as stand:
        with pytest.raises(TimedOut):
            link(stand.url, make).json("GET", "/x", seconds=0.2)
        may_go.set()
        assert len(stand.asked) == 1


@both
def test_an_own_authority_is_trusted_only_when_named(make: Callable[[], Transport]) -> None:
    """Issue 6, part 7: TLS, custom CA."""
    with serving(Echo(), certificate=str(CERTIFICATES / "server.pem")) as stand:
        named = link(stand.url, make, ca_file=str(CERTIFICATES / "authority.pem"))
        assert named.json("GET", "/x")[0] == 200
        with pytest.raises(Unreachable, match="certificate"):
            link(stand.url, make).json("GET", "/x")
        named.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8888",
        "ftp://host",
        "http://",
        "http://a:b@host",
        "http://host?x",
        "http://h:x",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """Issue 6, bad input: a URL without scheme."""
    with pytest.raises(Usage):
        checked_url(url)


def test_banks_have_names_of_their_own_on_a_server() -> None:
    """Design, section 8: scope. Folders may differ in case only."""
    names = {server_name(b) for b in ("github.com/a/b", "github.com/A/b", "github.com/a-b", "日本")}
    assert len(names) == 4
    assert all(c.isascii() and (c.isalnum() or c == "-") for name in names for c in name)
    assert server_name("github.com/a/b") == server_name("github.com/a/b")


@pytest.mark.parametrize("name", ["hindsight", "mem0", "cognee"])
def test_a_provider_as_hooks_load_it_stays_on_the_standard_library(home: Path, name: str) -> None:
    """Design, section 3: provider clients with an injected transport are standard library only."""
    code = (
        "import os, sys\n"
        "from openmem.base.paths import Paths\n"
        "from openmem.memory.providers.base import Ask\n"
        "from openmem.memory.providers.registry import provider_of\n"
        "from openmem.memory.providers.wire import Unreachable\n"
        f"provider = provider_of({name!r}, Paths(os.environ))\n"
        "try:\n"
        "    provider.recall('bank', Ask(text='anything', seconds=1.0))\n"
        "except Unreachable:\n"
        "    pass\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(*sorted(names - set(sys.stdlib_module_names) - {'openmem', '__main__'}))\n"
    )
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    root = str(Path(__file__).resolve().parents[2])
    environ = {"HOME": str(home), "OPENMEM_SERVER_PORT": str(port), "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
