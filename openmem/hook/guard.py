"""Before a tool call: does it carry a placeholder of ours instead of what stood there?

Idea: a model copies what it sees. A call that would write a pointer, a marker or a shortened result
into a file is refused, and the model is told where the original is. Invariant: nothing is written
here, and only a placeholder of this very session counts; our own source code, which is full of
them, can be edited. Trap: it runs before each change of a file, so almost every call must end in
the launcher, which starts no interpreter for a call that does not name us.
Source: users' report 431 of another system; issue 4, part 6.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from openmem.context.trim.spent.marker import carried


def refusal(payload: Mapping[str, object], sid: str) -> str:
    """Return why a call must not run, "" to let it run."""
    for text in _texts(payload.get("tool_input")):
        what, how = carried(text, sid)
        if what:
            return (
                f"openmem: this call carries {what} (openmem put it into your context) and not "
                f"the original text. Get the original with {how}, then make the call with it."
            )
    return ""


def refusal_output(reason: str) -> str:
    """Return stdout that refuses the call; the model is given the reason. "" for no reason."""
    if not reason:
        return ""
    inner = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return json.dumps({"hookSpecificOutput": inner})


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
