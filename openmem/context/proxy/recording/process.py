"""The recorder process: takes copies of exchanges over a socket, stores them, says what became of
them.

Idea: the main thread only reads frames; a few lanes do the work, and a session stays in its lane,
so one session's 3 MB do not hold up another's end of response, and order within a session holds.
Invariant: it ends when the proxy's end of the socket does, after it stored what it had been given
whole; so a proxy that was killed loses nothing of what it handed over.
Trap: signals for the proxy's group (Ctrl-C, a service manager's stop) reach this process too and
must not end it in the middle of its work.
"""

from __future__ import annotations

import io
import json
import os
import queue
import signal
import socket
import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from openmem.base.clock import now_text
from openmem.base.errors import OpenmemError
from openmem.base.fault import described
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.base.redact import Redacted
from openmem.base.vectors.settings import VectorSettings
from openmem.context.proxy import memory
from openmem.context.proxy.recording import frames
from openmem.context.proxy.recording.about import About
from openmem.context.proxy.recording.exchanges import Admitted, Exchange, Recordings
from openmem.context.proxy.recording.identity import LANE_HEADERS
from openmem.context.proxy.recording.reply import ReplyReader
from openmem.context.proxy.recording.sent import Sent
from openmem.context.proxy.recording.tidying import Tidying
from openmem.context.proxy.recording.trimming import Trimming
from openmem.context.store.recorder import Recorder
from openmem.context.trim.limits import TrimSettings
from openmem.context.trim.notes import Notes
from openmem.context.vectors.background import Background

_LANES = 8
_READ_BYTES = 1 << 18
_NICENESS = 5
_SWITCH_SECONDS = 0.0005
_QUIET_SECONDS = 30.0
_IDLE_SECONDS = 900.0


class _Job:
    """One exchange in the making; only its lane touches it, but for `lane` and `body`."""

    def __init__(self, number: int, about: About, lane: _Lane) -> None:
        self.number = number
        self.about = about
        self.lane = lane
        self.body: list[bytes] = []
        self.admitted: Admitted | None = None
        self.size = 0
        self.may_be_repaired = False
        self.differs = False
        self.exchange: Exchange | None = None
        self.reader: ReplyReader | None = None


class _Lane:
    """A thread that runs what it is given, in order, and `when_idle` after a quiet while."""

    def __init__(self, when_idle: Callable[[], None]) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._when_idle = when_idle
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def finish(self) -> None:
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_QUIET_SECONDS)
            except queue.Empty:
                self._when_idle()
                continue
            if work is None:
                return
            work()
            del work  # it holds a body


