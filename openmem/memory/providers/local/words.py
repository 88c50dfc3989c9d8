"""The words of a question: stems as the index has them, what is passed over, what counts little.

Idea: the index's own tokenizer cuts and stems the question too, so both sides always agree.
Invariant: a stop word never finds anything; a weak word finds, but is no reason to recall.
Trap: a unit is a stem; what the person typed is not known any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from openmem.base.light import dataclass
from openmem.base.tokens import index_text
from openmem.memory.providers.local.word_lists import COMMON, STOP, WEAK

TOKENIZER = "porter unicode61"

WEAK_WEIGHT = 0.3
COMMON_WEIGHT = 0.6

# A long prompt says what it is about at its start, and often again at its end.
_HEAD_CHARACTERS = 3_000
_TAIL_CHARACTERS = 1_500
_MOST_UNITS = 48

_SOLO_RANGES = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17FF),
    (0x2E80, 0xD7FF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """One thing to look for: a stem, or two characters in a row of a script without spaces.

    `place`: of its first occurrence among all tokens of the question. `weight`: 1, or less for a
    word that is in every conversation. `is_name`: it is written like a name.
    """

    tokens: tuple[str, ...]
    place: int
    weight: float = 1.0
    is_name: bool = False

    @property
    def phrase(self) -> str:
        """As the index is asked for characters in a row; of a stem it would take another stem."""
        return '"' + " ".join(self.tokens) + '"'


class Stemmer:
    """Cuts texts by the index's own tokenizer, in memory."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        execute = self._connection.execute
        execute(f"CREATE VIRTUAL TABLE text USING fts5(words, tokenize='{TOKENIZER}')")
        execute("CREATE VIRTUAL TABLE token USING fts5vocab('text', 'instance')")

    def stems(self, text: str) -> list[str]:
        """Return the stems of a text, in order."""
        execute = self._connection.execute
        execute("INSERT INTO text (rowid, words) VALUES (1, ?)", (index_text(text),))
        rows = execute("SELECT term FROM token ORDER BY offset").fetchall()
        execute("DELETE FROM text")
        return [str(row[0]) for row in rows]

    def words(self, text: str) -> list[str]:
        """Return the same tokens without stemming, in order."""
        execute = self._connection.execute
        execute("CREATE VIRTUAL TABLE IF NOT EXISTS plain USING fts5(words, tokenize='unicode61')")
        execute("CREATE VIRTUAL TABLE IF NOT EXISTS word USING fts5vocab('plain', 'instance')")
        execute("INSERT INTO plain (rowid, words) VALUES (1, ?)", (index_text(text),))
        rows = execute("SELECT term FROM word ORDER BY offset").fetchall()
        execute("DELETE FROM plain")
        return [str(row[0]) for row in rows]

    def close(self) -> None:
        self._connection.close()


def shortened(text: str) -> str:
    """Return the part of a question that is looked at."""
    if len(text) <= _HEAD_CHARACTERS + _TAIL_CHARACTERS:
        return text
    return f"{text[:_HEAD_CHARACTERS]}\n{text[-_TAIL_CHARACTERS:]}"


def is_solo(stem: str) -> bool:
    """Return whether a stem is one character of a script without spaces."""
    if stem.isascii() or len(stem) != 1:
        return False
    return any(low <= ord(stem) <= high for low, high in _SOLO_RANGES)


def names_in(text: str) -> str:
    """Return the words of a question that are written like names: capitals inside a sentence."""
    found = []
    before = ""
    for word in text.replace("\n", " \n ").split(" "):
        bare = word.strip("\"'(),;:.!?").removesuffix("'s")
        is_inside = before[-1:].isalnum() or before[-1:] in (",", ";", ")", '"', "'")
        if is_inside and bare.isalpha() and bare[:1].isupper() and bare[1:].islower():
            found.append(bare)
        before = word
    return " ".join(found)


def units_of(stems: list[str], names: Collection[str] = ()) -> list[Unit]:
    """Return what to look for: each once, stop words left out; strong words before weak ones.

    `names`: stems of the words that are written like names.
    """
    found: dict[tuple[str, ...], Unit] = {}
    for place, stem in enumerate(stems):
        if is_solo(stem):
            following = stems[place + 1] if place + 1 < len(stems) else ""
            before = stems[place - 1] if place else ""
            if is_solo(following):
                tokens: tuple[str, ...] = (stem, following)
            elif is_solo(before):
                continue  # the pair before it holds this character
            else:
                tokens = (stem,)
        elif stem in STOP:
            continue
        else:
            tokens = (stem,)
        if tokens not in found:
            found[tokens] = Unit(tokens, place, weight_of_stem(stem), stem in names)
    units = sorted(found.values(), key=lambda unit: -unit.weight)
    return sorted(units[:_MOST_UNITS], key=lambda unit: unit.place)


def weight_of_stem(stem: str) -> float:
    """Return how much a word says by itself, in any conversation."""
    return WEAK_WEIGHT if stem in WEAK else COMMON_WEIGHT if stem in COMMON else 1.0


def content_count(stems: list[str]) -> int:
    """Return how many different stems of a text say something."""
    return len({stem for stem in stems if stem not in STOP})
