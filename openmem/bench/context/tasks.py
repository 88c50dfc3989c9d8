"""The tasks: a stream of operations and what is asked of it. Same level and seed, same bytes.

Source: rules of ContextBench (arXiv 2609.37725, appendix D, and its data set's page), written
anew. Ours where those say nothing: the word list, the services, the wording of lookups, the scopes
of counts, the batch sizes between the levels that were seen.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from openmem.base.errors import Usage

QUESTIONS = 24
KV_BATCH = 100
VALUE_WORDS = 24
_MADE_WORDS = 8
_LOG_BATCHES = {160: 14, 640: 18, 1600: 26, 3200: 34, 6400: 44, 12800: 54}
_LEVEL = re.compile(r"([RLE])(\d{2,5})")

_WORDS = (
    *("acorn", "alder", "amber", "anvil", "apricot", "arbor", "argent", "aspen", "azure"),
    *("banner", "basalt", "beacon", "birch", "bramble", "bronze", "canyon", "cedar", "chalk"),
    *("cinder", "clover", "cobalt", "copper", "coral", "crimson", "delta", "dune", "ebony"),
    *("ember", "falcon", "fern", "flint", "garnet", "ginger", "granite", "harbor", "hazel"),
    *("heron", "indigo", "ivory", "jasper", "juniper", "kelp", "lagoon", "lantern", "linen"),
    *("maple", "marble", "meadow", "mistral", "nectar", "nimbus", "ochre", "olive", "onyx"),
    *("opal", "orchid", "pebble", "pewter", "quartz", "raven", "russet", "saffron", "sienna"),
    *("slate", "sorrel", "spruce", "thistle", "timber", "umber", "velvet", "willow", "zephyr"),
)
SERVICES = ("auth", "billing", "cache", "db-proxy", "gateway", "notify", "payments", "search")
LEVELS = ("INFO", "WARN", "ERROR")
_LEVEL_WEIGHTS = (60, 25, 15)
_HAPPENINGS = (
    *("accepted", "cache", "closed", "connection", "deferred", "drained", "expired", "flushed"),
    *("handshake", "lease", "miss", "opened", "queue", "quota", "refused", "rejected", "replayed"),
    *("retry", "rotated", "session", "shard", "slow", "snapshot", "stale", "timeout", "upstream"),
)

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


def task_of(level: str, seed: int) -> Task:
    """Return a task: `R<n>` is kv-store with n records, `L<n>` log-triage with n lines, `E<n>`
    n edits of files.

    Usage for another level.
    """
    match = _LEVEL.fullmatch(level)
    if not match or not 48 <= int(match.group(2)) <= 20_000:
        raise Usage(
            f"there is no size {level!r}.",
            hint="R and a number of records, L and a number of log lines, or E and a number of "
            "edits: R1000, L6400, E160.",
        )
    records = int(match.group(2))
    if match.group(1) == "E":
        from openmem.bench.context.edits import edit_task  # it is made of this module's parts

        return edit_task(level, records, seed)
    if match.group(1) == "R":
        pieces = list(_kv(records, random.Random(f"kv-store {level} {seed}")))
        family = "kv-store"
    else:
        pieces = list(_log(records, random.Random(f"log-triage {level} {seed}")))
        family = "log-triage"
    operations = tuple(
        Operation(
            text=f"=== {title} ({len(pieces) - number} op(s) remaining after this) ===\n\n{body}",
            question=question,
        )
        for number, (title, body, question) in enumerate(pieces, 1)
    )
    return Task(
        name=f"{family}-{level}-seed{seed}", level=level, records=records, operations=operations
    )


_Piece = tuple[str, str, Question | None]


def kv_value(name: str, seed: int) -> str:
    """Return a value that follows from its key alone, for models that make values themselves."""
    chance = random.Random(f"value {name} {seed}")
    return f"{' '.join(chance.choices(_WORDS, k=_MADE_WORDS))} {_tag(chance)}"


def _kv(records: int, chance: random.Random) -> Iterator[_Piece]:
    values = [
        f"{' '.join(chance.choices(_WORDS, k=VALUE_WORDS))} {_tag(chance)}" for _ in range(records)
    ]
    lines = [f"SET K{number:05d} = {value}" for number, value in enumerate(values)]
    for at, first in enumerate(range(0, records, KV_BATCH)):
        batch = lines[first : first + KV_BATCH]
        title = f"set batch (keys {first}-{first + len(batch) - 1})"
        yield title, _framed("SET-BATCH", at, batch, chance), None
    for number, key in enumerate(chance.sample(range(records), QUESTIONS)):
        name = f"K{key:05d}"
        body = (
            f"GET {name}\n(Report the value you stored for {name} as an ANSWER block for that key.)"
        )
        yield (
            f"get {number}",
            body,
            Question(label=f"key={name}", kind="lookup", answer=values[key]),
        )


def _framed(name: str, at: int, lines: list[str], chance: random.Random) -> str:
    mark = f"{name} {at:04d}{_tag(chance)}"
    begin = f"<<<{mark} BEGIN -- offload this whole block this turn>>>"
    return "\n".join([begin, *lines, f"<<<{mark} END>>>"])


def _tag(chance: random.Random) -> str:
    return f"#{chance.randrange(1 << 32):08x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log, in parts."""

    at: str
    level: str
    service: str
    request: str
    words: str
    tag: str

    @property
    def text(self) -> str:
        return f"{self.at} [{self.level}] {self.service} req={self.request} {self.words} {self.tag}"


