"""What was said in a turn becomes passages: short, masked, in order, never twice.

Idea: a passage is a paragraph or a few of what one side said, so that search finds the place and
recall can tell it whole. Invariant: a sentence that was forgotten is cut out before anything is
kept, so the same transcript read again brings nothing back; what the ledger holds already is not
kept again. Trap: passages age out without a tombstone; they may come back, forgotten ones may not.
Standard library only: the child of a hook runs it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openmem.base.clock import now_text, utc_text
from openmem.base.frame import without_own_text
from openmem.base.redact import redact
from openmem.memory.facade import Memories
from openmem.memory.model import Actor, Draft, Source, normalised, sentences_of, storable
from openmem.memory.places import note_place
from openmem.memory.scope import Scope

PASSAGE_CHARACTERS = 1_200
_HEAD_CHARACTERS = 6_000  # of one message; a pasted log says what it is at its start
_TAIL_CHARACTERS = 2_000
_LEAST_CHARACTERS = 16
_AT_ONCE = 200
_INDEXER = "passages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """What one side said. `role`: user, assistant, tool. `at`: UTC text in our format or ""."""

    role: str
    text: str
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How many passages were kept, and how many were there already or may not be kept.

    `after_row`: of the session, behind which the new ones stand.
    """

    kept: int = 0
    after_row: int = 0
    known: int = 0
    forgotten: int = 0
    masked: int = 0


def keep_said(memories: Memories, scope: Scope, key: bytes, said: Sequence[Utterance]) -> Kept:
    """Keep what was said in a session, in order. PolicyDenied, StoreUnavailable."""
    bank = scope.bank_to_write()
    texts: list[tuple[str, str]] = []
    forgotten = masked = 0
    for role, text, at in _joined(said):
        redacted = redact(storable(without_own_text(text)), key)
        masked += redacted.count
        cleared, dropped = _without_forgotten(memories, bank, redacted.text)
        forgotten += dropped
        texts += [
            (f"{role}: {part}", at)
            for part in split(cleared)
            if len(normalised(part)) >= _LEAST_CHARACTERS
        ]
    row = memories.ledger.last_row(bank, scope.session_id)
    actor = Actor(kind="indexer", name=_INDEXER)
    drafts = [
        Draft(
            bank=bank,
            text=text,
            kind="passage",
            actor=actor,
            trust="accepted",
            source=Source(session_id=scope.session_id, row=row + number),
            recorded_at=at,
        )
        for number, (text, at) in enumerate(texts, 1)
    ]
    kept = known = 0
    for start in range(0, len(drafts), _AT_ONCE):
        for outcome in memories.ledger.add_all(drafts[start : start + _AT_ONCE]):
            if isinstance(outcome, str):
                kept += 1
            elif outcome.code == "forgotten":
                forgotten += 1
            else:
                known += 1
    if kept:
        memories.deliver()
        note_place(memories.paths, scope.workspace, scope.bank)
    return Kept(kept=kept, after_row=row, known=known, forgotten=forgotten, masked=masked)


def age_out(memories: Memories, days: int) -> int:
    """Remove passages that are older than so many days, of every bank; 0 days keep all."""
    if days <= 0 or not memories.ledger.exists():
        return 0
    before = utc_text(time.time() - days * 86_400)
    removed = 0
    banks: set[str] = set()
    while ids := memories.ledger.older_passages(before):
        banks |= {memory.bank for memory in memories.ledger.memories(ids).values()}
        removed += memories.ledger.expire(ids, Actor(kind="indexer", name=_INDEXER))
    for bank in sorted(banks):
        memories.ledger.enqueue(memories.provider.name, "erase", "", bank)
    if removed:
        memories.deliver()
    return removed


def split(text: str) -> list[str]:
    """Return a text in parts of at most 1,200 characters, cut where it pauses."""
    text = text.strip()
    if len(text) > _HEAD_CHARACTERS + _TAIL_CHARACTERS:
        text = f"{text[:_HEAD_CHARACTERS]}\n\n{text[-_TAIL_CHARACTERS:]}"
    parts: list[str] = []
    for paragraph in _pieces(text, PASSAGE_CHARACTERS):
        if parts and len(parts[-1]) + len(paragraph) + 2 <= PASSAGE_CHARACTERS:
            parts[-1] += f"\n\n{paragraph}"
        else:
            parts.append(paragraph)
    return parts


_PAUSES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])"),
)


def _pieces(text: str, size: int, level: int = 0) -> list[str]:
    text = text.strip()
    if not text:
        return []
    if len(text) <= size:
        return [text]
    if level < len(_PAUSES):
        found = [part for part in _PAUSES[level].split(text) if part]
        return [piece for part in found for piece in _pieces(part, size, level + 1)]
    pieces = []
    while len(text) > size:
        at = text.rfind(" ", size // 2, size)
        at = at if at > 0 else size
        pieces.append(text[:at].strip())
        text = text[at:].strip()
    return [*pieces, text] if text else pieces


def _joined(said: Iterable[Utterance]) -> list[tuple[str, str, str]]:
    """Return (role, text, at), with the tool calls of one stretch in one text."""
    joined: list[tuple[str, str, str]] = []
    for one in said:
        role = one.role if one.role != "tool" else "assistant used"
        at = one.at or now_text()
        if role == "assistant used" and joined and joined[-1][0] == role:
            joined[-1] = (role, f"{joined[-1][1]}\n{one.text}", joined[-1][2])
        elif one.text.strip():
            joined.append((role, one.text, at))
    return joined


def _without_forgotten(memories: Memories, bank: str, text: str) -> tuple[str, int]:
    """Return a text without what was forgotten in the bank: all of it, a line, or a sentence."""
    lines = text.splitlines(keepends=True)
    if any(memories.ledger.gone(bank, [text])):
        return "", 1
    gone = 0
    kept: list[str] = []
    for line, is_gone in zip(lines, memories.ledger.gone(bank, lines), strict=True):
        if is_gone and normalised(line):
            gone += 1
            continue
        sentences = sentences_of(line)
        flags = memories.ledger.gone(bank, sentences) if len(sentences) > 1 else [False]
        if not any(flags):
            kept.append(line)
            continue
        left = [s for s, out in zip(sentences, flags, strict=True) if not (out and normalised(s))]
        gone += len(sentences) - len(left)
        kept.append("".join(left))
    return "".join(kept), gone
