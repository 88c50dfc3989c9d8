"""What the recall bench found, as a table and for scripts, and when it holds."""

from __future__ import annotations

from dataclasses import dataclass, field

STRANGERS_TOLD = 0.005  # of prompts in a bank of people whom they do not name


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
