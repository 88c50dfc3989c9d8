"""Which of several hundred keywords a text holds, without an engine that looks for all at once.

Idea: a session says the same words again and again. A text is cut at everything but ASCII letters,
digits, underscores and hyphens; whether a word holds the longest such part of a keyword is found
out once, and remembered. A keyword that is more than this part is then looked for itself.
Trap: words that are met once cost more than one search a keyword, so the first texts, which are
all that a hook sees, are looked through in that way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_PLAIN_CHARACTERS = 1 << 18
_SHORTEST_PART = 2
_LONGEST_REMEMBERED = 32
_WORDS_REMEMBERED = 50_000
# With the underscore and the hyphen, which many keywords hold; with the full stop, too, there would
# be half as many words again, and most of them new.
_OF_WORDS = b"abcdefghijklmnopqrstuvwxyz0123456789_-"
_PART = re.compile("[a-z0-9_-]+")
_APART = bytes(byte if byte in _OF_WORDS else 32 for byte in range(256))


class Keywords:
    """Looks for `words`, which are lower case. Remembers some megabytes of a text's words."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._looked_through = 0
        self._without: set[bytes] = set()
        self._with: dict[bytes, tuple[int, ...]] = {}
        self._by_part: dict[bytes, list[int]] = {}
        self._always: list[int] = []
        self._whole: set[int] = set()
        for number, word in enumerate(words):
            part = max(_PART.findall(word), key=len, default="")
            if len(part) < _SHORTEST_PART:
                self._always.append(number)
            else:
                self._by_part.setdefault(part.encode(), []).append(number)
                if part == word:
                    self._whole.add(number)
        self._any_part: re.Pattern[bytes] | None = None

    def present(self, lowered: str) -> list[int]:
        """Return the numbers of the words that a text in lower case holds, in order."""
        if self._looked_through < _PLAIN_CHARACTERS:
            self._looked_through += len(lowered)
            return [number for number, word in enumerate(self._words) if word in lowered]
        words, whole = self._words, self._whole
        return sorted(n for n in self._candidates(lowered) if n in whole or words[n] in lowered)

    def _candidates(self, lowered: str) -> set[int]:
        found = set(self._always)
        data = lowered.encode("utf-8", "surrogatepass").translate(_APART)
        for word in set(data.split()).difference(self._without):
            numbers = self._with.get(word)
            found.update(self._looked_at(word) if numbers is None else numbers)
        return found

    def _looked_at(self, word: bytes) -> tuple[int, ...]:
        """Return the keywords whose part a word holds, and remember them."""
        if self._any_part is None:
            self._any_part = re.compile(_trie(self._by_part))
        numbers: tuple[int, ...] = ()
        if self._any_part.search(word):
            numbers = tuple(n for part, of in self._by_part.items() if part in word for n in of)
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self._without) + len(self._with) >= _WORDS_REMEMBERED:
                self._without.clear()
                self._with.clear()
            if numbers:
                self._with[word] = numbers
            else:
                self._without.add(word)
        return numbers


def _trie(parts: Iterable[bytes]) -> bytes:
    """Return a pattern for any of these, by common beginnings: one try at a place, not hundreds."""
    tree: dict[int, dict] = {}  # type: ignore[type-arg]
    for part in parts:
        at = tree
        for byte in part:
            at = at.setdefault(byte, {})
        at[-1] = {}
    return _pattern(tree)


def _pattern(tree: dict[int, dict]) -> bytes:  # type: ignore[type-arg]
    if -1 in tree:
        return b""  # a part ends here: what follows does not matter
    branches = [bytes([byte]) + _pattern(tree[byte]) for byte in sorted(tree)]
    return branches[0] if len(branches) == 1 else b"(?:%b)" % b"|".join(branches)
