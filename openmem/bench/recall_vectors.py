"""Whether vectors help to find what was said: words and vectors together beside words alone.

Idea: the same questions as the bench of recall; the endpoint is the one that is named, so the
figures are of its model. Invariant: filled and fused by the code that searches use, and reported on
the conversations that nothing was tuned on. Trap: turns and questions are sent to that endpoint.
"""

from __future__ import annotations

import os
import random
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed
from openmem.base.vectors.settings import VectorSettings
from openmem.bench import recall
from openmem.bench.conversations import (
    Conversation,
    bank_of,
    number_of,
    read_conversations,
)
from openmem.bench.recall_report import Compared
from openmem.memory.providers.base import Ask
from openmem.memory.providers.local import meaning

_SEED = 20261130


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsReport:
    """What the bench found. `ours`: with vectors; `floor`: words alone."""

    compared: tuple[Compared, ...]
    model: str

    @property
    def holds(self) -> bool:
        """Better on the whole, worse in no group: what searches by both rest on."""
        whole = [one for one in self.compared if one.group == "all"]
        return any(one.is_better for one in whole) and not any(
            one.is_worse for one in self.compared
        )

    def as_json(self) -> dict[str, object]:
        return {
            "bench": "recall-vectors",
            "holds": self.holds,
            "model": self.model,
            "compared": [
                {
                    "group": one.group,
                    "metric": one.metric,
                    "questions": one.questions,
                    "with_vectors": round(one.ours, 4),
                    "words": round(one.floor, 4),
                    "low": round(one.low, 4),
                    "high": round(one.high, 4),
                }
                for one in self.compared
            ],
        }

    def lines(self) -> list[str]:
        lines = ["GROUP        QUESTIONS  METRIC   BOTH  WORDS   DIFFERENCE, 95 %"]
        for one in self.compared:
            mark = "better" if one.is_better else "WORSE" if one.is_worse else "same"
            lines.append(
                f"{one.group:12} {one.questions:9}  {one.metric:6} {one.ours:6.3f} {one.floor:6.3f}"
                f"   {one.ours - one.floor:+.3f} ({one.low:+.3f} to {one.high:+.3f}) {mark}"
            )
        return [*lines, f"  model {self.model}; conversations {recall.TUNED_ON + 1} and later"]


def run(*, data: str, url: str, model: str) -> VectorsReport:
    """Return the figures for an endpoint's model. Usage, Failed."""
    settings = VectorSettings(model=model, url=url, timeout_seconds=60.0)
    held_out = read_conversations(data)[recall.TUNED_ON :]
    rows: list[recall.Row] = []
    with tempfile.TemporaryDirectory(prefix="openmem-") as folder:
        for number, conversation in enumerate(held_out):
            rows += _rows(conversation, settings, f"{folder}/{number}.vectors")
    random_ = random.Random(_SEED)
    compared = [recall.compared("all", name, rows, random_) for name in recall.METRICS]
    for group in sorted({category for category, _, _ in rows}):
        part = [row for row in rows if row[0] == group]
        compared += [recall.compared(group, name, part, random_) for name in recall.METRICS[:3]]
    return VectorsReport(compared=tuple(compared), model=model)


def _rows(conversation: Conversation, settings: VectorSettings, stem: str) -> Sequence[recall.Row]:
    bank = bank_of(conversation)

    def connect() -> sqlite3.Connection | None:
        return bank.connection("bank")

    try:
        stand = meaning.fill_bank(stem, connect, settings, os.environ, lambda: True)
        if stand.pending:
            raise Failed(f"{settings.url} gave no vectors for {stand.pending} of the turns.")
        rows = []
        for question in conversation.questions:
            ask = Ask(text=question.text, limit=meaning.LOOKED_AT)
            words = bank.recall("bank", ask)
            numbers = meaning.numbers_of(question.text, settings, os.environ)
            both = meaning.fused(words, stem, numbers, settings.model, ask, connect)
            rows.append(
                (
                    question.category,
                    recall.scores([number_of(hit.id) for hit in both], question, conversation),
                    recall.scores([number_of(hit.id) for hit in words], question, conversation),
                )
            )
        return rows
    finally:
        bank.close()