class RecorderProcess:
    """Reads frames until the socket ends."""

    def __init__(
        self,
        channel: socket.socket,
        recordings: Recordings,
        tidying: Tidying,
        background: Background,
    ) -> None:
        self._channel = channel
        self._tidying = tidying
        self._background = background
        self._recordings = recordings
        self._lanes = [_Lane(self._when_idle) for _ in range(_LANES)]
        self._jobs: dict[int, _Job] = {}
        self._write_lock = threading.Lock()
        self._large_lock = threading.Lock()
        self._is_connected = True

    def run(self, file: frames.Source) -> None:
        """Say that we are ready, take frames from `file` until it ends, finish what was begun."""
        self._send({"job": 0, "phase": "ready"})
        while (taken := frames.read_frame(file)) is not None:
            self._take(*taken)
        self._is_connected = False
        for job in list(self._jobs.values()):
            # The proxy is gone. A request that came whole is stored; its reply was cut.
            self._later(job, self._end, "proxy-ended")
        self._background.close()
        for lane in self._lanes:
            lane.finish()
        self._recordings.close()

    def _when_idle(self) -> None:
        try:
            self._recordings.close_idle(_IDLE_SECONDS)
            if self._recordings.has_stored:
                self._tidying.look()
                self._background.look()
        except (OpenmemError, OSError, sqlite3.Error) as error:
            _say(error)  # a file that does not close now is closed with the process

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        if kind == frames.OPEN:
            self._open(number, payload)
            return
        if kind == frames.FAULT:
            told = json.loads(payload)
            about, why = _about(told), told["why"]
            self._lane_of(about, number).put(lambda: self._recordings.missed(about, why))
            return
        job = self._jobs.get(number)
        if job is None:
            return  # settled already: denied, or dropped
        if kind == frames.BODY:
            job.body.append(payload)
        elif kind == frames.VIEW:
            self._later(job, self._view)
        elif kind == frames.REPAIR:
            self._later(job, self._repair, payload.decode("ascii"))
        elif kind == frames.SENT:
            self._later(job, self._request, payload)
        elif kind == frames.HEAD_SEEN:
            self._later(job, self._head, json.loads(payload))
        elif kind == frames.DATA:
            self._later(job, self._data, payload)
        elif kind == frames.END:
            self._later(job, self._end, json.loads(payload)["reason"])
        elif kind == frames.LATE:
            self._later(job, self._late)
        elif kind == frames.DROP:
            self._jobs.pop(number, None)
            job.body.clear()
            about, why = job.about, json.loads(payload)["why"]
            job.lane.put(lambda: self._recordings.missed(about, why))

    def _open(self, number: int, payload: bytes) -> None:
        about = _about(json.loads(payload))
        self._jobs[number] = _Job(number, about, self._lane_of(about, number))

    def _lane_of(self, about: About, number: int) -> _Lane:
        """Return a session's lane; a request that states its session in the body only has to be
        ordered by its client, which waits for one answer before it asks again."""
        for name in LANE_HEADERS:
            if about.headers.get(name):
                return self._lanes[zlib.crc32(about.headers[name].encode()) % _LANES]
        return self._lanes[number % _LANES]

    def _later(self, job: _Job, step: Callable[..., None], *given: Any) -> None:
        def work() -> None:
            try:
                step(job, *given)
            except Exception as error:  # noqa: BLE001 - the process must outlive any one exchange
                _say(error)
                self._recordings.fault(job.about, error, job.exchange)
                self._settle(job, "fault")

        job.lane.put(work)

    # --- steps, in the job's lane

    def _view(self, job: _Job) -> None:
        sent = Sent()
        with self._room_for(job):
            try:
                if self._admit(job) and job.admitted is not None:
                    sent = self._recordings.view(job.about, job.admitted)
            finally:
                # The request waits for it, whatever happened; giving memory back comes after.
                self._answer_view(job, sent)

    def _repair(self, job: _Job, cause: str) -> None:
        sent = Sent()
        try:
            if job.admitted is not None:
                sent = self._recordings.repair(job.admitted, cause)
        finally:
            self._answer_view(job, sent)

    def _admit(self, job: _Job) -> bool:
        """Take in the body; settle the job and return False when it is not to be stored."""
        body, job.body = job.body, []
        outcome = self._recordings.admit(job.about, body)
        if isinstance(outcome, str):
            self._settle(job, outcome)
            return False
        job.admitted = outcome
        return True

    def _request(self, job: _Job, spliced: bytes) -> None:
        with self._room_for(job):
            if job.number not in self._jobs or (job.admitted is None and not self._admit(job)):
                return
            assert job.admitted is not None
            if spliced:
                job.differs = not self._recordings.was_spliced(
                    job.about, job.admitted, **json.loads(spliced)
                )
                view = job.admitted.view
                job.may_be_repaired = view is not None and view.body is not None
            outcome = self._recordings.request(job.about, job.admitted)
            job.admitted = job.admitted if job.may_be_repaired else None
        if isinstance(outcome, str):
            self._settle(job, outcome)
            return
        job.exchange = outcome
        self._answer(job, "request", "recorded")

    @contextmanager
    def _room_for(self, job: _Job) -> Iterator[None]:
        """Let one large body at a time in: decoded it is several times its size."""
        job.size = max(job.size, sum(map(len, job.body)))
        if job.size < memory.LARGE_BYTES:
            yield
            return
        with self._large_lock:
            yield
            memory.give_back()

    def _head(self, job: _Job, about: dict[str, Any]) -> None:
        if job.exchange is not None:
            job.reader = ReplyReader(
                status=about["status"],
                content_type=about["content_type"],
                encoding=about["encoding"],
                wire=job.about.wire,
            )

    def _data(self, job: _Job, payload: bytes) -> None:
        if job.reader is not None:
            job.reader.feed(payload)

    def _end(self, job: _Job, reason: str) -> None:
        if job.exchange is None:
            self._settle(job, "unfinished")
            return
        outcome = "recorded"
        more: dict[str, Any] = {"differs": True} if job.differs else {}
        more |= self._recordings.splice(job.exchange, None)
        if job.reader is not None:
            reply = job.reader.finish(reason)
            outcome = self._recordings.reply(job.exchange, reply)
            more["hint"] = self._recordings.hint(job.exchange, reply)
            more |= self._recordings.splice(job.exchange, reply)
        self._settle(job, outcome, more)

    def _late(self, job: _Job) -> None:
        if job.exchange is not None:
            self._recordings.late(job.exchange)

    def _settle(self, job: _Job, outcome: str, more: dict[str, Any] | None = None) -> None:
        if self._jobs.pop(job.number, None) is not None:
            job.body = []
            self._answer(job, "done", outcome, more)

    def _answer_view(self, job: _Job, sent: Sent) -> None:
        told = {
            "size": len(sent.body or b""),
            "beta": sent.beta,
            "refusal": sent.refusal,
            "odd": sent.is_odd,
        }
        job.may_be_repaired = sent.body is not None
        self._answer(job, "view", "", told, sent.body or b"")

    def _answer(
        self,
        job: _Job,
        phase: str,
        outcome: str,
        more: dict[str, Any] | None = None,
        body: bytes = b"",
    ) -> None:
        told = {"job": job.number, "phase": phase, "outcome": outcome, **(more or {})}
        self._send(told, body)

    def _send(self, told: dict[str, Any], body: bytes = b"") -> None:
        if not self._is_connected:
            return
        line = json.dumps(told) + "\n"
        with self._write_lock:
            try:
                self._channel.sendall(line.encode("ascii"))
                if body:
                    self._channel.sendall(body)
            except OSError:
                self._is_connected = False  # the proxy is gone; storing goes on


