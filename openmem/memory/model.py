"""The values of the memory half: statements, their trust and times, and the ledger's entries.

A statement is one remembered sentence: it has trust, and times between which it holds. A passage
is a kept turn: searchable, aged out, never reviewed.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

from openmem.base.light import dataclass

Kind = Literal["statement", "passage"]
Trust = Literal["pending", "accepted", "rejected"]
State = Literal["active", "superseded", "forgotten", "expired"]
ActorKind = Literal["person", "agent", "importer", "indexer", "model"]

KINDS: tuple[Kind, ...] = ("statement", "passage")
TRUSTS: tuple[Trust, ...] = ("pending", "accepted", "rejected")
LONGEST_STATEMENT = 4_000
LONGEST_PASSAGE = 16_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who did it. `name`: an agent's name, a file's, or the person's login; never a secret."""

    kind: ActorKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where it was said: a session and a row in its store, "" and 0 when not known."""

    session_id: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A statement or passage as it stands now.

    `text`: masked; "" once forgotten. Times are UTC text in our format, "" for open ends.
    `supersedes`, `superseded_by`: ids, "" for none. `ended_at`: when it stopped being active, ""
    while it is.
    """

    id: str
    bank: str
    kind: Kind
    text: str
    trust: Trust
    state: State
    actor: str
    source: Source
    recorded_at: str
    valid_from: str = ""
    valid_to: str = ""
    supersedes: str = ""
    superseded_by: str = ""
    ended_at: str = ""

    def holds_at(self, moment: str) -> bool:
        """Return whether it is valid at a moment (UTC text); times sort as text.

        It holds from `valid_from`, or else from when it was recorded, until `valid_to` or until it
        was replaced.
        """
        if moment < (self.valid_from or self.recorded_at):
            return False
        ends = [end for end in (self.valid_to, self.ended_at) if end]
        return not ends or moment < min(ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A memory that is about to be recorded. `text`: masked. Times as in `Memory`.

    `recorded_at`: when it was recorded elsewhere (an import), "" for now. `memory_id`: "" for a
    new one. `allow_same`: also when an active one says the same. `is_proposal`: what it supersedes
    stays active until a person accepts this one. `superseded_by`: it is replaced already.
    """

    bank: str
    text: str
    kind: Kind
    actor: Actor
    trust: Trust
    source: Source = Source()
    valid_from: str = ""
    valid_to: str = ""
    recorded_at: str = ""
    memory_id: str = ""
    supersedes: str = ""
    allow_same: bool = False
    is_proposal: bool = False
    superseded_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One act, chained to the one before. `detail`: keys and values of the act, never text."""

    number: int
    at: str
    verb: str
    memory_id: str
    bank: str
    actor: str
    provider: str
    detail: str
    text_digest: str
    previous: str
    digest: str


_ENDS = " \t\n.,;:!?\"'`*_-\u2026"
_INVISIBLE = dict.fromkeys(
    (0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF)
)


def normalised(text: str) -> str:
    """Return the text by which two statements are the same: case, space and end marks aside."""
    folded = unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold()
    return " ".join(folded.split()).strip(_ENDS)


def storable(text: str) -> str:
    """Return text as it can be stored: no NUL, lone surrogates written out (`\\ud83d`)."""
    return text.replace("\x00", "").encode("utf-8", "backslashreplace").decode("utf-8")


def sentences_of(text: str) -> list[str]:
    """Return the sentences and line ends of a text; put together they are the text again."""
    import re  # compiled at the first text that needs it

    return re.findall(r"[^\n.!?。！？]+[.!?。！？]*[ \t]*|\n+|[.!?。！？]+[ \t]*", text)
