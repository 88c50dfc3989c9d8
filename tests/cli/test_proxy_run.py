"""`openmem proxy run`: in the foreground, by hand, for tests and scripts."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.cli.app import run
from tests.fakes.anthropic_server import FakeAnthropic


@pytest.fixture
def upstream() -> Iterator[FakeAnthropic]:
    with FakeAnthropic() as server:
        yield server


@pytest.fixture
def proxy(home: Path, upstream: FakeAnthropic) -> Iterator[subprocess.Popen[str]]:
    """A proxy in the foreground on any free port, before the fake server."""
    url = f"http://127.0.0.1:{upstream.port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "openmem", "proxy", "run", "--port", "0", "--upstream", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    yield process
    process.kill()
    process.communicate(timeout=30)


def test_it_says_where_it_listens_serves_the_bare_path_and_ends_on_ctrl_c(
    proxy: subprocess.Popen[str],
) -> None:
    """Issue 2, part 8: `openmem proxy run --port P --upstream URL` in the foreground."""
    assert proxy.stderr is not None and proxy.stdout is not None
    line = proxy.stderr.readline()
    found = re.search(r"Listening on http://127\.0\.0\.1:(\d+)", line)
    assert found, line
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    connection.request(
        "POST", "/v1/messages", json.dumps(body), {"content-type": "application/json"}
    )
    response = connection.getresponse()
    assert response.status == 200 and json.loads(response.read())["type"] == "message"
    connection.close()
    proxy.send_signal(signal.SIGINT)
    assert proxy.wait(timeout=30) in (0, 130)
    assert proxy.stdout.read() == ""


@pytest.mark.parametrize(
    "words", [["--port", "70000"], ["--upstream", "ftp://x"], ["--upstream", "https://x?y=1"]]
)
def test_wrong_words_are_exit_2(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Design, section 5."""
    assert run(["proxy", "run", *words]) == 2
    assert words[0] in capsys.readouterr().err and list(home.iterdir()) == []


def test_status_of_no_proxy_has_the_promised_keys(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, JSON that scripts may rely on."""
    assert run(["proxy", "status", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    keys = "running address version stale supervisor_pid worker_pid upstream"
    assert set(keys.split(" ")) <= set(data) and data["running"] is False
    assert list(home.iterdir()) == []
