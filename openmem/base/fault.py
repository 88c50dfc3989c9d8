"""Where an exception came from, never with what: kinds, files and lines.

The text of an exception, and the values on its way, may hold a prompt, a key or a line of a
settings file. Invariant: nothing of these is in what is given here. Trap: the standard library's
`traceback` reads source files and keeps them, which a supervisor of a few MB does without.
"""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LISTED = 6


def steps_of(error: BaseException) -> list[tuple[str, int, str]]:
    """Return the lines that an error passed through, outermost first: file, line, function."""
    steps = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        steps.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return steps


def place_of(error: BaseException) -> str:
    """Return `<file>:<line>` of the innermost line of ours that an error passed through.

    The file is named as it stands in the package. "unknown" when no line is ours.
    """
    for file, line, _ in reversed(steps_of(error)):
        if file.startswith(_PACKAGE):
            return f"{_short(file)}:{line}"
    return "unknown"


def described(error: BaseException) -> str:
    """Return an error's kind, its number if the system gave one, and its innermost places."""
    number = getattr(error, "errno", None)
    name = type(error).__name__ + (f" (errno {number})" if isinstance(number, int) else "")
    places = [f"{_short(file)}:{line}" for file, line, _ in steps_of(error)[-_LISTED:]]
    return f"{name} at {' < '.join(reversed(places))}" if places else name


def _short(file: str) -> str:
    if file.startswith(_PACKAGE):
        return file[len(_PACKAGE) :]
    return os.path.basename(file)
