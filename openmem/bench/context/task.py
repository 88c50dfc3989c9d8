"""A task: a stream of operations, and what is asked of it.

Source: rules of ContextBench (arXiv 2609.37725, appendix D, and its data set's page), written
anew.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

QUESTIONS = 24

INSTRUCTION = (
    "This is a task of many operations. Each comes as a message of its own that begins with "
    "=== title (n op(s) remaining after this) ===. Batches hold lines for you to remember; later "
    "you are asked for some of them, or how many of them there are. Answer each question with a "
    "block: <<<ANSWER key=...>>> or <<<ANSWER qid=...>>>, the answer alone on the next line, "
    "<<<ANSWER END>>>. If you cannot know it, the answer is UNKNOWN. Ask for the next operation "
    "with the shell command: echo READY_FOR_NEXT_OP"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question and its gold. `kind`: lookup or count; `label`: of its answer block."""

    label: str
    kind: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One message of the stream; `question`: None for a batch."""

    text: str
    question: Question | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One level of one family. `records`: lines to remember. `files`: what stands in the project's
    files at first, by path; `seed`: of the values that the model itself makes."""

    name: str
    level: str
    records: int
    operations: tuple[Operation, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    @property
    def questions(self) -> list[Question]:
        return [op.question for op in self.operations if op.question is not None]

    @property
    def size_bytes(self) -> int:
        """Bytes streamed."""
        return sum(len(op.text.encode()) for op in self.operations)


Piece = tuple[str, str, Question | None]


def operations_of(pieces: Iterable[Piece]) -> tuple[Operation, ...]:
    """Return the stream of pieces: each a title, a body, and the question that it asks."""
    held = list(pieces)
    return tuple(
        Operation(
            text=f"=== {title} ({len(held) - number} op(s) remaining after this) ===\n\n{body}",
            question=question,
        )
        for number, (title, body, question) in enumerate(held, 1)
    )


def framed(name: str, at: int, lines: list[str], chance: random.Random) -> str:
    mark = f"{name} {at:04d}{tag(chance)}"
    begin = f"<<<{mark} BEGIN -- offload this whole block this turn>>>"
    return "\n".join([begin, *lines, f"<<<{mark} END>>>"])


def tag(chance: random.Random) -> str:
    return f"#{chance.randrange(1 << 32):08x}"