def _about(told: dict[str, Any]) -> About:
    return About(route=told["route"], wire=told["wire"], headers=told["headers"])


def _say(error: BaseException) -> None:
    """Write where a fault of ours happened to stderr, which the link leads to the proxy's log."""
    sys.stderr.write(f"{now_text()} recorder[{os.getpid()}] fault: {described(error)}\n")
    sys.stderr.flush()


def main(descriptor: int, open_notes: Callable[[Paths], Notes] | None = None) -> None:
    """Serve one proxy on an inherited socket until it ends. `open_notes`: what pointers may say
    besides; a host that has it runs this from a module of its own."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.excepthook = lambda kind, error, trace: _say(error)
    threading.excepthook = lambda told: _say(told.exc_value) if told.exc_value else None
    try:
        os.nice(_NICENESS)
    except OSError:
        pass  # a sandbox that forbids it; only the share of a busy processor differs
    # The reader needs the interpreter for a moment at each frame; a lane would keep it for 5 ms.
    sys.setswitchinterval(_SWITCH_SECONDS)
    channel = socket.socket(fileno=descriptor)
    file = io.BufferedReader(socket.SocketIO(channel, "r"), _READ_BYTES)
    first = frames.read_frame(file)
    if first is None or first[0] != frames.SETTINGS:
        return
    told = json.loads(first[2])
    paths = Paths(told["environ"])

    def open_recorder() -> Recorder:
        key = ensure_key(paths)
        return Recorder(paths, key) if told["redacts"] else Recorder(paths, key, _as_it_is)

    def open_trimming() -> Trimming:
        settings, notes = TrimSettings(**told["trim"]), open_notes(paths) if open_notes else None
        return Trimming(paths, ensure_key(paths), settings, told["windows"], notes)

    recordings = Recordings(
        paths,
        open_recorder,
        body_limit_bytes=told["body_limit_bytes"],
        version=told["version"],
        open_trimming=open_trimming if TrimSettings(**told["trim"]).is_needed else None,
    )
    background = Background(paths, VectorSettings(**told["vectors"]), _say)
    tidying = Tidying(paths, told["ttl_days"])
    RecorderProcess(channel, recordings, tidying, background).run(file)


def _as_it_is(text: str, _: bytes) -> Redacted:
    return Redacted(text)
