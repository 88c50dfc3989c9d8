"""Filters of words: they spare the opening of files, and never hide a row."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.care.forget import forget_rows, forget_session
from openmem.context.care.select import select_rows
from openmem.context.search import pool
from openmem.context.search.engine import search
from openmem.context.search.query import Query, Scope
from openmem.context.search.terms import terms_of
from openmem.context.store import word_filter
from openmem.context.store.catalog import Entry, entries, entry_of
from openmem.context.store.recorder import Recorder
from openmem.context.store.word_filter import WordFilter, words_file
from tests.fakes.conversation import incoming, user

EVERYWHERE = Scope(all_workspaces=True)


@pytest.fixture
def paths(home: Path) -> Paths:
    made = Paths({"HOME": str(home)})
    ensure_key(made)
    return made


def store(paths: Paths, sid: str, *texts: str) -> None:
    recorder = Recorder(paths, ensure_key(paths))
    recorder.record_request(sid, incoming([user(text) for text in texts]))
    recorder.close()


def refresh(paths: Paths) -> int:
    return word_filter.refresh(paths, seconds=60.0, settled_seconds=0.0)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The sessions whose files were opened by searches."""
    seen: list[str] = []
    real = pool.open_entry

    def noted(entry: Entry, **more: bool) -> object:
        seen.append(entry.session_id)
        return real(entry, **more)

    monkeypatch.setattr(pool, "open_entry", noted)
    yield seen


def sessions_with(paths: Paths, text: str) -> list[str]:
    page = search(paths, Query(text=text, roles=()), EVERYWHERE)
    return sorted({hit.session_id for hit in page.hits})


def test_files_that_cannot_hold_the_word_stay_closed(paths: Paths, opened: list[str]) -> None:
    """Issue 3, `bench store`: 200 sessions cold at most ripgrep's time."""
    for number in range(5):
        store(paths, f"s{number}", f"word{number} and more", "common text")
    assert refresh(paths) == 5
    assert sessions_with(paths, "word3") == ["s3"]
    assert set(opened) == {"s3"}
    opened.clear()
    assert sessions_with(paths, "common") == [f"s{number}" for number in range(5)]
    assert set(opened) == {f"s{number}" for number in range(5)}


def test_without_filters_every_file_is_opened(paths: Paths, opened: list[str]) -> None:
    """Ours: the filters are a cache; the counterpart of the test above."""
    for number in range(3):
        store(paths, f"s{number}", f"word{number}")
    assert sessions_with(paths, "word1") == ["s1"]
    assert set(opened) == {"s0", "s1", "s2"}


def test_what_came_after_the_filter_is_found(paths: Paths) -> None:
    """Issue 3: counts are right; a filter counts only for the file it was made of."""
    store(paths, "grows", "first")
    store(paths, "other", "second")
    refresh(paths)
    assert sessions_with(paths, "quokka") == []
    store(paths, "grows", "first", "a quokka")
    assert sessions_with(paths, "quokka") == ["grows"]
    assert refresh(paths) == 1 and refresh(paths) == 0
    assert sessions_with(paths, "quokka") == ["grows"]


def test_a_session_in_use_is_opened_and_gets_no_filter(paths: Paths) -> None:
    """Ours: what a writer holds changes while it is read."""
    store(paths, "rests", "text")
    recorder = Recorder(paths, ensure_key(paths))
    recorder.record_request("open", incoming([user("a quokka")]))
    try:
        assert refresh(paths) == 1
        assert sessions_with(paths, "quokka") == ["open"]
    finally:
        recorder.close()


def test_a_file_written_a_moment_ago_has_to_wait(paths: Paths) -> None:
    """Ours: two writes within one tick of the clock leave one stamp."""
    store(paths, "young", "text")
    assert word_filter.refresh(paths, settled_seconds=60.0) == 0
    path = f"{paths.sessions_dir}/young.v4.db"
    then = os.stat(path).st_mtime - 120
    os.utime(path, (then, then))
    assert word_filter.refresh(paths, settled_seconds=60.0) == 1


def test_forgetting_drops_the_filter(paths: Paths) -> None:
    """Issue 3, Forgetting: nothing that was made of the rows stays."""
    for sid in ("one", "two", "three"):
        store(paths, sid, f"a quokka, {sid}", "kept")
    refresh(paths)
    entry, key = entry_of(paths, "one"), ensure_key(paths)
    assert entry is not None
    forget_rows(paths, key, select_rows(paths, entry, [1]))
    forget_session(paths, key, "two")
    assert filtered(paths) == {"three"}
    assert sessions_with(paths, "quokka") == ["three"]
    refresh(paths)
    assert filtered(paths) == {"one", "three"}


def filtered(paths: Paths) -> set[str]:
    """Return the sessions that have a filter."""
    connection = sqlite3.connect(words_file(paths))
    try:
        in_slices = {row[0] for row in connection.execute("SELECT session_id FROM slice")}
        assert in_slices == {row[0] for row in connection.execute("SELECT session_id FROM session")}
        return in_slices
    finally:
        connection.close()


def test_filters_of_sessions_that_are_gone_go(paths: Paths) -> None:
    """Ours: retention removes files and knows nothing of this cache."""
    store(paths, "stays", "text")
    store(paths, "goes", "text")
    refresh(paths)
    os.unlink(f"{paths.sessions_dir}/goes.v4.db")
    refresh(paths)
    assert filtered(paths) == {"stays"}


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough for a head" * 9])
def test_a_damaged_cache_hides_nothing_and_is_made_anew(paths: Paths, content: bytes) -> None:
    """Ours: a cache is never the reason that something is not found."""
    store(paths, "one", "a quokka")
    store(paths, "two", "text")
    refresh(paths)
    Path(words_file(paths)).write_bytes(content)
    assert sessions_with(paths, "quokka") == ["one"]
    assert refresh(paths) == 2
    assert sessions_with(paths, "quokka") == ["one"]


@pytest.mark.parametrize("is_replaced", [True, False])
def test_filters_of_another_key_rule_nothing_out(paths: Paths, is_replaced: bool) -> None:
    """Ours: a key that was lost or restored from elsewhere must not hide sessions."""
    store(paths, "one", "a quokka")
    store(paths, "two", "text")
    refresh(paths)
    os.unlink(paths.key_file)
    if is_replaced:
        ensure_key(paths)
    assert sessions_with(paths, "quokka") == ["one"]
    assert refresh(paths) == (2 if is_replaced else 0)


WORDS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12), max_size=8
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(said=WORDS)
def test_no_word_that_is_there_is_ruled_out(paths: Paths, said: list[str]) -> None:
    """Ours: no false negative, whatever is said: marks, scripts without spaces, emoji."""
    for sid in ("some", "none"):
        for path in Path(paths.sessions_dir).glob(f"{sid}*"):
            path.unlink()
    text = " ".join(said) or "nothing"
    store(paths, "some", text, "KEY-7 foo_bar naïve 修复悬空 🚀 ﾃﾞｰﾀ")
    refresh(paths)
    found = entries(paths)
    words = WordFilter(paths)
    query = f"{text} KEY-7 foo_bar NAIVE 悬空 🚀 データ"
    phrases = [term.phrase for term in terms_of(query)]
    assert all(not ruled_out for ruled_out in words.rule_out(phrases, found))
    assert words.rule_out(['"quokkafish"'], found) == [{"some"}]
    words.close()
