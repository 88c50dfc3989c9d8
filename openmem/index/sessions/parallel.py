"""The import by several processes: each takes groups of sources that nobody else touches.

Idea: sessions are files of their own, so projects can be imported beside each other; what belongs
together (a session and its sub-agents, a fork and its parent) is one group and stays in order.
With two processors one reads and the other stores, which halves the time of a single large file,
too.
Invariant: the same as of one process: locks, cursors and keys hold between processes as they hold
between two imports. Trap: a child does not hear Ctrl-C, or it would die inside a transaction's
report; it is told by an event, which it looks at whenever it shows its progress.
"""

from __future__ import annotations

import gc
import multiprocessing
import queue
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

from openmem.base.paths import Paths
from openmem.context.transcript import Reader, Source
from openmem.index.sessions.cursors import Cursors
from openmem.index.sessions.importing import Means, group_of, import_sources
from openmem.index.sessions.report import Report

SMALL_BYTES = 16 << 20  # sooner done than other processes are started
MOST_PROCESSES = 4  # a hundred megabytes each, and one disk
_LOOK_SECONDS = 0.1


def import_all(means: Means, sources: list[Source], report: Report, *, processes: int) -> Report:
    """Do as `import_sources`, by up to so many processes."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        groups.setdefault(group_of(source), []).append(source)
    size = sum(source.size for source in sources)
    new = _not_read_yet(means, sources)
    if processes < 2 or sum(source.size for source in new) < SMALL_BYTES:
        return import_sources(means, sources, report)
    count = min(processes, len({group_of(source) for source in new}), MOST_PROCESSES)
    means = replace(means, stores_beside=processes >= 2 * count or processes == 2)
    if count < 2 or processes == 2:
        with _seldom_collected():
            return import_sources(means, sources, report)
    begun = time.monotonic()
    # The largest first, so that no process is left alone with it at the end.
    ordered = sorted(groups.values(), key=lambda group: -sum(source.size for source in group))
    _in_processes(means, ordered, report, count, size)
    report.seconds += time.monotonic() - begun
    return report


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Look for what holds itself less often: of the tens of thousands of blocks none does."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _not_read_yet(means: Means, sources: list[Source]) -> list[Source]:
    """Return the sources that are to be read: new, changed, and not too old."""
    cursors = Cursors(means.paths, means.key, is_dry=True)
    try:
        return [
            source
            for source in sources
            if source.modified_at >= means.since and cursors.get(source).stamp != source.stamp
        ]
    finally:
        cursors.close()


def _in_processes(
    means: Means, groups: list[list[Source]], report: Report, count: int, size: int
) -> None:
    context = multiprocessing.get_context("spawn")
    told: Queue[tuple[int, str]] = context.Queue()
    stop = context.Event()
    order = _Order(
        environ=dict(means.paths.environ),
        key=means.key,
        readers=dict(means.readers),
        is_dry=means.is_dry,
        since=means.since,
        stores_beside=means.stores_beside,
    )
    pool = ProcessPoolExecutor(
        max_workers=count, mp_context=context, initializer=_begin, initargs=(order, told, stop)
    )
    try:
        left: set[Future[Report]] = {pool.submit(_work, group) for group in groups}
        done = 0
        while left:
            finished, left = wait(left, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                report.add(future.result())
            done = _show(means, told, done, size)
        _show(means, told, done, size)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        told.close()


def _show(means: Means, told: Queue[tuple[int, str]], done: int, size: int) -> int:
    """Show what the children read since; return the bytes that are done."""
    title = ""
    while True:
        try:
            more, title = told.get_nowait()
        except queue.Empty:
            break
        done += more
    if title:
        means.progress(min(done, size), size, title)
    return done


# in a child


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What a child works with; all of it goes through a pipe."""

    environ: Mapping[str, str]
    key: bytes
    readers: Mapping[str, Reader]
    is_dry: bool
    since: float
    stores_beside: bool


class _Child:
    """One child's means, and how far it is."""

    def __init__(self, order: _Order, told: Queue[tuple[int, str]], stop: Event) -> None:
        self._told = told
        self._stop = stop
        self._shown = 0
        self._means = Means(
            paths=Paths(order.environ),
            key=order.key,
            readers=order.readers,
            is_dry=order.is_dry,
            since=order.since,
            stores_beside=order.stores_beside,
            progress=self._progress,
        )

    def work(self, sources: list[Source]) -> Report:
        self._shown = 0
        return import_sources(replace(self._means), sources, Report())

    def _progress(self, done: int, total: int, title: str) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt
        if done != self._shown:
            self._told.put((done - self._shown, title))
            self._shown = done


_child: list[_Child] = []


def _begin(order: _Order, told: Queue[tuple[int, str]], stop: Event) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _child.append(_Child(order, told, stop))


def _work(sources: list[Source]) -> Report:
    return _child[0].work(sources)
