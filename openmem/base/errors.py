"""The one tree of errors and the one table of exit codes.

An error carries facts: a stable code for scripts, an exit status, a message that names the thing
and a hint that says what to do. It never prints, and never holds a secret or message content.
"""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
CHANGES_PENDING = 3
REFUSED = 4
ROLLED_BACK = 5
MISSING = 6
POLICY = 7
INTERNAL = 70
INTERRUPTED = 130

EXIT_CODES: dict[int, str] = {
    DONE: "done, or nothing to do",
    FAILED: "failed",
    USAGE: "wrong usage",
    CHANGES_PENDING: "changes pending (plan --exit-code, verify)",
    REFUSED: "refused as unsafe (unparseable, drifted, foreign)",
    ROLLED_BACK: "rolled back after a partial apply",
    MISSING: "something needed is missing (docker, port)",
    POLICY: "refused by policy",
    INTERNAL: "a fault of ours (a report file is written)",
    INTERRUPTED: "interrupted",
}


class OpenmemError(Exception):
    """A fault a person can act on. `code` is stable; `exit_status` is from `EXIT_CODES`."""

    code = "failed"
    exit_status = FAILED

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code:
            self.code = code


class Failed(OpenmemError):
    """Something did not work; trying again may help."""


class NotFound(OpenmemError):
    """A thing that was named does not exist."""

    code = "not-found"


class Usage(OpenmemError):
    """The command's words are off."""

    code = "usage"
    exit_status = USAGE


class Refused(OpenmemError):
    """Going on would not be safe; nothing was written."""

    code = "refused"
    exit_status = REFUSED


class Unparseable(Refused):
    """A file does not parse; `line` and `column` count from 1, 0 when unknown."""

    code = "unparseable"

    def __init__(self, path: str, reason: str, *, line: int = 0, column: int = 0, hint: str = ""):
        place = f" (line {line}, column {column}: {reason})" if line else f" ({reason})"
        super().__init__(f"{path} does not parse{place}. Nothing was written.", hint=hint)
        self.path, self.reason, self.line, self.column = path, reason, line, column


class PlanConflict(Refused):
    """A file is no longer what the plan saw; nothing was written."""

    code = "plan-conflict"


class RolledBack(OpenmemError):
    """An apply failed half way and what it had written was put back."""

    code = "rolled-back"
    exit_status = ROLLED_BACK


class Missing(OpenmemError):
    """Something needed is not there: an engine, a port, a program."""

    code = "missing"
    exit_status = MISSING


class PolicyDenied(OpenmemError):
    """The policy does not allow it for this workspace."""

    code = "policy-denied"
    exit_status = POLICY


class InvalidConfig(Refused):
    """A settings or policy file holds something we cannot use; the message names file and key."""

    code = "invalid-config"


class StoreUnavailable(OpenmemError):
    """A database cannot be opened or written now: locked, full, newer than ours, damaged."""

    code = "store-unavailable"


class Unsupported(OpenmemError):
    """A provider cannot do this; the message names the capability."""

    code = "unsupported"
