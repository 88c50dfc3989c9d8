"""The bench of recall, on conversations made up here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from openmem.base.errors import Failed, Usage
from openmem.bench import recall, recall_vectors
from openmem.bench.conversations import read_conversations
from tests.fakes.claude_transcript import assistant, user, write
from tests.fakes.embedding_server import Embedder
from tests.fakes.wire import HttpServer

_THINGS = ("kettle", "violin", "canoe", "ladder", "falcon", "lantern", "saddle", "anchor")


def _conversation(number: int) -> dict[str, Any]:
    """Two people, two sessions; each question is answered by the turn after the one it names."""
    chance = random.Random(number)
    one, two = f"Ann{number}", f"Bob{number}"
    said: dict[str, Any] = {"speaker_a": one, "speaker_b": two}
    qa = []
    for session in (1, 2):
        turns = []
        for place in range(12):
            thing = f"crimson {chance.choice(_THINGS)}{number}{session}{place}"
            words = f"where did you put the {thing}?" if place % 2 == 0 else f"behind {thing}"
            identity = f"D{session}:{place}"
            turns.append({"speaker": (one, two)[place % 2], "dia_id": identity, "text": words})
            if place % 2 == 0:
                question = f"Where did {two} put the {thing}?"
                evidence = [identity, f"D{session}:{place + 1}"]
                qa.append({"question": question, "category": 4, "evidence": evidence})
        said[f"session_{session}"] = turns
    qa.append({"question": "unanswerable", "category": 5, "evidence": ["D9:9"]})
    return {"conversation": said, "qa": qa}


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([_conversation(number) for number in range(7)]))
    return str(path)


def test_conversations_are_read_with_their_evidence(data: str) -> None:
    """LoCoMo's format; ids that name no turn are passed over."""
    conversations = read_conversations(data)
    assert len(conversations) == 7
    assert len(conversations[0].texts) == 24 and len(conversations[0].questions) == 12
    assert conversations[0].questions[0].gold == {0, 1}
    assert conversations[0].questions[0].category == "single-hop"


def test_only_conversations_that_nothing_was_tuned_on_are_reported(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 5, show it: tuned on 1 to 5, reported on the others, beside plain BM25."""
    monkeypatch.setattr(recall, "SIZES", (50,))
    write(tmp_path / "t" / "a.jsonl", user("please fix the tests"), assistant("Done."))
    write(tmp_path / "t" / "b.jsonl", user("what is in the readme?"), assistant("Words."))
    report = recall.run(data=data, transcripts=str(tmp_path / "t"), repeats=3)
    whole = {one.metric: one for one in report.compared if one.group == "all"}
    assert whole["R@5"].questions == 24
    assert whole["R@5"].ours >= whole["R@5"].floor
    quiet = {one.name: one for one in report.quiet}
    assert quiet["own bank"].told > 0 and quiet["own bank"].right > 0
    assert quiet["small talk"].told == quiet["other people's banks"].told == 0
    assert quiet["real prompts"].asked == 4 and quiet["other real sessions"].asked == 2
    value = report.as_json()
    assert json.loads(json.dumps(value)) == value
    assert max(map(len, report.lines())) <= 80


def test_the_same_ranking_is_neither_better_nor_worse() -> None:
    """Ours: the bootstrap's interval of no difference holds zero."""
    rows = [("x", {"R@5": float(n % 2)}, {"R@5": float(n % 2)}) for n in range(40)]
    found = recall.compared("x", "R@5", rows, random.Random(1))
    assert (found.ours, found.low, found.high) == (0.5, 0.0, 0.0)
    assert not found.is_better and not found.is_worse


@pytest.mark.parametrize(
    ("text", "error"),
    [("[]", Usage), ("{", Failed), ('[{"a": 1}]', Failed), ("[1]", Failed)],
)
def test_a_file_that_holds_none_is_one_clear_error(
    tmp_path: Path, text: str, error: type[Exception]
) -> None:
    """Ours."""
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(error):
        recall.run(data=str(path))
    with pytest.raises(Usage, match="needs the conversations"):
        recall.run(data="")
    with pytest.raises(Usage, match="no file"):
        recall.run(data=str(tmp_path / "none"))


def test_vectors_are_measured_beside_words_on_the_same_questions(data: str) -> None:
    """Issue 5, part 2: fusion only where it measures better than the best single ranker."""
    embedder = Embedder()
    with HttpServer(embedder.handle) as server:
        report = recall_vectors.run(data=data, url=f"{server.url}/v1", model="m")
    whole = {one.metric: one for one in report.compared if one.group == "all"}
    assert whole["R@5"].questions == 24
    assert {one.metric for one in report.compared if one.group != "all"} == {"R@5", "R@10", "MRR"}
    value = report.as_json()
    assert json.loads(json.dumps(value)) == value and value["model"] == "m"
    assert max(map(len, report.lines())) <= 80
    # what is asked is every turn of what is reported, once, and each question
    texts = [text for call in embedder.calls for text in call]
    assert len(texts) == 2 * 24 + 24


def test_an_endpoint_that_gives_no_vectors_gives_no_figures(data: str) -> None:
    """Ours: a figure of words alone must not pass for one of both."""
    embedder = Embedder(status=503)
    with HttpServer(embedder.handle) as server, pytest.raises(Failed, match="gave no vectors"):
        recall_vectors.run(data=data, url=f"{server.url}/v1", model="m")
