"""Vectors of memories: made in the background by the person's endpoint, for searches by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.cli.app import run
from openmem.hook.handle import handle
from openmem.hook.keep import Order, keep
from openmem.memory.dropping import drop_bank
from openmem.memory.facade import Memories
from openmem.memory.opening import open_memories
from openmem.memory.providers.local.meaning import id_of, key_of
from tests.fakes.claude_transcript import assistant, user, write
from tests.fakes.embedding_server import Embedder
from tests.fakes.wire import HttpServer
from tests.memory.conftest import PERSON, Place

CAR, BREAD = "The vehicle of the team stands in bay four.", "Flour for the oven comes on Mondays."


@pytest.fixture
def embedder(place: Place) -> Iterator[Embedder]:
    """An endpoint; the settings name it."""
    made = Embedder()
    with HttpServer(made.handle) as server:
        Path(place.paths.config_file).write_text(
            f'[vectors]\nmodel = "m"\nurl = "{server.url}/v1"\ntimeout_seconds = 5\n'
            "[memory]\nvectors = true\n"
        )
        yield made


@pytest.fixture
def memories(place: Place, embedder: Embedder) -> Iterator[Memories]:
    opened = open_memories(place.paths)
    yield opened
    opened.close()


def found(memories: Memories, place: Place, text: str) -> list[str]:
    return [one.memory.text for one in memories.search(place.person(), text)]


def stem(place: Place) -> str:
    return f"{place.paths.state_dir}/memory/github.com%2facme%2fsite.vectors"


def test_a_memory_is_found_by_what_it_means(memories: Memories, place: Place) -> None:
    """Issue 5, part 2: optional vectors through an OpenAI-compatible endpoint, packed float32."""
    for text in (CAR, BREAD):
        memories.add(place.person(), text)
    assert found(memories, place, "automobile") == []
    stand = memories.fill_vectors(place.person().bank)
    assert stand is not None and (stand.filled, stand.pending) == (2, 0)
    assert os.path.getsize(f"{stem(place)}.f32") == 2 * (8 + 4 * 6)
    assert found(memories, place, "automobile") == [CAR]
    # what fits by words stays in front of what only means the same
    assert found(memories, place, "Flour for an automobile")[0] == BREAD
    assert memories.provider.status(place.person().bank).vectors is not None


def test_a_question_of_another_kind_than_asked_for_is_left_out(
    memories: Memories, place: Place
) -> None:
    """Ours: filters hold for what comes in by meaning, too."""
    memories.add(place.person(), CAR)
    memories.fill_vectors(place.person().bank)
    asked = memories.search(place.person(), "automobile", kinds=("passage",))
    assert asked == []


def test_a_hook_never_asks_the_endpoint(
    memories: Memories, place: Place, embedder: Embedder
) -> None:
    """Issue 5, part 2: background, never on the hook's path."""
    memories.add(place.person(), CAR)
    memories.fill_vectors(place.person().bank)
    calls = len(embedder.calls)
    for event in ("session-start", "prompt"):
        payload = {
            "session_id": f"s-{event}",
            "cwd": str(place.site),
            "source": "startup",
            "prompt": "in which bay does the vehicle of the team stand?",
        }
        environ = {"HOME": os.environ["HOME"], "OPENMEM_HOOK_PORT": "0"}
        reply = handle(event, "claude-code", payload, place.paths, environ)
        assert CAR in json.dumps(reply.stdout)
    assert len(embedder.calls) == calls


def test_the_child_that_keeps_a_turn_makes_them(
    place: Place, embedder: Embedder, tmp_path: Path
) -> None:
    """Issue 5, part 2: in the background."""
    transcript = write(tmp_path / "t.jsonl", user(CAR), assistant(BREAD))
    order = Order(sid="s", agent="claude-code", folder=str(place.site), transcript=str(transcript))
    assert keep(order, place.paths) == 2
    assert sorted(text for call in embedder.calls for text in call) == [
        f"assistant: {BREAD}",
        f"user: {CAR}",
    ]
    made = open_memories(place.paths)
    assert found(made, place, "automobile") == [f"user: {CAR}"]
    made.close()


