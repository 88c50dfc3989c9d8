"""The newest to-do state and plan, told again when a cut takes their calls away.

Idea: what the model itself wrote down to go by must outlive every trim, word for word. It is taken
from the client's own history at each rendering, so nothing of it is stored a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from openmem.context.trim.spent.parts import Step, Told
from openmem.context.trim.spent.tools import deed_of

_CREATE, _UPDATE = "TaskCreate", "TaskUpdate"
_FINISHED = ("completed", "deleted")
_PLAN = "ExitPlanMode"
HEAD = "[openmem: the newest to-do state and plan, as you set them yourself]"


def newest_state(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that hold the newest to-do list, the open tasks and the newest plan."""
    done = [step for step in steps if not step.result.failed]
    found = [step for step in done if deed_of(step.call).kind == "todo"][-1:]
    found += [step for step in done if step.call.name == _PLAN and _argument(step, "plan")][-1:]
    found += _open_tasks(done)
    return sorted(found, key=lambda step: (step.call.item, step.call.place))


def _open_tasks(done: Sequence[Step]) -> list[Step]:
    """Return of each task that is not over how it was created and what was said of it last.

    Its number stands in the result of the call that created it: "Task #3 created successfully".
    """
    created: dict[str, Step] = {}
    updated: dict[str, Step] = {}
    for step in done:
        if step.call.name == _CREATE:
            number = step.result.text.partition("#")[2].partition(" ")[0]
            if number:
                created[number] = step
                updated.pop(number, None)  # a new list counts from one again
        elif step.call.name == _UPDATE:
            updated[_argument(step, "taskId")] = step
    found: list[Step] = []
    for number, step in created.items():
        last = updated.get(number)
        if last is None or _argument(last, "status") not in _FINISHED:
            found += [step, *([last] if last else [])]
    return found


def _argument(step: Step, name: str) -> str:
    arguments = step.call.arguments
    return str(arguments.get(name) or "") if isinstance(arguments, dict) else ""


def told_of(state: Iterable[Step], kept: Collection[int]) -> tuple[Told, ...]:
    """Return what is to be told again: of the state what the view does not show."""
    return tuple(
        Told(
            item=step.call.item,
            call=step.call.id,
            result=step.result.item if step.call.name == _CREATE else -1,
        )
        for step in state
        if step.call.item not in kept
    )


def told_text(steps: Iterable[Step], told: Sequence[Told]) -> str:
    """Return the text that tells it, "" for nothing. `steps`: at least those that are told."""
    by_place = {(step.call.item, step.call.id): step for step in steps}
    lines = [
        _line(by_place[one.item, one.call], one) for one in told if (one.item, one.call) in by_place
    ]
    return "\n".join([HEAD, *lines]) if lines else ""


def _line(step: Step, told: Told) -> str:
    behind = f" -> {step.result.text}" if told.result >= 0 else ""
    return f"{step.call.name} {step.call.raw}{behind}"