def _log(records: int, chance: random.Random) -> Iterator[_Piece]:
    moment = datetime(2026, 6, 20, 14, 0, 0, tzinfo=UTC)
    lines: list[LogLine] = []
    requests = chance.sample(range(1 << 32), records)
    for request in requests:
        moment += timedelta(seconds=chance.randint(1, 4))
        lines.append(
            LogLine(
                at=moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                level=chance.choices(LEVELS, _LEVEL_WEIGHTS)[0],
                service=chance.choice(SERVICES),
                request=f"{request:08x}",
                words=" ".join(chance.choices(_HAPPENINGS, k=chance.randint(3, 5))),
                tag=_tag(chance),
            )
        )
    size = batch_size(records)
    for at, first in enumerate(range(0, records, size)):
        batch = [line.text for line in lines[first : first + size]]
        title = f"log batch (lines {first}-{first + len(batch) - 1})"
        yield title, _framed("LOG-BATCH", at, batch, chance), None
    asked = [*_lookups(lines, chance), *_counts(lines, chance)]
    chance.shuffle(asked)
    for number, (kind, sentence, answer) in enumerate(asked):
        body = f"QUERY {number}: {sentence}\n(Answer with an ANSWER block for qid={number}.)"
        question = Question(label=f"qid={number}", kind=kind, answer=answer)
        yield f"query {number}", body, question


def batch_size(records: int) -> int:
    """Return how many lines a batch of a log level has."""
    known = sorted(_LOG_BATCHES)
    return _LOG_BATCHES[known[max(0, bisect_right(known, records) - 1)]]


_Asked = tuple[str, str, str]


def _lookups(lines: list[LogLine], chance: random.Random) -> Iterator[_Asked]:
    for number, line in enumerate(chance.sample(lines, QUESTIONS // 2)):
        if number % 2:
            asked = f"What is the #tag of the line with request id req={line.request}?"
            yield "lookup", asked, line.tag
        else:
            asked = f"Which service logged the line with request id req={line.request}?"
            yield "lookup", asked, line.service


def _counts(lines: list[LogLine], chance: random.Random) -> Iterator[_Asked]:
    for _ in range(QUESTIONS // 8):
        level, service = chance.choice(LEVELS), chance.choice(SERVICES)
        both = [line for line in lines if line.level == level and line.service == service]
        sentence = f'How many [{level}] log lines are from service "{service}"'
        yield "count", f"{sentence}?", str(len(both))
        of_level = sum(line.level == level for line in lines)
        yield "count", f"How many [{level}] log lines are there?", str(of_level)
        of_service = sum(line.service == service for line in lines)
        yield "count", f'How many log lines are from service "{service}"?', str(of_service)
        first, last = sorted(chance.sample(range(len(lines)), 2))
        begin, end = lines[first].at, lines[last].at
        between = sum(begin <= line.at <= end for line in both)
        yield "count", f"{sentence} from {begin} to {end}, both included?", str(between)
