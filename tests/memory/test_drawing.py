"""Statements that a model draws out of a kept turn: only where it was switched on, and pending."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from openmem.base.frame import FRAME_OPEN, framed
from openmem.hook.keep import Order, keep
from openmem.memory.facade import Memories
from tests.fakes.claude_transcript import assistant, user, write
from tests.fakes.wire import HttpServer, Reply, Request
from tests.memory.conftest import Place

TOKEN = "ghp_" + "Qk4dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"
SAID = (
    "We talked it over with Ada yesterday and decided that the staging database moves to Berlin, "
    "because the office there has the faster line, and that nobody restarts it on Fridays. "
    f"The old token was {TOKEN}, please do not use it again for anything at all."
)
FACTS = (
    "1. The staging database stands in Berlin.\n"
    "- Nobody restarts the staging database on Fridays.\nFacts:\nok"
)


@dataclass
class Model:
    """An OpenAI-compatible server that says `answer`."""

    answer: str = FACTS
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, request: Request, reply: Reply) -> None:
        self.asked.append(json.loads(request.body))
        body = {
            "choices": [{"message": {"role": "assistant", "content": self.answer}}],
            "usage": {"total_tokens": 300},
        }
        reply.whole(self.status, [("content-type", "application/json")], json.dumps(body).encode())


@pytest.fixture
def model(place: Place) -> Iterator[Model]:
    made = Model()
    with HttpServer(made) as server:
        Path(place.paths.config_file).write_text(
            f'[memory]\ndraw_statements = true\n[model]\nname = "m-1"\nurl = "{server.url}/v1"\n'
        )
        yield made


def end_turn(place: Place, tmp_path: Path, *said: str, folder: Path | None = None) -> None:
    transcript = write(tmp_path / "t.jsonl", *(user(text) for text in said), assistant("Noted."))
    order = Order(
        sid="s-1",
        agent="claude-code",
        folder=str(folder or place.site),
        transcript=str(transcript),
    )
    keep(order, place.paths)


def test_what_a_model_finds_waits_for_a_person(
    place: Place, memories: Memories, model: Model, tmp_path: Path
) -> None:
    """Issue 5, part 5: statements come from a configured model, too; an agent's start pending."""
    end_turn(place, tmp_path, SAID)
    found = memories.listing(place.person())
    assert sorted(one.text for one in found) == [
        "Nobody restarts the staging database on Fridays.",
        "The staging database stands in Berlin.",
    ]
    for one in found:
        assert one.trust == "pending" and str(one.actor) == "agent:model:m-1"
        assert one.source.session_id == "s-1" and one.source.row > 0
    (asked,) = model.asked
    told = asked["messages"][1]["content"]
    assert FRAME_OPEN in told and "moves to Berlin" in told and TOKEN not in json.dumps(asked)
    # what was said before is not shown again, and what is known is not added again
    end_turn(place, tmp_path, f"Once more. {SAID}".replace("Ada", "Grace"))
    assert len(model.asked) == 2 and "with Ada" not in json.dumps(model.asked[1])
    assert len(memories.listing(place.person())) == 2


@pytest.mark.parametrize("why", ["off", "no model", "denied", "short", "no budget", "inside"])
def test_no_model_is_asked(
    place: Place,
    memories: Memories,
    model: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    """Issue 5, part 8: no model call unless a route is configured; users' report 36."""
    config = Path(place.paths.config_file)
    if why == "off":
        config.write_text(config.read_text().replace("draw_statements = true", ""))
    elif why == "no model":
        config.write_text("[memory]\ndraw_statements = true\n")
    elif why == "no budget":
        config.write_text(config.read_text().replace("[model]", "daily_tokens = 10\n[model]"))
    elif why == "inside":
        monkeypatch.setattr(place.paths, "environ", {**place.paths.environ, "OPENMEM_ASIDE": "1"})
    said = "A short turn, that is all." if why == "short" else SAID
    end_turn(place, tmp_path, said, folder=place.denied if why == "denied" else None)
    assert model.asked == [] and memories.listing(place.person()) == []


@pytest.mark.parametrize(
    "answer", ["NONE", "", "x" * 5_000, framed(["- (m-1) Some recalled text of ours."])]
)
def test_an_answer_without_facts_adds_nothing(
    place: Place, memories: Memories, model: Model, tmp_path: Path, answer: str
) -> None:
    """Users' report 33: our own text is never captured again."""
    model.answer = answer
    end_turn(place, tmp_path, SAID)
    assert memories.listing(place.person()) == []
    assert [one.kind for one in memories.listing(place.person(), kind="passage")]


def test_a_turn_gives_five_at_most_and_nothing_that_was_forgotten(
    place: Place, memories: Memories, model: Model, tmp_path: Path
) -> None:
    """Users' report 34: forgotten stays forgotten, whoever says it."""
    gone = memories.add(place.person(), "Fact number 2 of the depot.").memory
    memories.forget(place.person(), gone.id)
    model.answer = "\n".join(f"Fact number {n} of the depot." for n in range(1, 9))
    end_turn(place, tmp_path, SAID)
    assert len(memories.listing(place.person())) == 4
    assert "Fact number 2 of the depot." not in [m.text for m in memories.listing(place.person())]


def test_a_model_that_fails_costs_the_statements_and_not_the_turn(
    place: Place, memories: Memories, model: Model, tmp_path: Path
) -> None:
    """Ours: keeping does not depend on a service."""
    model.status = 500
    end_turn(place, tmp_path, SAID)
    assert memories.listing(place.person()) == []
    assert len(memories.listing(place.person(), kind="passage")) == 1
    assert "no statements drawn" in Path(f"{place.paths.logs_dir}/hook.log").read_text()
