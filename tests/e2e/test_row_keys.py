"""The keys of rows over a real conversation: equal where the content is equal."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path

import pytest

from openmem.context.formats.messages import blocks_of, split_request
from openmem.context.rows import KeyedBlock, chain
from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Sink, make_project
from tests.fakes.script import play
from tests.fakes.tap import Tap
from tests.fakes.wire import Request

pytestmark = pytest.mark.real_agent
KEY = b"a key of this test, 32 bytes long"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MODELS = [
    "claude-opus-4-5",
    "claude-opus-4-5",
    "claude-opus-4-6",
    "claude-opus-5-5",
    "claude-haiku-5-5",
    "claude-sonnet-4-5",
    "claude-fable-5-1",
]


def _rows(request: Request) -> list[KeyedBlock]:
    names: dict[str, str] = {}
    blocks = [b for raw in split_request(request.body).messages for b in blocks_of(raw, names)]
    return chain(KEY, blocks, "")


def _main(rows: list[KeyedBlock]) -> list[str]:
    return [row.fingerprint for row in rows if row.content_key]


def _turn(project: Path, number: int) -> str:
    command = {"command": f"printf 'n {number}\\n%.0s' 1 2", "description": "x"}
    both = [
        {"name": "Bash", "input": {"command": f"echo p{number}", "description": "x"}},
        {"name": "Read", "input": {"file_path": str(project / "dot.png")}},
    ]
    return play(
        f"turn {number}: größer 修剪 🛰 1.50",
        {"think": "first", "say": "I look.", "call": {"name": "Bash", "input": command}},
        {"think": "then", "say": "Two at once.", "calls": both},
        {"think": "last", "say": f"Answer {number}."},
    )


@pytest.fixture
def requests(tmp_path: Path) -> list[Request]:
    """Requests of one session: resumed six times, each time with another model but once."""
    home, project = tmp_path / "agent-home", make_project(tmp_path / "project")
    home.mkdir()
    (project / "dot.png").write_bytes(base64.b64decode(PIXEL))
    with FakeAnthropic() as server, Sink() as sink, Tap(server.port) as tap:
        url = f"{tap.url}/r/s"
        claude = Claude(home=home, project=project, sink_url=sink.url, base_url=url)
        for number, model in enumerate(MODELS):
            more = ["--continue"] if number else []
            outcome = claude.run(_turn(project, number), *more, model=model)
            assert outcome.result == f"Answer {number}.", outcome
        assert len(tap.requests) == 3 * len(MODELS)
        assert [one.body for one in tap.requests] == [r.request.body for r in server.of("s")]
        return tap.requests


def test_a_conversation_keeps_its_chain_over_resume_and_model_switch(
    requests: list[Request], tmp_path: Path
) -> None:
    """Issue 2, trial (a): row keys come out equal where the content is equal."""
    for before, after in itertools.pairwise(requests):
        old, new = _main(_rows(before)), _main(_rows(after))
        assert new[: len(old)] == old
        assert len(new) > len(old)
    lasting = [row.fingerprint for row in _rows(requests[-1])]
    assert len(set(lasting)) == len(lasting)
    _check_transcript(requests, tmp_path / "agent-home")


def _check_transcript(requests: list[Request], home: Path) -> None:
    """The transcript's lines of the same messages carry the same content keys."""
    sent = {row.content_key for row in _rows(requests[-1]) if row.content_key}
    (transcript,) = (home / ".claude/projects").glob("*/*.jsonl")
    kept: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in transcript.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("type") in ("user", "assistant"):
            raw = json.dumps(entry["message"]).encode()
            for row in chain(KEY, blocks_of(raw, names), ""):
                if row.content_key:
                    kept[row.content_key] = row.block.text
    assert sent <= set(kept)
    # The last answer is not yet sent back; nothing else is in the transcript alone.
    assert [kept[key] for key in set(kept) - sent] == [f"Answer {len(MODELS) - 1}."]
