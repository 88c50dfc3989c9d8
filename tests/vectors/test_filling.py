"""Vectors made in the background: which rows, in which batches, and what failures do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from openmem.base.errors import InvalidConfig
from openmem.base.paths import Paths
from openmem.base.policy import decode_policy
from openmem.base.vectors.endpoint import EmbeddingFailed, embed
from openmem.base.vectors.filling import Filled, Pace
from openmem.base.vectors.settings import VectorSettings
from openmem.context.care.forget import forget_rows
from openmem.context.care.select import select_pattern
from openmem.context.store.catalog import Entry, entry_of
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from openmem.context.vectors.background import Background, may_send
from openmem.context.vectors.fill import fill, progress
from openmem.context.vectors.sidecar import keep_only, keys_of, read_shape, vector_files
from tests.fakes.conversation import KEY, call, incoming, reply, result, user
from tests.fakes.embedding_server import DIM, Embedder
from tests.fakes.running_proxy import wait_until


def record(recorder: Recorder, count: int, sid: str = "s") -> None:
    recorder.record_request(sid, incoming([user(f"row number {n}") for n in range(count)]))


def entry(paths: Paths, sid: str = "s") -> Entry:
    found = entry_of(paths, sid)
    assert found is not None
    return found


def run(paths: Paths, settings: VectorSettings, pace: Pace | None = None) -> Filled:
    return fill(paths, entry(paths), settings, paths.environ, pace or Pace())


def test_every_row_that_says_something_gets_one_vector(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors; our own tools' rows and reminders get none."""
    messages = [
        user("a person's words"),
        call("Bash", {"command": "ls"}),
        result("a tool's words"),
        reply("the agent's words", thinking="thoughts"),
        call("mcp__openmem__smart_compact_search", {"query": "words"}, 2),
        result("a tool's words again", 2),
        user("<system-reminder>reminder</system-reminder>"),
        user("x" * 9_000),
    ]
    recorder.record_request("s", incoming(messages))
    done = run(paths, settings)
    assert (done.filled, done.pending, done.skipped, done.is_down) == (5, 0, 0, False)
    sent = [text for texts in embedder.calls for text in texts]
    assert sorted(text[:12] for text in sent) == sorted(
        ["a person's w", "a tool's wor", "the agent's ", '{"command":"', "x" * 12]
    )
    assert max(map(len, sent)) == settings.max_characters
    shape = read_shape(paths, "s")
    assert shape is not None and (shape.model, shape.dim) == ("fake", DIM)
    for path in vector_files(paths, "s"):
        assert os.stat(path).st_mode & 0o777 == 0o600
    before = len(embedder.calls)
    assert run(paths, settings).added == 0 and len(embedder.calls) == before


