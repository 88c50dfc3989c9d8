"""The benches by name, for the command line and for `python -m openmem.bench`."""

from __future__ import annotations

from openmem.bench import first_run, hook, proxy, stream
from openmem.bench.figures import Report

BENCHES: dict[str, str] = {
    "first-run": "What openmem adds to one `claude -p` run.",
    "hook": "CPU of a hook against an interpreter that does nothing.",
    "proxy": "Time to first byte while recording against a bare pass-through.",
    "stream": "Lateness of a stream while new content is recorded beside it.",
}


def run(name: str, *, repeats: int = 0, claude: str = "") -> Report:
    """Return a bench's report. `repeats`: samples, 0 for the bench's own. KeyError: no such one."""
    if name == "first-run":
        return first_run.run(repeats=repeats or 9, claude=claude)
    if name == "hook":
        return hook.run(repeats=repeats or 31)
    if name == "proxy":
        return proxy.run(repeats=repeats or 60)
    if name == "stream":
        return stream.run(repeats=repeats or 7)
    raise KeyError(name)
