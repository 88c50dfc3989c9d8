"""Recorded conversations with questions about them, and which turns answer each question.

The format is LoCoMo's, whose file is not part of this project and is named by its path. Trap: some
evidence ids name no turn; a question is used when at least one of its ids does.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from openmem.base.errors import Failed, Usage
from openmem.memory.providers.base import Item
from openmem.memory.providers.local.provider import LocalProvider

CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the numbers of the turns that answer it."""

    text: str
    gold: frozenset[int]
    category: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns in order. `texts`: speaker, words and what a picture shows; `sessions`: of each turn.

    `speakers`: their names, in lower case.
    """

    texts: tuple[str, ...]
    sessions: tuple[int, ...]
    questions: tuple[Question, ...]
    speakers: frozenset[str]


def read_conversations(path: str) -> list[Conversation]:
    """Return the conversations of a file. Usage, Failed when it is none."""
    if not path:
        raise Usage("this bench needs the conversations' file.", hint="--data PATH")
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
        return [_conversation(entry) for entry in value]
    except FileNotFoundError:
        raise Usage(f"there is no file {path}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed(f"{path} holds no conversations ({type(error).__name__}).") from None


def _conversation(entry: dict[str, Any]) -> Conversation:
    said = entry["conversation"]
    texts: list[str] = []
    sessions: list[int] = []
    places: dict[str, int] = {}
    for number in range(1, 200):
        for turn in said.get(f"session_{number}") or ():
            places[turn["dia_id"]] = len(texts)
            sessions.append(number)
            picture = turn.get("blip_caption")
            words = f"{turn['speaker']}: {turn['text']}"
            texts.append(f"{words} {picture}" if picture else words)
    questions = []
    for asked in entry["qa"]:
        ids = [one for text in asked.get("evidence", ()) for one in re.split(r"[;,\s]+", text)]
        gold = frozenset(places[one] for one in ids if one in places)
        if gold:
            category = CATEGORIES.get(asked["category"], str(asked["category"]))
            questions.append(Question(text=asked["question"], gold=gold, category=category))
    return Conversation(
        texts=tuple(texts),
        sessions=tuple(sessions),
        questions=tuple(questions),
        speakers=frozenset(said[name].lower() for name in ("speaker_a", "speaker_b")),
    )


def bank_of(conversation: Conversation) -> LocalProvider:
    """Return a provider in memory that holds a conversation's turns, as kept turns are."""
    items = []
    rows: dict[int, int] = {}
    for number, (text, session) in enumerate(
        zip(conversation.texts, conversation.sessions, strict=True)
    ):
        rows[session] = rows.get(session, 0) + 1
        items.append(
            Item(
                id=f"m-{number:016x}",
                text=text,
                kind="passage",
                recorded_at="",
                session_id=f"s{session}",
                row=rows[session],
            )
        )
    provider = LocalProvider(None)
    provider.remember("bank", items)
    return provider


def number_of(memory_id: str) -> int:
    """Return which turn of its conversation an id of `bank_of` stands for."""
    return int(memory_id[2:], 16)