def test_rows_that_left_the_context_come_first_then_the_newest(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors: that is what a search needs."""
    done = recorder.record_request("s", incoming([user(f"row {n}") for n in range(6)]))
    recorder.mark_trimmed("s", done.thread, [1, 2], 3)
    run(paths, settings)
    sent = [text for texts in embedder.calls for text in texts]
    assert sent == ["row 2", "row 1", "row 5", "row 4", "row 3", "row 0"]


def test_batches_grow_while_the_endpoint_is_quick_and_halve_when_it_fails(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors, Batches: 4, doubled up to 32; halved for the run's rest."""
    record(recorder, 120)
    pace = Pace()
    run(paths, settings, pace)
    assert [len(texts) for texts in embedder.calls] == [4, 8, 16, 32, 32, 28]
    assert pace.batch == 32
    embedder.calls.clear()
    record(recorder, 60, "t")
    embedder.refuses = lambda text: len(embedder.calls[-1]) > 8
    found = fill(paths, entry(paths, "t"), settings, paths.environ, pace)
    assert [len(texts) for texts in embedder.calls][:4] == [32, 16, 8, 8]
    assert max(len(texts) for texts in embedder.calls[2:]) == 8 and found.pending == 0


def test_a_slow_endpoint_is_not_pressed(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors, Batches: only under a quarter of the time is quick."""
    record(recorder, 20)
    ticks = iter(range(0, 100_000, 40))  # each call takes 40 s of its 80
    fill(paths, entry(paths), settings, paths.environ, Pace(), clock=lambda: float(next(ticks)))
    assert [len(texts) for texts in embedder.calls] == [4] * 5


def test_a_row_that_fails_alone_is_given_up_after_three_tries_and_holds_up_no_other(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors, Failures."""
    record(recorder, 9)
    embedder.refuses = lambda text: text == "row number 5"
    pace = Pace()
    for expected in (0, 0, 1):
        pace.batch = 1
        done = run(paths, settings, pace)
        assert (done.filled, done.skipped) == (8, expected)
        # One row more for the next run, so that the endpoint is seen to work in it.
        assert expected or keep_only(paths, "s", _all_but_the_first(paths)) == 1
    before = len(embedder.calls)
    assert run(paths, settings, Pace()).pending == 0 and len(embedder.calls) == before


def _all_but_the_first(paths: Paths) -> set[tuple[int, int]]:
    shape = read_shape(paths, "s")
    assert shape is not None
    return {each for each in keys_of(paths, "s", shape) if each[0] != 1}


def test_an_endpoint_that_is_down_ends_the_run_at_once(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors, Failures: three single rows in a row before any worked."""
    record(recorder, 50)
    embedder.status = 503
    done = run(paths, settings)
    assert done.is_down and done.filled == 0 and done.pending == 50
    assert [len(texts) for texts in embedder.calls] == [4, 2, 1, 1, 1]
    gone = replace(settings, url="http://127.0.0.1:9/v1")
    assert run(paths, gone).is_down
    assert not os.path.exists(vector_files(paths, "s")[0])


SPOILS = {
    "no json": lambda document: b"<html>",
    "one vector short": lambda document: {**document, "data": document["data"][1:]},
    "an index twice": lambda document: {**document, "data": [document["data"][0]] * 3},
    "of two lengths": lambda d: {
        **d,
        "data": [{**d["data"][0], "embedding": [1.0]}, *d["data"][1:]],
    },
    "not a number": lambda d: {**d, "data": [{**d["data"][0], "embedding": ["x"]}, *d["data"][1:]]},
    "infinite": lambda d: {
        **d,
        "data": [{**d["data"][0], "embedding": [1e999] * DIM}, *d["data"][1:]],
    },
    "a list": lambda document: [],
    "empty vectors": lambda d: {**d, "data": [{**item, "embedding": []} for item in d["data"]]},
}


@pytest.mark.parametrize("name", SPOILS)
def test_an_answer_that_is_not_what_was_asked_for_is_a_failure(
    settings: VectorSettings, embedder: Embedder, name: str
) -> None:
    """House style: untrusted input is decoded; ours."""
    embedder.spoil = SPOILS[name]
    with pytest.raises(EmbeddingFailed) as caught:
        embed(settings, ["secret one", "two", "three"], {}, timeout_seconds=5)
    assert "secret" not in str(caught.value)


def test_the_key_is_sent_and_never_kept(
    paths: Paths, settings: VectorSettings, embedder: Embedder, tmp_path: Path
) -> None:
    """Design, section 4: a setting holds a reference, never the value."""
    (tmp_path / "key").write_text("from-a-file\n")
    for reference, sent in (
        ("env:EMB_KEY", "Bearer from-the-environment"),
        (f"file:{tmp_path}/key", "Bearer from-a-file"),
        ("", ""),
    ):
        environ = {"EMB_KEY": "from-the-environment"}
        embed(replace(settings, key=reference), ["x"], environ, timeout_seconds=5)
        assert embedder.headers[-1].get("authorization", "") == sent
        assert embedder.targets[-1] == "/v1/embeddings"
    for reference in ("env:NOT_SET", "file:/nowhere", "sk-the-key-itself"):
        with pytest.raises(InvalidConfig):
            embed(replace(settings, key=reference), ["x"], {}, timeout_seconds=5)


def test_what_was_forgotten_while_it_was_sent_gets_no_vector(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Issue 3, part 4: vectors go, too; the answer of a slow endpoint comes after that."""
    record(recorder, 3)

    def forget(texts: list[str]) -> None:
        if "row number 1" in texts:
            forget_rows(paths, KEY, select_pattern(paths, "number 1"))

    embedder.hold = forget
    done = run(paths, settings)
    assert done.filled == 2
    shape = read_shape(paths, "s")
    assert shape is not None and {seq for seq, _ in keys_of(paths, "s", shape)} == {1, 3}


def test_another_model_starts_anew(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Vectors: vectors of another model are not mixed."""
    record(recorder, 5)
    run(paths, settings)
    other = replace(settings, model="other")
    with open_session(paths, "s") as reader:
        assert progress(paths, reader, "other").pending == 5
        assert progress(paths, reader, "fake").filled == 5
    assert run(paths, other).filled == 5
    shape = read_shape(paths, "s")
    assert shape is not None and shape.model == "other"
    assert len(keys_of(paths, "s", shape)) == 5


def test_a_record_that_was_cut_off_is_written_over(
    paths: Paths, recorder: Recorder, settings: VectorSettings
) -> None:
    """Ours: a process may be killed while it appends."""
    record(recorder, 4)
    run(paths, settings)
    path = vector_files(paths, "s")[0]
    os.truncate(path, os.stat(path).st_size - 5)
    assert run(paths, settings).added == 1
    shape = read_shape(paths, "s")
    assert shape is not None and os.stat(path).st_size == 4 * shape.record_bytes
    for damage in (b"", b"{", b'{"version": 9}'):
        Path(vector_files(paths, "s")[1]).write_bytes(damage)
        assert run(paths, settings).filled == 4


def _policy(**uses: bool) -> object:
    return decode_policy({"version": 1, "defaults": {"other": uses, "git": uses}}, "/")


@pytest.mark.parametrize(
    ("uses", "url", "is_sent"),
    [
        ({"store": True, "recall": True, "retain": False}, "http://127.0.0.1:1/v1", True),
        ({"store": True, "recall": True, "retain": False}, "https://api.example.org/v1", False),
        ({"store": True, "recall": True, "retain": True}, "https://api.example.org/v1", True),
        ({"store": False, "recall": False, "retain": False}, "http://127.0.0.1:1/v1", False),
        ({"store": False, "recall": False, "retain": True}, "https://api.example.org/v1", False),
    ],
)
def test_words_go_to_another_machine_only_where_policy_lets_them(
    tmp_path: Path, uses: dict[str, bool], url: str, is_sent: bool
) -> None:
    """House style: whatever sends a person's words passes the policy gate."""
    session = Entry(
        session_id="s",
        path="/x/s.v4.db",
        modified_at=0,
        is_in_use=False,
        stamp=(),
        cwd=str(tmp_path),
    )
    policy = _policy(**uses)
    assert may_send(session, policy, VectorSettings(model="m", url=url)) is is_sent  # type: ignore[arg-type]


def test_without_a_model_nothing_is_asked_and_with_one_it_fills_by_itself(
    paths: Paths, recorder: Recorder, settings: VectorSettings, embedder: Embedder
) -> None:
    """Issue 3, part 8: off by default, in the background."""
    os.makedirs(paths.config_dir, exist_ok=True)
    Path(paths.policy_file).write_text(
        "version = 1\n[defaults.unregistered]\nstore = true\n[defaults.other]\nstore = true\n"
    )
    record(recorder, 3)
    faults: list[BaseException] = []
    off = Background(paths, VectorSettings(), faults.append)
    off.look()
    assert off._thread is None and embedder.calls == []
    on = Background(paths, settings, faults.append)
    on.look()
    wait_until(lambda: sum(map(len, embedder.calls)) == 3)
    on.close()
    assert on._thread is not None
    on._thread.join(10)
    assert faults == []
