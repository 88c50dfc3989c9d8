"""The one versioned envelope of `--json`. Its keys are promises and have a test.

`{"schema": 1, "command": …, "status": "success|partial|error", "exit_code": …, "data": …,
"errors": [{"code", "message", "hint"}]}`. Source: issue 2, "JSON that scripts may rely on".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from openmem.base.errors import OpenmemError

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a command made. `data`: JSON-able; `lines`: the same as text, for stdout.

    `notes`: for people, to stderr. `problems`: faults that did not stop the command; with any the
    status is "partial" while the exit status is 0.
    """

    data: Any = None
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exit_status: int = 0
    problems: tuple[OpenmemError, ...] = ()


def envelope_of(command: str, result: Result) -> dict[str, Any]:
    """Return the envelope of a command that came to its end."""
    if result.exit_status not in (0, 3):  # 3: changes pending is an answer, not a fault
        status = "error"
    else:
        status = "partial" if result.problems else "success"
    return {
        "schema": SCHEMA,
        "command": command,
        "status": status,
        "exit_code": result.exit_status,
        "data": result.data,
        "errors": [error_entry(problem) for problem in result.problems],
    }


def envelope_of_error(command: str, error: OpenmemError) -> dict[str, Any]:
    """Return the envelope of a command that was stopped."""
    return {
        "schema": SCHEMA,
        "command": command,
        "status": "error",
        "exit_code": error.exit_status,
        "data": None,
        "errors": [error_entry(error)],
    }


def error_entry(error: OpenmemError) -> dict[str, str]:
    """Return one entry of `errors`."""
    return {"code": error.code, "message": error.message, "hint": error.hint}


def text_of(envelope: dict[str, Any]) -> str:
    """Return the envelope as JSON; lone surrogates (odd file names) are escaped."""
    text = json.dumps(envelope, ensure_ascii=False, indent=2)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(envelope, indent=2)
    return text
