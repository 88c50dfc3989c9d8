"""What a session is told unasked: what is known about the project, and what fits a prompt.

Idea: whole statements inside one frame, as many as the allowance holds; nothing relevant, nothing
told. Invariant: what is told is marked as data, cannot leave its frame, and is not told twice in a
session. Trap: an agent adds the text of a resumed session again when a single byte differs, so the
text at a resume is made from what was told at the start, in the same order and with the same marks.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from openmem.base.frame import carries_own_text, escape_recalled, framed
from openmem.base.light import dataclass
from openmem.memory.looking import Found, Looker, is_shown
from openmem.memory.model import Kind, Memory, normalised
from openmem.memory.scope import Scope

PROMPT_CHARACTERS = 8_000
SHOWN_AT_MOST = 200
_PASSAGE_SHARE = 0.5  # of the room at a prompt; what a person said stands behind what was decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A text for the model, "" for nothing, and what is in it: (id, mark), in order."""

    text: str = ""
    shown: tuple[tuple[str, str], ...] = ()


def tokens_of(text: str) -> int:
    """Return an upper estimate of the tokens of a text; no tokenizer is asked."""
    wide = sum(1 for character in text if ord(character) > 0x2FF)
    return (len(text) - wide) * 10 // 32 + wide + 1


def mark_of(memory: Memory) -> str:
    """Return how far a memory can be trusted, as it is told."""
    if memory.kind == "passage":
        return "said"
    return "" if memory.trust == "accepted" else "unreviewed"


def line_of(memory: Memory, mark: str) -> str:
    """Return a memory as it is told: whole, with its id, so that it can be corrected."""
    day = memory.recorded_at[:10]
    words = {"said": f"said {day}", "unreviewed": "not reviewed"}.get(mark, "")
    return f"- ({memory.id}{', ' if words else ''}{words}) {memory.text}"


def at_start(
    memories: Looker, scope: Scope, *, tokens: int, told: Sequence[tuple[str, str]] = ()
) -> Recalled:
    """Return what is known about the project, in at most `tokens`.

    `told`: what this session was told at its start, if it is resumed; then exactly that is
    returned, as far as it still holds.
    """
    if tokens <= 0 or not scope.decision.recall:
        return Recalled()
    if told:
        bank = scope.bank_to_read()
        now = memories.ledger.memories([memory_id for memory_id, _ in told])
        held = [(now[i], mark) for i, mark in told if i in now and is_shown(now[i], bank)]
        return _fit(held, tokens=tokens)
    known = memories.known(scope, limit=SHOWN_AT_MOST)
    return _fit([(memory, mark_of(memory)) for memory in _distinct(known)], tokens=tokens)


def at_prompt(
    memories: Looker,
    scope: Scope,
    prompt: str,
    *,
    hits: int,
    told: Collection[str] = (),
    seconds: float = 0.0,
    kinds: tuple[Kind, ...] = (),
) -> Recalled:
    """Return what fits a prompt and was not told yet: at most `hits`, 8,000 characters in all.

    `kinds`: empty for all. `seconds`: what the provider may take; TimedOut, StoreUnavailable when
    it cannot answer in it.
    """
    if hits <= 0 or not scope.decision.recall or not prompt.strip():
        return Recalled()
    found = memories.search(
        scope,
        prompt,
        limit=hits + len(told),
        kinds=kinds,
        has_floor=True,
        is_quick=True,
        seconds=seconds,
        without_session=scope.session_id,
    )
    fresh = [one for one in found if one.memory.id not in told and not _is_own(one, scope)]
    marked = [(memory, mark_of(memory)) for memory in _distinct(one.memory for one in fresh)]
    return _fit(marked[:hits], characters=PROMPT_CHARACTERS)


def _is_own(found: Found, scope: Scope) -> bool:
    """Return whether the session itself said it: then it is in its context."""
    return bool(scope.session_id) and found.memory.source.session_id == scope.session_id


def _distinct(memories: Iterable[Memory]) -> list[Memory]:
    """Return memories without those that say the same as one before them."""
    seen: set[str] = set()
    kept = []
    for memory in memories:
        normal = normalised(memory.text)
        if normal not in seen and not carries_own_text(memory.text):
            seen.add(normal)
            kept.append(memory)
    return kept


def _fit(marked: Sequence[tuple[Memory, str]], *, tokens: int = 0, characters: int = 0) -> Recalled:
    """Return as many whole lines as the room holds; one that is too long makes way for the next."""
    measure = tokens_of if tokens else len
    room = (tokens or characters) - measure(framed([""]))
    passage_room = room * _PASSAGE_SHARE if characters else room
    lines: list[str] = []
    shown: list[tuple[str, str]] = []
    for memory, mark in marked[:SHOWN_AT_MOST]:
        line = line_of(memory, mark)
        size = measure(escape_recalled(line)) + 1
        is_passage = memory.kind == "passage"
        if size > room or (is_passage and size > passage_room):
            continue
        lines.append(line)
        shown.append((memory.id, mark))
        room -= size
        passage_room -= size if is_passage else 0
    return Recalled(text=framed(lines), shown=tuple(shown))
