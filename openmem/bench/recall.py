"""How well provider `local` finds what was said, beside plain BM25; how fast; how quiet.

Idea: the same questions, the same turns, two rankings; the difference by paired bootstrap over the
questions that nothing was tuned on. Invariant: the constants of the ranking were chosen on
conversations 1 to 5; what is reported are 6 to 10. Trap: the floor is off where finding is
measured, and on where it is measured how often something is told that does not belong.
"""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openmem.agents.claude_code.transcript import read_transcript
from openmem.agents.transcript import Cursor
from openmem.base.errors import Usage
from openmem.bench.conversations import Conversation, Question, read_conversations
from openmem.bench.figures import median
from openmem.bench.seeding import sentence, vocabulary
from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.local.provider import LocalProvider
from openmem.memory.retain import split

TUNED_ON = 5  # the first so many conversations
SIZES = (600, 10_000, 100_000)
STRANGERS_TOLD = 0.005  # of prompts in a bank of people whom they do not name
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric over some questions. `low`, `high`: 95 % of the bootstrap of the difference."""

    group: str
    metric: str
    questions: int
    ours: float
    floor: float
    low: float
    high: float

    @property
    def is_better(self) -> bool:
        return self.low > 0

    @property
    def is_worse(self) -> bool:
        return self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """How often prompts bring something. `asked`: prompt and bank, each pair once.

    `told`: pairs that brought something; `right`: of them with a turn that answers, -1 where no
    turn can; `memories`: told in all.
    """

    name: str
    asked: int
    told: int
    right: int
    memories: int
    hit_memories: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallReport:
    """What the bench found."""

    compared: tuple[Compared, ...]
    milliseconds: tuple[tuple[int, float, float], ...]
    quiet: tuple[Quiet, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Better at finding turns, not worse in any group or by session, silent on small talk."""
        turns = [one for one in self.compared if one.group == "all" and one.metric[0] != "s"]
        talk = [one for one in self.quiet if one.name == "small talk"]
        strangers = [one for one in self.quiet if one.name == "other people's banks"]
        return (
            all(one.is_better for one in turns)
            and not any(one.is_worse for one in self.compared)
            and not any(one.told for one in talk)
            and all(one.told <= STRANGERS_TOLD * one.asked for one in strangers)
        )

    def as_json(self) -> dict[str, object]:
        return {
            "bench": "recall",
            "holds": self.holds,
            "compared": [
                {
                    "group": one.group,
                    "metric": one.metric,
                    "questions": one.questions,
                    "ours": round(one.ours, 4),
                    "floor": round(one.floor, 4),
                    "low": round(one.low, 4),
                    "high": round(one.high, 4),
                }
                for one in self.compared
            ],
            "milliseconds": [
                {"statements": size, "prompt": round(quick, 3), "search": round(full, 3)}
                for size, quick, full in self.milliseconds
            ],
            "quiet": [
                {
                    "name": one.name,
                    "asked": one.asked,
                    "told": one.told,
                    "right": one.right,
                    "memories": one.memories,
                    "hit_memories": one.hit_memories,
                }
                for one in self.quiet
            ],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        lines = ["GROUP        QUESTIONS  METRIC   OURS   BM25   DIFFERENCE, 95 %"]
        for one in self.compared:
            mark = "better" if one.is_better else "WORSE" if one.is_worse else "same"
            lines.append(
                f"{one.group:12} {one.questions:9}  {one.metric:6} {one.ours:6.3f} {one.floor:6.3f}"
                f"   {one.ours - one.floor:+.3f} ({one.low:+.3f} to {one.high:+.3f}) {mark}"
            )
        lines += ["", "STATEMENTS  PROMPT MS  SEARCH MS  (median of a query)"]
        lines += [
            f"{size:10,}  {quick:9.2f}  {full:9.2f}" for size, quick, full in self.milliseconds
        ]
        lines += ["", "TOLD UNASKED           ASKED   TOLD   RIGHT  MEMORIES"]
        for quiet in self.quiet:
            right = "-" if quiet.right < 0 else str(quiet.right)
            lines.append(
                f"{quiet.name:22} {quiet.asked:5}  {quiet.told:5}  {right:>6}  {quiet.memories:8}"
            )
        return [*lines, *(f"  {note}" for note in self.notes)]


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
        quiet = _quiet(held_out, banks[TUNED_ON:], transcripts)
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


# finding


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


# keeping quiet

_SMALL_TALK = (
    "ok", "okay", "continue", "yes", "no", "go on", "thanks", "thank you", "looks good", "do it",
    "please fix it", "run the tests", "commit this", "try again", "why?", "what happened?",
    "hello", "stop", "undo that", "make it faster", "ship it", "next", "sounds good, go ahead",
    "can you explain what you did?", "read the file again", "write a test for it",
)  # fmt: skip


def _quiet(
    held_out: Sequence[Conversation], banks: Sequence[LocalProvider], transcripts: str
) -> list[Quiet]:
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


# speed


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
