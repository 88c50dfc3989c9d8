"""An answer from what is remembered: in a model's words where the person configured one.

Idea: the memories that fit the question are the answer; a model may put them together. Invariant:
without a route, without budget or after a failure the memories themselves are given, and it is
said so. Trap: what goes to the model leaves the machine, so only what recall may show goes, framed,
and never a text that is not masked.
Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

from openmem.base.errors import OpenmemError
from openmem.base.frame import framed, without_own_text
from openmem.memory.looking import Found, Looker
from openmem.memory.model_route import Route, ask_model
from openmem.memory.recall import line_of, mark_of
from openmem.memory.scope import Scope
from openmem.memory.spend import Budget

MEMORIES = 20
_TASK = (
    "Answer the question from the remembered statements alone. Say what they say, name the ids in "
    "brackets, say so where they contradict each other, and say so if they do not answer it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """`text`: a model's answer, "" without one; `why`: why there is none; `found`: the memories."""

    found: tuple[Found, ...]
    text: str = ""
    why: str = ""
    tokens: int = 0


def reflect(
    memories: Looker,
    scope: Scope,
    question: str,
    *,
    bank: str = "",
    route: Route | None = None,
    budget: Budget | None = None,
) -> Reflection:
    """Return an answer to a question. PolicyDenied; a model that fails is no error."""
    found = tuple(memories.search(scope, question, bank=bank, limit=MEMORIES))
    if not found:
        return Reflection(found=(), why="nothing that fits is remembered")
    if route is None or budget is None:
        return Reflection(found=found, why="no model route is configured")
    lines = [line_of(one.memory, mark_of(one.memory)) for one in found]
    prompt = f"{framed(lines)}\n\nQuestion: {without_own_text(question).strip()}"
    try:
        text, tokens = ask_model(route, budget, _TASK, prompt)
    except OpenmemError as error:
        return Reflection(found=found, why=error.message.rstrip("."))
    return Reflection(found=found, text=without_own_text(text).strip(), tokens=tokens)
