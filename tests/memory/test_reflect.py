"""Answers in a model's words, where one is configured: within a budget, behind a breaker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from openmem.base.config import load_config
from openmem.base.errors import InvalidConfig
from openmem.base.frame import FRAME_OPEN
from openmem.memory.facade import Memories
from openmem.memory.model_route import Route, route_of
from openmem.memory.reflect import Reflection, reflect
from openmem.memory.spend import PAUSE_SECONDS, Budget, read_spend, spend_file
from openmem.memory.status import status_of
from tests.fakes.wire import HttpServer, Reply, Request
from tests.memory.conftest import Place

HERON = "The staging database is called heron-42."


@dataclass
class Model:
    """A model server. `answer`: what it says; None says something that is no answer."""

    answer: str | None = "It is heron-42."
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""

    def __call__(self, request: Request, reply: Reply) -> None:
        self.asked.append(json.loads(request.body))
        self.headers.append({k.lower(): v for k, v in request.headers})
        self.paths.append(request.target)
        body: object = {"nothing": "here"}
        if self.answer is not None and request.target.endswith("/messages"):
            body = {
                "content": [{"type": "text", "text": self.answer}],
                "usage": {"input_tokens": 100, "output_tokens": 20},
            }
        elif self.answer is not None:
            body = {
                "choices": [{"message": {"role": "assistant", "content": self.answer}}],
                "usage": {"total_tokens": 120},
            }
        reply.whole(self.status, [("content-type", "application/json")], json.dumps(body).encode())


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    with HttpServer(made) as server:
        made.url = server.url
        yield made


@pytest.fixture
def ask(place: Place, memories: Memories, model: Model):  # type: ignore[no-untyped-def]
    memories.add(place.person(), HERON)

    def run(api: str = "openai", daily: int = 100_000) -> Reflection:
        route = Route(api=api, url=model.url, name="m-1", key="k-123")
        return reflect(
            memories,
            place.agent(),
            "which database does staging use?",
            route=route,
            budget=Budget(place.paths, daily),
        )

    return run


@pytest.mark.parametrize(
    ("api", "path", "header"),
    [
        ("openai", "/chat/completions", ("authorization", "Bearer k-123")),
        ("anthropic", "/v1/messages", ("x-api-key", "k-123")),
    ],
)
def test_a_model_answers_from_framed_memories(  # type: ignore[no-untyped-def]
    ask, model: Model, place: Place, api: str, path: str, header: tuple[str, str]
) -> None:
    """Issue 5, part 8: OpenAI-compatible or Anthropic URL and key."""
    reflection = ask(api)
    assert reflection.text == "It is heron-42." and reflection.tokens == 120
    assert model.paths == [path] and model.headers[0][header[0]] == header[1]
    said = json.dumps(model.asked[0])
    assert HERON in said and json.dumps(FRAME_OPEN)[1:-1] in said
    spend = read_spend(place.paths, __import__("time").time())
    assert (spend.tokens, spend.calls, spend.failures) == (120, 1, 0)


def test_the_days_budget_stops_calls(ask, model: Model) -> None:  # type: ignore[no-untyped-def]
    """Users' report 36: calls stop at the configured daily budget."""
    outcomes = [ask(daily=2_000) for _ in range(20)]
    assert outcomes[0].text and not outcomes[-1].text
    assert "2000 tokens" in outcomes[-1].why and outcomes[-1].found
    assert len(model.asked) < 12
    assert not ask(daily=0).text


def test_a_new_day_has_a_new_budget(ask, place: Place) -> None:  # type: ignore[no-untyped-def]
    """Users' report 36."""
    ask()
    path = Path(spend_file(place.paths))
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "day": "2020-01-01", "tokens": 10**9}))
    assert ask(daily=2_000).text
    path.write_text("damaged")
    assert ask(daily=2_000).text


@pytest.mark.parametrize("fault", ["status", "answer", "gone"])
def test_a_breaker_opens_after_failures_and_closes_later(  # type: ignore[no-untyped-def]
    ask, model: Model, place: Place, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users' report 36: a provider stub that always returns invalid JSON."""
    url = model.url
    if fault == "status":
        model.status = 500
    if fault == "answer":
        model.answer = None
    if fault == "gone":
        model.url = "http://127.0.0.1:9"
    for _ in range(3):
        reflection = ask()
        assert not reflection.text and "model" in reflection.why and reflection.found
    asked = len(model.asked)
    assert "next try" in ask().why and len(model.asked) == asked
    model.status, model.answer, model.url = 200, "It is heron-42.", url
    path = Path(spend_file(place.paths))
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, "closed_until": value["closed_until"] - PAUSE_SECONDS}))
    assert ask().text
    assert json.loads(path.read_text())["failures"] == 0


def test_without_switch_or_name_there_is_no_route(place: Place, memories: Memories) -> None:
    """Design, section 8: no hidden spend."""
    for text in ("", '[model]\nname = "m"\n', "[memory]\nreflect = true\n"):
        Path(place.paths.config_file).write_text(text)
        config = load_config(place.paths.config_file, {})
        assert route_of(config, {}) is None


@pytest.mark.parametrize(
    ("key", "environ", "found"),
    [("", {}, ""), ("env:K", {"K": "v"}, "v"), ("file:KEYFILE", {}, "from file")],
)
def test_a_key_is_named_never_written(
    place: Place, tmp_path: Path, key: str, environ: dict[str, str], found: str
) -> None:
    """Design, section 4: references to secrets, never values."""
    (tmp_path / "k").write_text("from file\n")
    key = key.replace("KEYFILE", str(tmp_path / "k"))
    Path(place.paths.config_file).write_text(
        f'[memory]\nreflect = true\n[model]\nname = "m"\napi = "anthropic"\nkey = "{key}"\n'
    )
    route = route_of(load_config(place.paths.config_file, {}), environ)
    assert route is not None and (route.key, route.api) == (found, "anthropic")
    assert route.url == "https://api.anthropic.com"


@pytest.mark.parametrize("key", ["env:NOT_THERE", "sk-123"])
def test_a_key_that_is_none_is_refused(place: Place, key: str) -> None:
    """Issue 6, bad input."""
    Path(place.paths.config_file).write_text(
        f'[memory]\nreflect = true\n[model]\nname = "m"\nkey = "{key}"\n'
    )
    with pytest.raises(InvalidConfig) as raised:
        route_of(load_config(place.paths.config_file, {}), {})
    assert "sk-123" not in raised.value.message


def test_status_counts_and_says_what_is_off(place: Place, memories: Memories) -> None:
    """Issue 5, part 8: status shows the spend; users' report 37: counts are compared."""
    one = memories.add(place.person(), HERON).memory
    memories.add(place.agent(), "Deploys need the VPN.")
    Budget(place.paths, 1_000).book(7)
    status = status_of(memories, place.person().bank)
    assert (status.statements, status.pending, status.passages) == (2, 1, 0)
    assert (status.tokens_today, status.calls_today, status.problem) == (7, 1, "")
    memories.provider.forget(place.person().bank, [one.id])
    assert "1 memories of 2" in status_of(memories, place.person().bank).problem