def test_a_vector_goes_with_its_memory(memories: Memories, place: Place) -> None:
    """Users' report 34: absent from search by vector too."""
    one = memories.add(place.person(), CAR).memory.id
    memories.add(place.person(), BREAD)
    memories.fill_vectors(place.person().bank)
    memories.forget(place.person(), one)
    assert os.path.getsize(f"{stem(place)}.f32") == 8 + 4 * 6
    assert found(memories, place, "automobile") == []
    drop_bank(memories, place.person().bank, PERSON)
    assert not [p for p in os.listdir(f"{place.paths.state_dir}/memory") if "vectors" in p]


def test_a_memory_that_is_forgotten_while_the_endpoint_works_gets_no_vector(
    memories: Memories, place: Place, embedder: Embedder
) -> None:
    """Ours: the call may take minutes; what a person does meanwhile counts."""
    one = memories.add(place.person(), CAR).memory.id
    memories.add(place.person(), BREAD)
    other = open_memories(place.paths)
    embedder.hold = lambda texts: other.forget(place.person(), one) and None
    memories.fill_vectors(place.person().bank)
    other.close()
    assert os.path.getsize(f"{stem(place)}.f32") == 8 + 4 * 6


@pytest.mark.parametrize("fault", ["down", "nonsense", "another model", "damaged file"])
def test_without_vectors_words_answer(
    memories: Memories, place: Place, embedder: Embedder, fault: str
) -> None:
    """Ours: the endpoint is a service on the side."""
    memories.add(place.person(), CAR)
    memories.fill_vectors(place.person().bank)
    if fault == "down":
        embedder.status = 503
    elif fault == "nonsense":
        embedder.spoil = lambda document: b"<html>"
    elif fault == "another model":
        config = Path(place.paths.config_file)
        config.write_text(config.read_text().replace('"m"', '"other"'))
    else:
        Path(f"{stem(place)}.json").write_text("{")
    assert found(memories, place, "vehicle") == [CAR]
    if fault == "down":
        stand = memories.fill_vectors(place.person().bank)
        assert stand is not None and stand.filled == 1


def test_nothing_is_sent_unless_it_was_switched_on(
    memories: Memories, place: Place, embedder: Embedder, tmp_path: Path
) -> None:
    """Issue 5, part 8: no model call unless a route is configured."""
    config = Path(place.paths.config_file)
    config.write_text(config.read_text().replace("vectors = true", "vectors = false"))
    memories.add(place.person(), CAR)
    assert memories.fill_vectors(place.person().bank) is None
    transcript = write(tmp_path / "t.jsonl", user(BREAD))
    order = Order(sid="s", agent="claude-code", folder=str(place.site), transcript=str(transcript))
    keep(order, place.paths)
    assert found(memories, place, "vehicle") == [CAR] and embedder.calls == []


def test_a_secret_never_reaches_the_endpoint(
    memories: Memories, place: Place, embedder: Embedder
) -> None:
    """Users' report 29: nothing goes to a service unmasked."""
    token = "ghp_" + "Qk4dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"
    memories.add(place.person(), f"{CAR} Log in with {token}.")
    memories.fill_vectors(place.person().bank)
    assert embedder.calls and token not in json.dumps(embedder.calls)


def test_reindex_makes_them_at_once_and_status_counts_them(
    memories: Memories,
    place: Place,
    embedder: Embedder,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours: a person sees how they stand."""
    memories.add(place.person(), CAR)
    monkeypatch.chdir(place.site)
    assert run(["memory", "status"]) == 0
    assert "0 vectors, 1 to be made" in capsys.readouterr().out
    assert run(["memory", "reindex"]) == 0
    assert "1 vector, 0 to be made" in capsys.readouterr().out
    embedder.status = 500
    memories.add(place.person(), BREAD)
    assert run(["memory", "reindex"]) == 0
    out = capsys.readouterr().out
    assert "1 vector, 1 to be made" in out and "gave no vectors" in out


def test_an_id_and_its_key_are_the_same() -> None:
    """Ours: a vector's key is the memory's id, so it can belong to no other."""
    assert id_of(key_of("m-00000001fffffffe")) == "m-00000001fffffffe"
