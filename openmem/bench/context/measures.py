"""What a run came to: scores from the answers, sizes and cache from what the provider saw.

Retention of a request is what it read from the cache against what the thread's last one left
there, as in the one published table of another system. Unavoidable writes are counted from the
client's side: the new content, and at a trim all behind the head, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from openmem.bench.context.model import UNKNOWN
from openmem.bench.context.provider import Served
from openmem.bench.context.session import Sent, Session
from openmem.bench.context.task import Task
from openmem.bench.figures import median
from openmem.context.models import Model

DEGRADED_BELOW = 0.95
OUTPUT_FACTOR = 5.0  # an output token against an uncached input token, at list prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Right answers of those asked for."""

    right: int
    asked: int

    @property
    def share(self) -> float:
        return self.right / self.asked if self.asked else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run. Tokens unless said otherwise.

    `written_beyond`: written to the cache although nothing made it necessary; `above_soft`: prompts
    of a new turn that were above the soft threshold even without what was new in them;
    `peak_turn`: the largest prompt of a new turn; `above_hard`: prompts above the hard threshold
    whose thread was above it before. `degraded`: requests that kept less
    than 95 %, one a trim aside. `cost`: in uncached input tokens. `added_ms`: on top of the
    provider's own time; None without a proxy. `stopped`: why a run did not reach its end.
    """

    task: str
    arm: str
    variant: str
    window: int
    soft: int
    hard: int
    lookups: Score
    counts: Score
    unknown: int
    requests: int
    peak: int
    peak_turn: int
    trims: int
    above_soft: int
    above_hard: int
    written: int
    written_beyond: int
    degraded: int
    head_changed: int
    refused: int
    searches: int
    queries: int
    cost: float
    added_ms: tuple[float, float, float] | None
    stored_per_byte: float
    seconds: float
    stopped: str

    @property
    def written_beyond_share(self) -> float:
        return self.written_beyond / self.written if self.written else 0.0

    @property
    def degraded_per_200(self) -> float:
        return 200 * self.degraded / self.requests if self.requests else 0.0

    @property
    def head_unchanged(self) -> float:
        return 1 - self.head_changed / self.requests if self.requests else 1.0

    def as_json(self) -> dict[str, object]:
        """Return plain values, with the shares that follow from them."""
        return {
            **asdict(self),
            "lookup_share": self.lookups.share,
            "count_share": self.counts.share,
            "written_beyond_share": round(self.written_beyond_share, 5),
            "degraded_per_200": round(self.degraded_per_200, 3),
            "head_unchanged": round(self.head_unchanged, 5),
        }


def scores(task: Task, answers: Mapping[str, str]) -> tuple[Score, Score, int]:
    """Return lookups, counts and how many answers were UNKNOWN or missing."""
    given = [(question, answers.get(question.label, UNKNOWN)) for question in task.questions]

    def of(kind: str) -> Score:
        kinds = [(question, answer) for question, answer in given if question.kind == kind]
        right = sum(answer == question.answer for question, answer in kinds)
        return Score(right=right, asked=len(kinds))

    return of("lookup"), of("count"), sum(answer == UNKNOWN for _, answer in given)


@dataclass(slots=True)
class Prompts:
    """The sums over what the provider saw."""

    peak: int = 0
    peak_turn: int = 0
    trims: int = 0
    above_soft: int = 0
    above_hard: int = 0
    written: int = 0
    written_beyond: int = 0
    degraded: int = 0
    head_changed: int = 0
    refused: int = 0


def prompts(log: Sequence[Served], sent: Iterable[Sent], soft: int, hard: int) -> Prompts:
    """Return the sums. A request is a trim when the client sent more of its history than came, or
    when the provider cleared more of it than of the one before."""
    by_number = {one.number: one for one in sent}
    found = Prompts()
    gone: dict[str, int] = {}
    previous: dict[str, Served] = {}
    for request in log:
        if request.refusal:
            found.refused += 1
            continue
        client = by_number[request.number]
        missing = client.messages - request.messages
        before = previous.get(request.thread)
        is_cleared = request.cleared > (before.cleared if before else 0)
        is_trim = client.is_rewritten or is_cleared or missing > gone.get(request.thread, 0)
        gone[request.thread] = max(0, missing)
        previous[request.thread] = request
        total = request.used.prompt
        found.peak = max(found.peak, total)
        found.trims += is_trim
        if not request.in_loop:
            # What is new is priced before anybody has counted it; what was counted is known.
            found.above_soft += bool(before and min(total, before.used.prompt) > soft)
            found.peak_turn = max(found.peak_turn, total)
        found.above_hard += bool(before and before.used.prompt > hard and total > hard)
        needed = total - (request.head if is_trim else before.used.prompt if before else 0)
        paid = request.used.written + request.used.uncached
        found.written += paid
        found.written_beyond += max(0, paid - max(0, needed))
        if before is None:
            continue
        left = before.used.read + before.used.written
        is_degraded = request.used.read < DEGRADED_BELOW * left
        found.degraded += is_degraded and not is_trim
        found.head_changed += request.head_changed
    return found


def cost(log: Iterable[Served], model: Model) -> float:
    """Return what all requests cost together, in uncached input tokens."""
    return sum(
        request.used.uncached
        + request.used.read * model.read
        + request.used.written * model.write
        + request.output * OUTPUT_FACTOR
        for request in log
    )


def added(log: Iterable[Served], sent: Iterable[Sent]) -> tuple[float, float, float]:
    """Return (median, 95th percentile, largest) milliseconds on top of the provider's own."""
    own = {request.number: request.seconds * 1000 for request in log}
    extra = sorted(max(0.0, one.milliseconds - own.get(one.number, 0.0)) for one in sent)
    return median(extra), extra[min(len(extra) - 1, int(len(extra) * 0.95))], extra[-1]


def outcome(
    task: Task,
    session: Session,
    log: Sequence[Served],
    *,
    variant: str,
    window: int,
    soft: int,
    hard: int,
    model: Model,
    seconds: float,
    stored_bytes: int,
) -> Outcome:
    """Return what a finished run came to. `stored_bytes`: of the session's files, 0 without any."""
    lookups, counts, unknown = scores(task, session.answers)
    seen = prompts(log, session.sent, soft, hard)
    is_ours = session.is_ours
    tools = session.toolbox.counts
    return Outcome(
        task=task.name,
        arm=session.arm,
        variant=variant,
        window=window,
        soft=soft,
        hard=hard,
        lookups=lookups,
        counts=counts,
        unknown=unknown,
        requests=len(log),
        **{name: getattr(seen, name) for name in Prompts.__dataclass_fields__},
        searches=sum(count for name, count in tools.items() if name.endswith("search")),
        queries=sum(count for name, count in tools.items() if name.endswith("sql")),
        cost=cost(log, model),
        added_ms=added(log, session.sent) if is_ours else None,
        stored_per_byte=stored_bytes / task.size_bytes if is_ours else 0.0,
        seconds=seconds,
        stopped=session.stopped,
    )
