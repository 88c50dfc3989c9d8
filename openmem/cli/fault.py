"""The report of a fault of ours: where it happened, never with what.

A traceback's message and its local values may hold a prompt, a key or a line of a settings file;
so the report holds type names, files, lines and functions only, and can be sent to us as it is.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator

from openmem import __version__
from openmem.base.clock import now_text
from openmem.base.fault import steps_of
from openmem.base.io import ensure_private_dir, write_atomic
from openmem.base.paths import Paths, display

_KEPT = 20


def report_text(error: BaseException, command: str, home: str) -> str:
    """Return the report. `command`: the command's words without what followed them."""
    lines = [
        f"openmem {__version__}, python {platform.python_version()}, {platform.platform()}",
        f"time {now_text()}",
        f"command openmem {command}".rstrip(),
    ]
    for fault in _chain(error):
        lines += ["", f"{type(fault).__module__}.{type(fault).__qualname__}"]
        lines += [
            f"  {display(file, home)}:{line} in {function}"
            for file, line, function in steps_of(fault)
        ]
    return "\n".join(lines) + "\n"


def write_report(paths: Paths, error: BaseException, command: str) -> str:
    """Write the report into the logs folder and return its path; "" when it cannot be written."""
    name = f"fault-{now_text().replace(':', '')}-{os.getpid()}.txt"
    try:
        ensure_private_dir(paths.logs_dir)
        _keep_newest(paths.logs_dir)
        write_atomic(
            os.path.join(paths.logs_dir, name), report_text(error, command, paths.home).encode()
        )
    except OSError:
        return ""  # the disk is full or read-only: the fault itself is still told
    return os.path.join(paths.logs_dir, name)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _keep_newest(folder: str) -> None:
    reports = sorted(name for name in os.listdir(folder) if name.startswith("fault-"))
    for name in reports[: max(0, len(reports) - _KEPT + 1)]:
        os.unlink(os.path.join(folder, name))
