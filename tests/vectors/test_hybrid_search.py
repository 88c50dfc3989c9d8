"""Searching by meaning beside words: what is found, by which filters, and what never is."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.base.vectors import nearest as nearest_module
from openmem.base.vectors.filling import Pace
from openmem.base.vectors.nearest import nearest
from openmem.base.vectors.settings import VectorSettings
from openmem.context.care.files import session_files
from openmem.context.care.forget import forget_rows, forget_session
from openmem.context.care.select import select_pattern
from openmem.context.search.engine import search
from openmem.context.search.hybrid import fused
from openmem.context.search.query import Page, Query, Scope
from openmem.context.store.catalog import entries
from openmem.context.store.recorder import Recorder
from openmem.context.vectors.fill import fill
from openmem.context.vectors.sidecar import read_shape, stem_of, vector_files
from tests.fakes.conversation import KEY, incoming, reply, user
from tests.fakes.embedding_server import Embedder, vector_of

ROOT = Path(__file__).parents[2]
TALK = [
    user("the automobile has a loud engine"),
    reply("so a vehicle it is"),
    user("we keep rows in sqlite with an index"),
    user("flour goes into the oven"),
    user("the car is red"),
]


def fill_all(paths: Paths, settings: VectorSettings) -> None:
    for entry in entries(paths):
        fill(paths, entry, settings, paths.environ, Pace())


def look(paths: Paths, settings: VectorSettings, text: str, **changes: object) -> Page:
    query = Query(text=text, is_hybrid=True, **changes)  # type: ignore[arg-type]
    return search(paths, query, Scope(all_workspaces=True), settings)


@pytest.fixture
def filled(paths: Paths, recorder: Recorder, settings: VectorSettings) -> Paths:
    recorder.record_request("s", incoming(TALK))
    fill_all(paths, settings)
    return paths


def test_a_row_without_the_word_is_found_by_its_meaning(
    filled: Paths, settings: VectorSettings
) -> None:
    """Context store contract, Search, hybrid; words and counts stay what they are."""
    page = look(filled, settings, "car")
    assert page.mode == "hybrid" and page.total_matches == 1
    assert [hit.excerpt for hit in page.hits[:2]] == [
        "the car is red",
        "the automobile has a loud engine",
    ]
    assert page.hits[0].matched_terms == ("car",) and page.hits[1].matched_terms == ()
    assert page.hits[1].similarity is not None and page.hits[1].similarity > 0.9
    assert page.vectors is not None and (page.vectors.filled, page.vectors.pending) == (5, 0)
    by_words = search(filled, Query(text="car"), Scope(all_workspaces=True), settings)
    assert by_words.mode == "lexical" and len(by_words.hits) == 1


def test_filters_hold_for_what_vectors_find(
    filled: Paths, recorder: Recorder, settings: VectorSettings
) -> None:
    """Context store contract, Search: under the same filters."""
    roles = {hit.role for hit in look(filled, settings, "truck").hits}
    assert roles == {"user"}
    everyone = look(filled, settings, "truck", roles=("user", "assistant"))
    assert "so a vehicle it is" in [hit.excerpt for hit in everyone.hits]
    done = recorder.record_request("s", incoming(TALK))
    recorder.mark_trimmed("s", done.thread, [0], 2)
    trimmed = look(filled, settings, "truck", in_context=False)
    assert [hit.excerpt for hit in trimmed.hits] == ["the automobile has a loud engine"]
    assert len(look(filled, settings, "truck", limit=1).hits) == 1
    hit = look(filled, settings, "flour", context=1).hits[0]
    assert hit.before and hit.after


def test_a_forgotten_row_is_found_by_no_meaning_and_its_vector_is_gone(
    filled: Paths, settings: VectorSettings
) -> None:
    """Issue 3, part 4: vectors, too."""
    size = os.stat(vector_files(filled, "s")[0]).st_size
    forget_rows(filled, KEY, select_pattern(filled, "automobile"))
    shape = read_shape(filled, "s")
    assert shape is not None
    assert os.stat(vector_files(filled, "s")[0]).st_size == size - shape.record_bytes
    texts = [hit.excerpt for hit in look(filled, settings, "truck").hits]
    assert texts and not any("automobile" in text for text in texts)
    forget_session(filled, ensure_key(filled), "s")
    assert session_files(filled) == []


def test_a_vector_that_does_not_fit_its_row_any_more_is_passed_over(
    filled: Paths, recorder: Recorder, settings: VectorSettings
) -> None:
    """Ours: a damaged file is set aside, and the seqs of the new one mean other rows."""
    recorder.close()
    database = Path(filled.sessions_dir, "s.v4.db")
    database.write_bytes(b"no database " * 400)
    recorder.record_request("s", incoming([user(f"other words {n}") for n in range(5)]))
    page = look(filled, settings, "truck")
    assert page.hits == ()
    assert page.vectors is not None and page.vectors.filled == 0


def test_an_endpoint_that_does_not_answer_leaves_the_words(
    filled: Paths, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Search: the response is lexical and says why."""
    embedder.status = 500
    page = look(filled, settings, "car")
    assert [hit.excerpt for hit in page.hits] == ["the car is red"] and page.mode == "lexical"
    assert page.vectors is not None and "status-500" in page.vectors.problem
    missing = look(filled, replace(settings, key="env:NOT_SET"), "car")
    assert missing.hits and missing.vectors is not None and "NOT_SET" in missing.vectors.problem
    assert look(filled, replace(settings, model=""), "car").vectors is None


