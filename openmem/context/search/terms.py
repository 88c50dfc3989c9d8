"""From what a person or a model typed to terms that can be looked up.

Idea: a term is a phrase of the index, and, when it holds more than letters and digits (`KEY-7`,
`foo_bar`, `100%`), also a literal text that a line must hold. Nothing typed is ever an operator.
Trap: the index drops punctuation. A term of nothing else has no phrase and is only looked for
literally; a term whose literal form is nowhere falls back, to inside of words, then to the phrase.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from openmem.base.tokens import index_text
from openmem.context.rows import escape_odd

_WORD = re.compile(r'"([^"]*)"|(\S+)')
_WORD_CHARACTER = re.compile(r"[^\W_]|\ue000")
_MARK = re.compile(r"[^\w\s\ue000]|_")
_ROUND_A_WORD = ".,;:!?()[]{}<>\"'`“”‘’«»"
TERM_LIMIT = 16
_TEXT_LIMIT = 2_000


class Tier(Enum):
    """How a term is looked for."""

    INDEX = "index"  # the phrase; and, for a term with punctuation, the literal text too
    LITERAL = "literal"  # the literal text anywhere, by reading every line
    PHRASE = "phrase"  # only the phrase, whatever stands between its words


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One thing to look for. `phrase`: for MATCH, "" when the index can hold none of it.

    `literal`: what a line has to hold besides, "" when the phrase says it all.
    """

    text: str
    phrase: str
    literal: str

    @property
    def like(self) -> str:
        """The term's text as a LIKE pattern, to be used with ESCAPE '\\'."""
        escaped = re.sub(r"([\\%_])", r"\\\1", self.text)
        return f"%{escaped}%"

    def first_tier(self) -> Tier:
        return Tier.INDEX if self.phrase else Tier.LITERAL

    def next_tier(self, tier: Tier) -> Tier | None:
        """Return how to look when this way found nothing anywhere, None for no other way."""
        if tier is Tier.INDEX:
            return Tier.LITERAL if self.literal else None
        return Tier.PHRASE if tier is Tier.LITERAL and self.phrase and self.literal else None


def terms_of(text: str) -> list[Term]:
    """Return the distinct terms of a query, at most 16. A quoted part is one term."""
    found: dict[str, Term] = {}
    for quoted, word in _WORD.findall(text[:_TEXT_LIMIT]):
        term = term_of(quoted.strip() or word)
        if term and term.text.casefold() not in found:
            found[term.text.casefold()] = term
    terms = list(found.values())
    # A lone bracket or quote mark beside words says nothing; alone it is what is looked for.
    telling = [term for term in terms if term.phrase or len(term.text) > 1]
    return (telling or terms)[:TERM_LIMIT]


def term_of(text: str) -> Term | None:
    """Return the term for a text, None when nothing is left of it."""
    text = escape_odd(text.replace("\x00", "").strip())  # as it is stored
    if not text:
        return None
    indexed = index_text(text)
    if not _WORD_CHARACTER.search(indexed):
        return Term(text=text, phrase="", literal=text)
    # Marks that a sentence puts round a word are not part of it: "(see KEY-7)." looks for KEY-7.
    text = text.strip(_ROUND_A_WORD) or text
    indexed = index_text(text)
    return Term(
        text=text,
        phrase='"' + indexed.replace('"', " ").strip() + '"',
        literal=text if _MARK.search(indexed) else "",
    )


def whole_phrase(terms: list[Term]) -> str:
    """Return the phrase of all the words in order, "" when there is just one."""
    words = [term.phrase.strip('"') for term in terms if term.phrase]
    return f'"{" ".join(words)}"' if len(words) > 1 else ""
