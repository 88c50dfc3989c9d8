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
        self._parts: _Parts | None = None

    def present(self, lowered: str) -> list[int]:
        """Return the numbers of the words that a text in lower case holds, in order."""
        self._looked_through += len(lowered)
        if self._looked_through <= _PLAIN_CHARACTERS:
            return [number for number, word in enumerate(self._words) if word in lowered]
        words, whole = self._words, self._whole
        return sorted(n for n in self._candidates(lowered) if n in whole or words[n] in lowered)

    def _candidates(self, lowered: str) -> set[int]:
        found = set(self._always)
        data = lowered.encode("utf-8", "surrogatepass").translate(_APART)
        unknown = set(data.split()).difference(self._without)
        known = self._with.keys() & unknown
        for word in known:
            found.update(self._with[word])
        unknown -= known
        if unknown:
            found.update(*self._learnt(unknown).values())
        return found

    def _learnt(self, unknown: set[bytes]) -> dict[bytes, tuple[int, ...]]:
        """Return those of the words that hold a keyword's part, with the keywords' numbers."""
        if self._parts is None:
            self._parts = _Parts(self._by_part)
        found = {
            word: tuple(number for part in parts for number in self._by_part[part])
            for word, parts in self._parts.in_each(unknown).items()
        }
        if len(self._without) + len(self._with) + len(unknown) > _WORDS_REMEMBERED:
            self._without.clear()
            self._with.clear()
        if len(unknown) <= _WORDS_REMEMBERED:
            short = {word for word in unknown if len(word) <= _LONGEST_REMEMBERED}
            self._with.update((word, numbers) for word, numbers in found.items() if word in short)
            self._without |= short.difference(found)
        return found


class _Parts:
    """Finds which parts stand in words, in one pass over all of them."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._shortest = re.compile(b"(?=(%b))" % _trie(parts))
        ordered = sorted(parts)
        self._longer = {
            part: [other for other in ordered if other != part and other.startswith(part)]
            for part in ordered
        }

    def in_each(self, words: Iterable[bytes]) -> dict[bytes, set[bytes]]:
        """Return the words that hold some of the parts, and which."""
        joined = b"\n%b\n" % b"\n".join(words)
        found: dict[bytes, set[bytes]] = {}
        for match in self._shortest.finditer(joined):
            at, part = match.start(), match[1]
            word = joined[joined.rindex(b"\n", 0, at) + 1 : joined.index(b"\n", at)]
            parts = found.setdefault(word, set())
            parts.add(part)
            parts.update(other for other in self._longer[part] if joined.startswith(other, at))
        return found


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
