"""The second family: lines of a log, of which some are looked up and some are counted.

Ours where the rules say nothing: the services, the wording of lookups, the scopes of counts, the
batch sizes between the levels that were seen.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from openmem.bench.context.task import QUESTIONS, Piece, Question, framed, tag

_LOG_BATCHES = {160: 14, 640: 18, 1600: 26, 3200: 34, 6400: 44, 12800: 54}
SERVICES = ("auth", "billing", "cache", "db-proxy", "gateway", "notify", "payments", "search")
LEVELS = ("INFO", "WARN", "ERROR")
_LEVEL_WEIGHTS = (60, 25, 15)
_HAPPENINGS = (
    *("accepted", "cache", "closed", "connection", "deferred", "drained", "expired", "flushed"),
    *("handshake", "lease", "miss", "opened", "queue", "quota", "refused", "rejected", "replayed"),
    *("retry", "rotated", "session", "shard", "slow", "snapshot", "stale", "timeout", "upstream"),
)


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


def log_pieces(records: int, chance: random.Random) -> Iterator[Piece]:
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
                tag=tag(chance),
            )
        )
    size = batch_size(records)
    for at, first in enumerate(range(0, records, size)):
        batch = [line.text for line in lines[first : first + size]]
        title = f"log batch (lines {first}-{first + len(batch) - 1})"
        yield title, framed("LOG-BATCH", at, batch, chance), None
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
