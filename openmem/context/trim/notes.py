"""What somebody else has to say of a cut turn: made once, kept elsewhere, shown with the cut.

Idea: the memory half may know what the cut turn is about, and this pillar does not import it; who
runs the trim hands in `Notes`. Invariant: a note is made once for a cut and read again for each
request, so it stays the same as long as its keeper leaves it alone, and is gone from requests when
its keeper erased it. Trap: it stands outside the pointer, as data in a frame of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from openmem.context.rows import reminder_texts

_MOST_SAID = 8_000


class Notes(Protocol):
    """Makes notes and finds them again. Neither raises: no note is a good answer."""

    def make(self, sid: str, said: str, is_held: Callable[[str], bool]) -> str:
        """Return the mark of a new note on what was said in the cut turn, "" for none.

        `is_held(text)`: whether the request as it is cut holds a text already.
        """
        ...

    def text(self, sid: str, mark: str) -> str:
        """Return a note's text as it is now, "" when it is gone."""
        ...


def said_in(raw: bytes) -> str:
    """Return what a person said in an item, in any wire format; reminders left out."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return ""  # the trim itself reads more than this decoder; then nothing is looked up
    content = value.get("content") if isinstance(value, dict) else None
    if isinstance(content, str):
        texts = [content]
    else:
        blocks = content if isinstance(content, list) else []
        found = [block.get("text") for block in blocks if isinstance(block, dict)]
        texts = [text for text in found if isinstance(text, str)]
    return "\n".join(text for text in texts if reminder_texts(text) is None)[:_MOST_SAID]
