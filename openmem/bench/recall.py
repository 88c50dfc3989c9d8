"""How well provider `local` finds what was said, beside plain BM25; how fast; how quiet.

Idea: the same questions, the same turns, two rankings; the difference by paired bootstrap over the
questions that nothing was tuned on. Invariant: the constants of the ranking were chosen on
conversations 1 to 5; what is reported are 6 to 10. Trap: the floor is off here, and on
where it is measured how often something is told that does not belong (`recall_quiet.py`).
"""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Iterable, Sequence

from openmem.base.errors import Usage
from openmem.bench.conversations import (
    Conversation,
    Question,
    bank_of,
    number_of,
    read_conversations,
)
from openmem.bench.figures import median
from openmem.bench.recall_quiet import told_unasked
from openmem.bench.recall_report import Compared, RecallReport
from openmem.bench.seeding import sentence, vocabulary
from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.local.provider import LocalProvider

TUNED_ON = 5  # the first so many conversations
SIZES = (600, 10_000, 100_000)
_RESAMPLES = 2_000
Row = tuple[str, dict[str, float], dict[str, float]]
"""One question: its category, what was found by the one and by the other ranking."""
_SEED = 20261130
METRICS = ("R@5", "R@10", "MRR", "sR@5", "sR@10", "sMRR")
_STOP = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did"),
        *("do", "does", "for", "from", "had", "has", "have", "he", "her", "him", "his", "how"),
        *("i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "she"),
        *("should", "so", "than", "that", "the", "their", "them", "then", "there", "these"),
        *("they", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who"),
        *("why", "will", "with", "would", "you", "your"),
    ]
)


def run(*, data: str, transcripts: str = "", repeats: int = 0) -> RecallReport:
    """Return the figures. `data`: LoCoMo's file; `transcripts`: a folder of Claude Code's files,
    for real prompts. Usage, Failed."""
    conversations = read_conversations(data)
    if len(conversations) <= TUNED_ON:
        raise Usage(f"{data} holds {len(conversations)} conversations; more than 5 are needed.")
    held_out = conversations[TUNED_ON:]
    banks = [bank_of(conversation) for conversation in conversations]
    try:
        found = _compare(held_out, banks[TUNED_ON:])
        quiet = told_unasked(held_out, banks[TUNED_ON:], transcripts)
    finally:
        for bank in banks:
            bank.close()
    return RecallReport(
        compared=tuple(found),
        milliseconds=tuple(_timed(repeats or 60)),
        quiet=tuple(quiet),
        notes=(
            f"conversations {TUNED_ON + 1} to {len(conversations)}; tuned on 1 to {TUNED_ON}",
            "floor of the first table: FTS5 bm25(), porter, stop words out of the question",
        ),
    )


def _compare(held_out: Sequence[Conversation], banks: Sequence[LocalProvider]) -> list[Compared]:
    rows: list[Row] = []
    for conversation, bank in zip(held_out, banks, strict=True):
        plain = _Plain(conversation.texts)
        for question in conversation.questions:
            hits = bank.recall("bank", Ask(text=question.text, limit=200))
            ours = scores([number_of(hit.id) for hit in hits], question, conversation)
            floor = scores(plain.rank(question.text), question, conversation)
            rows.append((question.category, ours, floor))
        plain.close()
    random_ = random.Random(_SEED)
    found = [compared("all", name, rows, random_) for name in METRICS]
    for group in sorted({category for category, _, _ in rows}):
        part = [row for row in rows if row[0] == group]
        found += [compared(group, name, part, random_) for name in METRICS[:3]]
    return found


class _Plain:
    """FTS5's own bm25() over porter stems, stop words out of the question."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(
            "CREATE VIRTUAL TABLE f USING fts5(text, tokenize='porter unicode61')"
        )
        self._connection.executemany(
            "INSERT INTO f (rowid, text) VALUES (?, ?)", list(enumerate(texts))
        )

    def rank(self, text: str) -> list[int]:
        words = list(dict.fromkeys(word.lower() for word in re.findall(r"\w+", text)))
        words = [word for word in words if word not in _STOP] or words
        asked = " OR ".join(f'"{word}"' for word in words)
        rows = self._connection.execute(
            "SELECT rowid, bm25(f) FROM f WHERE f MATCH ?", (asked,)
        ).fetchall()
        return [int(row) for row, _ in sorted(rows, key=lambda row: float(row[1]))][:200]

    def close(self) -> None:
        self._connection.close()


def scores(
    ranked: Sequence[int], question: Question, conversation: Conversation
) -> dict[str, float]:
    """Return share of gold in the top, and one over the first one's place; by turn and session."""
    sessions = list(dict.fromkeys(conversation.sessions[number] for number in ranked))
    gold_sessions = {conversation.sessions[number] for number in question.gold}
    return {
        **_measures("", ranked, question.gold),
        **_measures("s", sessions, gold_sessions),
    }


def _measures(prefix: str, ranked: Sequence[int], gold: Iterable[int]) -> dict[str, float]:
    wanted = set(gold)
    first = next((1 / place for place, one in enumerate(ranked, 1) if one in wanted), 0.0)
    return {
        f"{prefix}R@5": len(wanted & set(ranked[:5])) / len(wanted),
        f"{prefix}R@10": len(wanted & set(ranked[:10])) / len(wanted),
        f"{prefix}MRR": first,
    }


def compared(
    group: str,
    name: str,
    rows: Sequence[Row],
    random_: random.Random,
) -> Compared:
    ours = [row[1][name] for row in rows]
    floor = [row[2][name] for row in rows]
    differences = [one - other for one, other in zip(ours, floor, strict=True)]
    count = len(differences)
    means = sorted(sum(random_.choices(differences, k=count)) / count for _ in range(_RESAMPLES))
    return Compared(
        group=group,
        metric=name,
        questions=count,
        ours=sum(ours) / count,
        floor=sum(floor) / count,
        low=means[int(_RESAMPLES * 0.025)],
        high=means[int(_RESAMPLES * 0.975)],
    )


def _timed(repeats: int) -> Iterable[tuple[int, float, float]]:
    """Yield (statements, milliseconds of a prompt, of a search) on made-up banks."""
    for size in SIZES:
        random_ = random.Random(_SEED)
        words = vocabulary(random_)
        provider = LocalProvider(None)
        for start in range(0, size, 5_000):
            provider.remember(
                "bank",
                [
                    Item(
                        id=str(number),
                        text=sentence(words, random_),
                        kind="statement",
                        recorded_at="",
                    )
                    for number in range(start, min(size, start + 5_000))
                ],
            )
        questions = [sentence(words, random_) for _ in range(repeats)]
        quick = _median_ms(
            provider, [Ask(text=text, has_floor=True, is_quick=True) for text in questions]
        )
        full = _median_ms(provider, [Ask(text=text) for text in questions])
        provider.close()
        yield size, quick, full


def _median_ms(provider: LocalProvider, asks: Sequence[Ask]) -> float:
    taken = []
    for ask in asks:
        started = time.process_time()
        provider.recall("bank", ask)
        taken.append((time.process_time() - started) * 1000)
    return median(taken)
