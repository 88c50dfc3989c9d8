"""The proxy's end of the recorder process: hands over copies, learns what was committed.

Idea: parsing, redaction and SQLite run in a process of their own, because a thread would hold the
interpreter's lock while streams wait (measured: docs/explanation/trial-recording-beside-a-stream).
Invariant: nothing here can fail or delay a request; a job that cannot be recorded resolves with
the reason. Copies that wait are bounded in bytes, all together; beyond that requests go unrecorded.
Trap: the recorder may die or hang at any moment. Its jobs are then settled here, requests go on
unrecorded for a moment, and another recorder is started, ever more slowly if that fails, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import openmem
from openmem.base.paths import Paths
from openmem.context.proxy import memory
from openmem.context.proxy.recording import frames
from openmem.context.proxy.recording.hints import Hint, Hints
from openmem.context.proxy.recording.job import RECORDED, UNTRIMMABLE, Job
from openmem.context.proxy.recording.splicing import Splicer
from openmem.context.proxy.settings import ProxySettings

_LOG = logging.getLogger("openmem.proxy")
_STUCK_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_SETTLED_SECONDS = 1.0
_RESTART_SECONDS = (0.0, 0.5, 2.0, 5.0, 15.0)
_FAILURES_TOLD = 2  # one may be a kill
_ENVIRONMENT = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")


class RecorderLink:
    """Starts the recorder process, restarts it when it dies, and gives out jobs.

    `on_outcome` is called once per job with its outcome, and for one that cannot be shown in
    another form.
    """

    def __init__(self, settings: ProxySettings, on_outcome: Callable[[str], None]) -> None:
        self._settings = settings
        self._on_outcome = on_outcome
        self._jobs: dict[int, Job] = {}
        self._hints = Hints()
        self.splicer = Splicer(settings.paths)
        self._next = 0
        self._held = 0
        self._writer: asyncio.StreamWriter | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._restart: asyncio.TimerHandle | None = None
        self._failures = 0
        self._is_ready = False
        self._is_closing = False
        self._has_had_large = False
        self._last_word = 0.0
        self.restarts = 0

    # --- life

    async def start(self) -> None:
        """Start the recorder. A recorder that cannot start is tried again; requests go on."""
        try:
            await self._spawn()
        except OSError as error:
            _LOG.warning("recorder did not start: %s", error.strerror or type(error).__name__)
            self._plan_restart()

    async def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        log = _fault_log(self._settings.paths)
        try:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            ours.setblocking(False)
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-c",
                    _program(self._settings.recorder),
                    str(theirs.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                # One pool of memory for all its threads: with one each, freed bodies pile up.
                env={**os.environ, "MALLOC_ARENA_MAX": "1"},
            )
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            if log is not None:
                os.close(log)
        # A drained copy must be out of this process: it then survives the process.
        writer.transport.set_write_buffer_limits(0)
        self._writer = writer
        self._is_ready = False
        self._last_word = asyncio.get_running_loop().time()
        writer.write(frames.frame(frames.SETTINGS, 0, self._settings_payload()))
        self._reader_task = asyncio.get_running_loop().create_task(self._read(reader))

    def _settings_payload(self) -> bytes:
        environ = {
            name: value
            for name, value in self._settings.paths.environ.items()
            if name in _ENVIRONMENT or name.startswith("OPENMEM_")
        }
        return json.dumps(
            {
                "environ": environ,
                "body_limit_bytes": self._settings.body_limit_bytes,
                "redacts": self._settings.redacts,
                "ttl_days": self._settings.ttl_days,
                "version": self._settings.version,
                "trim": asdict(self._settings.trim),
                "windows": dict(self._settings.windows),
                "vectors": asdict(self._settings.vectors),
            }
        ).encode("ascii")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Take the recorder's answers until it ends; then resolve what it left behind."""
        try:
            while line := await reader.readline():
                answer = json.loads(line)
                body = await reader.readexactly(answer["size"]) if answer.get("size") else b""
                self._answer(answer, body)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass  # a broken answer is a broken recorder: what follows is the same
        finally:
            self._lost()

    def _answer(self, answer: dict[str, Any], body: bytes) -> None:
        self._is_ready = True
        if answer["phase"] == "ready":
            return  # no proof of more: one that dies at its first job is started ever more slowly
        self._failures = 0
        self._last_word = asyncio.get_running_loop().time()
        job = self._jobs.get(answer["job"])
        if job is None:
            return
        if answer["phase"] == "view":
            if answer["odd"]:
                self._on_outcome(UNTRIMMABLE)
            job.view_came(body, answer["beta"], answer["refusal"])
            return
        if answer["phase"] == "request":
            job.body_is_stored()  # its response follows
            return
        if answer.get("hint"):
            sid, lane = answer["hint"].pop("sid"), answer["hint"].pop("lane")
            self._hints.note(sid, lane, Hint(**answer["hint"]))
        if answer.get("differs"):
            _LOG.warning("a spliced request was not what the full way makes; no more are spliced")
            self.splicer.turn_off()
        self.splicer.settle(job.number, answer if answer["outcome"] == RECORDED else None)
        self._settle(job, answer["outcome"])

    def _lost(self) -> None:
        process, self._process = self._process, None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for job in list(self._jobs.values()):
            self._settle(job, "recorder-lost")
        self.splicer.clear()
        if process is not None:
            asyncio.get_running_loop().run_in_executor(None, _reap, process)
        if not self._is_closing:
            _LOG.warning("recorder ended; starting another")
            self._plan_restart()

    def _plan_restart(self) -> None:
        delay = _RESTART_SECONDS[min(self._failures, len(_RESTART_SECONDS) - 1)]
        self._failures += 1
        self._is_ready = False
        self.restarts += 1
        loop = asyncio.get_running_loop()
        self._restart = loop.call_later(delay, lambda: loop.create_task(self.start()))

    async def close(self) -> None:
        """Let the recorder finish what it has, within a few seconds, and end it."""
        self._is_closing = True
        if self._restart is not None:
            self._restart.cancel()
        waiting = [job.done for job in self._jobs.values() if not job.done.done()]
        if waiting:
            await asyncio.wait(waiting, timeout=_CLOSE_SECONDS)
        process = self._process
        if self._writer is not None and self._writer.can_write_eof():
            try:
                self._writer.write_eof()
            except OSError:
                pass  # it is gone already, which is what we wanted
        if self._reader_task is not None:
            done, _ = await asyncio.wait({self._reader_task}, timeout=_CLOSE_SECONDS)
            if not done:
                if process is not None:
                    process.kill()
                await asyncio.wait({self._reader_task}, timeout=_CLOSE_SECONDS)
        if process is not None:
            await asyncio.get_running_loop().run_in_executor(None, _reap, process)

    # --- jobs

    @property
    def is_alive(self) -> bool:
        return self._writer is not None

    @property
    def problem(self) -> str:
        """A sentence when the recorder cannot be made to work; "" while it does."""
        if self._is_ready or self._failures < _FAILURES_TOLD:
            return ""
        return (
            f"the recorder did not start, {self._failures} times in a row; "
            "requests go on and nothing is stored"
        )

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def pending(self) -> int:
        return len(self._jobs)

    def wants_view(self, sid: str, lane: str, size: int, head: bytes) -> bool:
        """Return whether a request may have to be sent in another form.

        Large ones may be due for a trim, unless the last call's count rules that out; of smaller
        ones only a session's with a trim behind it or asked for. `sid`, `lane`: as the headers
        state them, "" when they do not. `head`: of the body, b"" when it is compressed.
        """
        if not self._settings.trim.is_needed:
            return False
        stem = f"{self._settings.paths.sessions_dir}/{sid}"
        if sid and os.path.exists(f"{stem}.force"):
            return True
        if sid and self._hints.rules_out(sid, lane, size, head):
            return False
        if size >= self._settings.view_from_bytes:
            return True
        return bool(sid) and os.path.exists(f"{stem}.trim.json")

    def open(self, about: Callable[[], dict[str, Any]], size: int) -> Job | str:
        """Return a job for a request of `size` bytes, or the reason why there is none."""
        if self._writer is None:
            return "recorder-lost"
        if self._is_stuck():
            return "recorder-stuck"
        if self._held + size > self._settings.queue_limit_bytes:
            self.send(frames.FAULT, 0, {**about(), "why": "recorder-behind"})
            return "recorder-behind"
        self._has_had_large = self._has_had_large or size >= memory.LARGE_BYTES
        self._next += 1
        job = Job(self, self._next, about)
        self._jobs[job.number] = job
        return job

    def _is_stuck(self) -> bool:
        """Return whether the recorder holds jobs and has said nothing for long; then end it."""
        now = asyncio.get_running_loop().time()
        if not self._jobs:
            self._last_word = now
            return False
        waiting = any(not job.is_open for job in self._jobs.values())
        if not waiting or now - self._last_word < _STUCK_SECONDS:
            return False
        if self._process is not None:
            self._process.kill()  # its reader sees the end and starts another
        return True

    def give_up(self, job: Job, why: str) -> None:
        """End a job whose copy cannot be taken whole."""
        self.send(frames.DROP, job.number, {"why": why})
        self._settle(job, why)

    def _settle(self, job: Job, outcome: str) -> None:
        if self._jobs.pop(job.number, None) is not None:
            self.splicer.settle(job.number, None)  # nothing, when the recorder has said its word
            job.resolve(outcome)
            self._on_outcome(outcome)
            if self._has_had_large and not self._jobs:
                self._has_had_large = False
                loop = asyncio.get_running_loop()
                loop.call_later(_SETTLED_SECONDS, loop.run_in_executor, None, memory.give_back)

    def reserve(self, size: int) -> bool:
        if self._held + size > self._settings.queue_limit_bytes:
            return False
        self._held += size
        return True

    def release(self, size: int) -> None:
        self._held -= size

    def send(self, kind: int, job: int, about: Mapping[str, Any] | None = None) -> None:
        """Send a small frame without waiting; lost with the recorder, which is all right."""
        if self._writer is not None:
            payload = json.dumps(about).encode("ascii") if about else b""
            self._writer.write(frames.frame(kind, job, payload))

    async def transmit(self, data: bytes) -> None:
        """Send a frame, waiting while the recorder is slower than we are."""
        writer = self._writer
        if writer is None:
            raise ConnectionResetError
        writer.write(data)
        await writer.drain()


def _program(module: str) -> str:
    """Return the recorder's program text: our package's folder last on the path, then its main.

    Last, so that nothing beside the package can stand before the standard library.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(openmem.__file__)))
    return (
        f"import sys; sys.path.append({root!r}); from {module} import main; main(int(sys.argv[1]))"
    )


def _fault_log(paths: Paths) -> int | None:
    """Return the proxy's log, open for appending, when nobody reads our stderr, else None.

    A service's stderr goes nowhere; why a recorder died would be lost with it.
    """
    try:
        if not _is_unread(2):
            return None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(f"{paths.logs_dir}/proxy.log", flags, 0o600)
    except OSError:
        return None  # no folder for it, or a full disk: recording matters more than its log


def _is_unread(descriptor: int) -> bool:
    return os.path.samestat(os.fstat(descriptor), os.stat(os.devnull))


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
