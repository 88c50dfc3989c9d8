"""What the trim is asked for one request, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from openmem.context.trim.estimate import Weight
from openmem.context.trim.limits import Thresholds
from openmem.context.trim.state import Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to be looked at.

    `lane`: "" for the main conversation, else the sub-agent's id. `may_cut`: False for requests
    that only follow a cut that is there. `force`: the person asked for a trim now; `keep_turns`:
    and for that many turns to stay. `now`: monotonic seconds.
    """

    sid: str
    body: bytes
    lane: str = ""
    may_cut: bool = True
    force: bool = False
    keep_turns: int = 0
    now: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is to be sent.

    `body`: None for the original bytes. `thread`: the conversation it was taken for. `made_cut`:
    this request is the first with a new cut. `gone`: numbers of the items that the body leaves
    out, `turn`: of the cut turn. `weight`: of what is sent, for the sample that the provider's
    report will make. `problem`: why a stored cut could not be used. `is_settled`: a forced trim
    was done, or there was nothing to do. `rows`: of superseded bodies that a new cut leaves out.
    `asks_for_binding`: the request asks the provider to drop thinking that does not verify, and
    needs a header for that. `has_clearing`: the body asks the provider to clear old tool results.
    `refusal`: the words with which to answer instead of sending: nothing is left to trim and a
    proven limit is about to be passed. `cut`: what it was made by.
    """

    body: bytes | None
    weight: Weight
    thread: str = ""
    turn: int = -1
    tokens_before: int = 0
    tokens_after: int = 0
    thresholds: Thresholds | None = None
    made_cut: bool = False
    is_settled: bool = False
    asks_for_binding: bool = False
    has_clearing: bool = False
    refusal: str = ""
    gone: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    cause: str = ""
    problem: str = ""
    cut: Cut | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the body lacks something of the client's own request."""
        return self.turn >= 0
