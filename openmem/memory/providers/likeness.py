"""Whether what a server found is worth telling unasked, judged by words.

Idea: servers rank by meaning and always find something; their scores have scales of their own. A
text passes the floor when it holds enough of what the question is about, by the same rule that the
local provider keeps, with the texts of one answer as the bank.
Trap: a paraphrase without a shared word is left out when nobody asked; a search still finds it.
"""

from __future__ import annotations

from collections.abc import Sequence

from openmem.memory.providers.local import floor
from openmem.memory.providers.local.words import Stemmer, content_count, shortened, units_of


def relevant(question: str, texts: Sequence[str]) -> list[bool]:
    """Say for each text whether it stands above the floor."""
    stemmer = Stemmer()
    try:
        units = units_of(stemmer.stems(shortened(question)))
        told = []
        for text in texts:
            stems = stemmer.stems(text)
            held = set(stems)
            own = [unit for unit in units if held.issuperset(unit.tokens)]
            worth = [1.0] * len(own)
            mass = floor.mass_of(units, [1.0] * len(units))
            told.append(
                floor.is_relevant(own, worth, mass, content=content_count(stems), is_passage=False)
            )
        return told
    finally:
        stemmer.close()
