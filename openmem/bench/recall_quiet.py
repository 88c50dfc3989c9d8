"""How often something is told unasked that does not belong: the floor of recall, measured.

Trap: a question in its own bank may bring what answers it; in a bank of people whom it does not
name nothing may come, and for small talk nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openmem.agents.claude_code.transcript import read_transcript
from openmem.agents.transcript import Cursor
from openmem.base.errors import Usage
from openmem.bench.conversations import Conversation, Question, number_of
from openmem.bench.recall_report import Quiet
from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.local.provider import LocalProvider
from openmem.memory.retain import split

_SMALL_TALK = (
    "ok", "okay", "continue", "yes", "no", "go on", "thanks", "thank you", "looks good", "do it",
    "please fix it", "run the tests", "commit this", "try again", "why?", "what happened?",
    "hello", "stop", "undo that", "make it faster", "ship it", "next", "sounds good, go ahead",
    "can you explain what you did?", "read the file again", "write a test for it",
)  # fmt: skip


def told_unasked(
    held_out: Sequence[Conversation], banks: Sequence[LocalProvider], transcripts: str
) -> list[Quiet]:
    """Return how often each kind of prompt brings something. `banks`: of the conversations.

    `transcripts`: a folder of Claude Code's files, "" for none. Usage when it holds no prompts.
    """
    own = _told(
        "own bank",
        (
            (question, number, bank)
            for conversation, bank in zip(held_out, banks, strict=True)
            for number, question in enumerate(conversation.questions)
        ),
    )
    pairs = [
        (question, other, bank)
        for conversation in held_out
        for other, bank in zip(held_out, banks, strict=True)
        if other is not conversation
        for question in conversation.questions
    ]
    strangers = _told(
        "other people's banks",
        ((_unanswered(q), 0, bank) for q, other, bank in pairs if not _shares_a_name(q, other)),
    )
    namesakes = _told(
        "banks of namesakes",
        ((_unanswered(q), 0, bank) for q, other, bank in pairs if _shares_a_name(q, other)),
    )
    talk = _told(
        "small talk",
        ((_unasked(text), 0, bank) for text in _SMALL_TALK for bank in banks),
    )
    found = [own, strangers, namesakes, talk]
    if transcripts:
        sessions = real_sessions(transcripts)
        prompts = dict.fromkeys(text for one in sessions for text in one.prompts)
        found.append(
            _told("real prompts", ((_unasked(text), 0, bank) for text in prompts for bank in banks))
        )
        found.append(_across(sessions))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """What a person typed in a session, and all that was said in it."""

    prompts: tuple[str, ...]
    said: tuple[str, ...]


def _across(sessions: Sequence[_Session]) -> Quiet:
    """Return how often prompts bring turns of other sessions; some are of the same project."""
    banks = []
    for session in sessions:
        bank = LocalProvider(None)
        items = [
            Item(
                id=f"m-{n:016x}",
                text=text,
                kind="passage",
                recorded_at="",
                session_id="s",
                row=n + 1,
            )
            for n, text in enumerate(part for said in session.said for part in split(said))
        ]
        bank.remember("bank", items)
        banks.append(bank)
    told = _told(
        "other real sessions",
        (
            (_unasked(text), 0, bank)
            for session in sessions
            for other, bank in zip(sessions, banks, strict=True)
            if other is not session
            for text in session.prompts
            if text not in other.prompts
        ),
    )
    for bank in banks:
        bank.close()
    return told


def _told(name: str, asked: Iterable[tuple[Question, int, LocalProvider]]) -> Quiet:
    count = told = right = memories = hit = 0
    can_be_right = False
    for question, _, bank in asked:
        count += 1
        ask = Ask(text=question.text, limit=8, has_floor=True, is_quick=True)
        numbers = {number_of(one.id) for one in bank.recall("bank", ask)}
        told += bool(numbers)
        memories += len(numbers)
        right += bool(numbers & question.gold)
        hit += len(numbers & question.gold)
        can_be_right = can_be_right or bool(question.gold)
    return Quiet(
        name=name,
        asked=count,
        told=told,
        right=right if can_be_right else -1,
        memories=memories,
        hit_memories=hit,
    )


def _unanswered(question: Question) -> Question:
    return Question(text=question.text, gold=frozenset(), category=question.category)


def _unasked(text: str) -> Question:
    return Question(text=text, gold=frozenset(), category="")


def _shares_a_name(question: Question, other: Conversation) -> bool:
    """Return whether a question names somebody whom the other conversation knows too."""
    names = {word.lower() for word in re.findall(r"\b[A-Z][a-z]+\b", question.text)[1:]}
    known = {word.lower() for text in other.texts for word in re.findall(r"\b[A-Z][a-z]+\b", text)}
    return bool(names & known)


def real_sessions(folder: str) -> list[_Session]:
    """Return the sessions of a folder's transcripts. Usage when there are none."""
    sessions = []
    for path in sorted(Path(folder).rglob("*.jsonl")):
        said = read_transcript(str(path), Cursor(), lambda _: "").said
        prompts = tuple(dict.fromkeys(one.text for one in said if one.role == "user"))
        if prompts:
            sessions.append(_Session(prompts=prompts, said=tuple(one.text for one in said)))
    if not sessions:
        raise Usage(f"{folder} holds no transcripts with prompts.")
    return sessions
