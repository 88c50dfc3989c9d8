"""The benches by name, for the command line and for `python -m openmem.bench`."""

from __future__ import annotations

from typing import Protocol

from openmem.bench import first_run, hook, importing, proxy, recall, recall_vectors, stream
from openmem.bench.context.bench import Wanted
from openmem.bench.context.bench import run as run_context
from openmem.bench.stage import ended_in_order
from openmem.bench.store.bench import run as run_store


class AnyReport(Protocol):
    """What a bench found, for people and for scripts; `holds`: every limit is kept."""

    @property
    def holds(self) -> bool: ...
    def as_json(self) -> dict[str, object]: ...
    def lines(self) -> list[str]: ...


BENCHES: dict[str, str] = {
    "context": "Whether what was trimmed can be had back, and what the cache is spared.",
    "first-run": "What openmem adds to one `claude -p` run.",
    "hook": "CPU of a hook against an interpreter that does nothing.",
    "hook-memory": "The same with 100,000 statements remembered about the project.",
    "import": "One large transcript into the store against json.loads a line; memory.",
    "proxy": "Time to first byte while recording against a bare pass-through.",
    "proxy-trimming": "The same for large sessions, with trimming and compression on.",
    "recall": "How well, how fast and how quietly memories are found, beside BM25.",
    "recall-vectors": "How well they are found by words and vectors together, beside words.",
    "store": "What is stored: time, size, searches and memory, against plain tables and ripgrep.",
    "stream": "Lateness of a stream while new content is recorded beside it.",
}


def run(
    name: str,
    *,
    repeats: int = 0,
    claude: str = "",
    wanted: Wanted | None = None,
    data: str = "",
    transcripts: str = "",
    size_mb: int = 0,
    embeddings: tuple[str, str] = ("", ""),
) -> AnyReport:
    """Return a bench's report. KeyError: no such one.

    `repeats`: samples, 0 for the bench's own; `claude`: for first-run; `wanted`: for context;
    `data` and `transcripts`: for recall; `size_mb`: for import; `embeddings`: address and model,
    for recall-vectors.
    """
    with ended_in_order():
        if name == "context":
            return run_context(wanted or Wanted())
        if name == "first-run":
            return first_run.run(repeats=repeats or 9, claude=claude)
        if name == "hook":
            return hook.run(repeats=repeats or 31)
        if name == "hook-memory":
            return hook.run(repeats=repeats or 24, statements=100_000)
        if name == "import":
            return importing.run(repeats=repeats or 3, size_mb=size_mb or importing.SIZE_MB)
        if name == "proxy":
            return proxy.run(repeats=repeats or 60)
        if name == "proxy-trimming":
            return proxy.run(repeats=repeats or 40, trims=True)
        if name == "recall":
            return recall.run(data=data, transcripts=transcripts, repeats=repeats)
        if name == "recall-vectors":
            return recall_vectors.run(data=data, url=embeddings[0], model=embeddings[1])
        if name == "store":
            return run_store(repeats=repeats or 9)
        if name == "stream":
            return stream.run(repeats=repeats or 7)
    raise KeyError(name)
