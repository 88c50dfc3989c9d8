"""The real Claude Code against the strict fake server: it must not be refused on its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.claude import Claude, Sink, make_project
from tests.fakes.faults import NAMED
from tests.fakes.script import play
from tests.fakes.strict.rules import Account, StrictRules

pytestmark = pytest.mark.real_agent


def _bash(command: str) -> dict[str, object]:
    return {
        "think": f"I run {command}",
        "call": {"name": "Bash", "input": {"command": command, "description": "x"}},
    }


DONE = {"think": "enough", "say": "Done."}


def _claude(tmp_path: Path, sink: Sink, server: FakeAnthropic) -> Claude:
    home = tmp_path / "agent-home"
    home.mkdir()
    return Claude(
        home=home,
        project=make_project(tmp_path / "project"),
        sink_url=sink.url,
        base_url=server.url_of("s"),
    )


@pytest.mark.parametrize(
    ("model", "exempt"),
    [
        ("claude-opus-5-5", False),
        ("claude-haiku-5-5", False),
        ("claude-fable-5-1", True),
        ("claude-sonnet-4-5", False),
    ],
)
def test_claude_code_is_never_refused_over_tools_and_resume(
    tmp_path: Path, model: str, exempt: bool
) -> None:
    """newest-models facts, 2.3: equal prefixes over tool rounds and resume, but for the nudge."""
    rules = StrictRules(Account(nudge_exempt=exempt))
    with FakeAnthropic(rules=rules) as server, Sink() as sink:
        claude = _claude(tmp_path, sink, server)
        first = claude.run(play("one", _bash("echo 1"), _bash("echo 2"), DONE), model=model)
        assert first.result == "Done.", (first, rules.refusals)
        again = claude.run(play("two", _bash("echo 3"), DONE), "--continue", model=model)
        assert again.result == "Done.", (again, rules.refusals)
    assert rules.refusals == []
    assert len(server.of("s")) == 5
    assert sink.asked == []


def test_the_cache_reads_grow_from_round_to_round(tmp_path: Path) -> None:
    """newest-models facts, 1.6 and 2.3: one moving marker, so each round reads the last one."""
    with FakeAnthropic(rules=StrictRules()) as server, Sink() as sink:
        claude = _claude(tmp_path, sink, server)
        steps = [_bash(f"echo {n}") for n in range(3)]
        outcome = claude.run(play("one", *steps, DONE))
    usage = outcome.json["usage"]
    assert usage["cache_read_input_tokens"] > 3 * usage["cache_creation_input_tokens"] / 2
    assert outcome.result == "Done."


def test_claude_code_heals_an_injected_binding_error(tmp_path: Path) -> None:
    """newest-models facts, 2.4: it sends the request again without any thinking."""
    with FakeAnthropic(rules=StrictRules()) as server, Sink() as sink:
        claude = _claude(tmp_path, sink, server)
        server.faults["s", 2] = NAMED["binding-without-header"]
        outcome = claude.run(play("one", _bash("echo 1"), DONE))
    assert outcome.result == "Done."
    kinds = [
        [b["type"] for m in r.messages for b in m["content"] if isinstance(b, dict)]
        for r in server.of("s")
    ]
    assert [r.status for r in server.of("s")] == [200, 400, 200]
    assert "thinking" in kinds[1] and "thinking" not in kinds[2]
