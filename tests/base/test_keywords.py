"""Keywords are found as one search a keyword would find them, whatever was seen before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.base.redact import keywords, scan
from openmem.base.redact.keywords import Keywords

WORDS = [word for word, _ in scan._index()]
PIECES = st.sampled_from([*WORDS, *[word[:-1] for word in WORDS], " ", "\n", "_", "-", ".", "x",
                          "é", "\ud800", "한", "\x00", "a1" * 20])  # fmt: skip
TEXTS = st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def words_from_the_first_text_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keywords, "_PLAIN_CHARACTERS", 0)


def one_by_one(text: str) -> list[int]:
    return [number for number, word in enumerate(WORDS) if word in text]


@given(TEXTS)
@settings(max_examples=300)
def test_they_are_the_same_as_one_search_each(texts: list[str]) -> None:
    """Ours: none is missed at a word's end, in another word, or beside what is no ASCII."""
    looking = Keywords(WORDS)
    for text in texts:
        assert looking.present(text) == one_by_one(text)


def test_each_keyword_is_found_alone_and_inside_a_word() -> None:
    """Ours: a text has a keyword wherever the substring stands."""
    looking = Keywords(WORDS)
    for number, word in enumerate(WORDS):
        for text in (word, f"a{word}b", f"{word}{word}", f"é{word}\n", word.replace(" ", "\t")):
            found = looking.present(text)
            assert found == one_by_one(text)
            assert (number in found) is (word in text)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours: the recorder's process runs for days."""
    monkeypatch.setattr(keywords, "_WORDS_REMEMBERED", 50)
    looking = Keywords(WORDS)
    for number in range(400):
        text = f"thing{number} and{number}key " + "z" * 5_000
        assert looking.present(text) == one_by_one(text)
        assert len(looking._with) + len(looking._without) <= 50
    assert not any(len(word) > 1_000 for word in looking._without)


def test_the_first_texts_need_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design, Floors: a hook sees one prompt and must not pay for what only a session gains."""
    monkeypatch.setattr(keywords, "_PLAIN_CHARACTERS", 1_000)
    looking = Keywords(WORDS)
    assert looking.present("my api_key") == one_by_one("my api_key")
    assert looking._parts is None and not looking._without
    looking.present("x" * 1_000)
    assert looking.present("my api_key") == one_by_one("my api_key")
    assert looking._parts is not None