def test_patterns_never_ask_the_endpoint(
    filled: Paths, settings: VectorSettings, embedder: Embedder
) -> None:
    """Context store contract, Search: `pattern` searches are always lexical."""
    before = len(embedder.calls)
    query = Query(pattern="car", is_hybrid=True)
    page = search(filled, query, Scope(all_workspaces=True), settings)
    assert page.total_matches == 1 and len(embedder.calls) == before


def test_numpy_and_the_standard_library_find_the_same(
    filled: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 9: numpy is an extra."""
    pytest.importorskip("numpy")
    shape = read_shape(filled, "s")
    assert shape is not None
    fast, all_of = nearest(stem_of(filled, "s"), shape, vector_of("a truck in the rain"), 3)

    def absent(*_: object) -> None:
        raise ImportError

    monkeypatch.setattr(nearest_module, "_with_numpy", absent)
    plain, plain_all = nearest(stem_of(filled, "s"), shape, vector_of("a truck in the rain"), 3)
    assert all_of and plain_all and len(fast) == 3
    assert [near.key for near in fast] == [near.key for near in plain]
    for one, other in zip(fast, plain, strict=True):
        assert one.similarity == pytest.approx(other.similarity, abs=1e-5)
    monkeypatch.setattr(nearest_module, "_MOST_WITHOUT_NUMPY", 2)
    newest, was_all = nearest(stem_of(filled, "s"), shape, vector_of("x"), 9)
    assert len(newest) == 2 and not was_all
    assert nearest(stem_of(filled, "s"), shape, [1.0], 3) == ([], True)


def test_two_rankings_become_one_by_their_places() -> None:
    """Context store contract, Search: score 1 / (60 + rank), summed."""
    a, b, c = ("s", 1), ("s", 2), ("s", 3)
    assert fused([[a, b], [b, c]]) == [b, a, c]
    assert fused([[a], [b]]) == [a, b]
    assert fused([[], []]) == []


def test_at_the_command_line_it_is_asked_for_or_set(
    filled: Paths, settings: VectorSettings, embedder: Embedder
) -> None:
    """Issue 3, part 8: ranking by both only where a person wants it."""
    os.makedirs(filled.config_dir, exist_ok=True)
    config = Path(filled.config_file)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "openmem", "context", "search", *words]
        return subprocess.run(
            [*command, "--all-workspaces"], cwd=ROOT, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    refused = run("truck", "--hybrid")
    assert refused.returncode == 2 and "vectors.model" in refused.stderr
    config.write_text(f'[vectors]\nmodel = "fake"\nurl = "{settings.url}"\n')
    assert "Nothing found." in run("truck").stdout
    found = run("truck", "--hybrid")
    assert found.returncode == 0 and "automobile" in found.stdout
    config.write_text(f'[vectors]\nmodel = "fake"\nurl = "{settings.url}"\nrank = true\n')
    assert "automobile" in run("truck").stdout
    assert "Nothing found." in run("truck", "--by-words").stdout
    embedder.status = 500
    assert "Ranked by words alone" in run("car").stderr
