"""The process that holds the proxy's address and never serves a request itself.

Idea: whoever connects waits in the listening socket's queue until a worker accepts; so a worker
may die, be replaced or be upgraded without one refused connection. The supervisor starts workers,
listens to them, replaces them. It is small (standard library, no settings, no HTTP) because what
does nothing does not crash. Invariant: a new worker is serving before the old one stops
accepting. Trap: it must not import on demand; its files may be those of another version by then,
and an upgrade replaces the process image, keeping the descriptors.
Source: design section 7; docs/explanation/supervision.md.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping

from openmem import __version__
from openmem.base.clock import now_text
from openmem.base.paths import Paths
from openmem.host.channel import Channel
from openmem.host.crew import YOUNG_SECONDS, Pace, Worker, start_worker
from openmem.host.launch import become, installed_version, number_in, take_orders
from openmem.host.logbook import Logbook
from openmem.host.record import (
    Record,
    holds_lock,
    is_stopped,
    remove_record,
    remove_socket,
    sign_lock,
    write_record,
)
from openmem.host.signals import SignalPipe

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
HANGUP = signal.SIGHUP
PING_SECONDS = 15.0
SILENCE_SECONDS = 60.0
CHECK_SECONDS = 5.0
LEAVE_SECONDS = 900  # the longest answer of a model that a replaced worker still carries through
GRACE_SECONDS = {"stop": 5, "stop-now": 1, "sigterm": 10, "sigint": 3, "gone": 2}


class Supervisor:
    """Watches over workers until told to end. `orders`: as `hold` and the launcher made them."""

    def __init__(
        self,
        paths: Paths,
        orders: Mapping[str, object],
        environ: Mapping[str, str],
        on_ready: Callable[[int], None] | None = None,
    ) -> None:
        self.paths = paths
        self.environ = environ
        self.on_ready = on_ready
        self.log = Logbook(paths, "supervisor")
        self.listen_fd = number_in(orders, "listen")
        self.lock_fd = number_in(orders, "lock")
        self.manager = str(orders.get("manager", "detached"))
        self.passed_on = {"upstream": orders.get("upstream", "")}
        self.record = Record(
            port=number_in(orders, "port"),
            supervisor_pid=os.getpid(),
            version=__version__,
            started_at=str(orders.get("started_at") or now_text()),
            manager=self.manager,
            restarts=number_in(orders, "restarts"),
        )
        self.pace = Pace()
        self.current: Worker | None = None
        self.incoming: Worker | None = None
        self.leaving: list[Worker] = []
        self.wants_replacement = False
        self.ends_at: float | None = None
        self.next_ping = self.next_check = self.last_loop = time.monotonic()
        for descriptor in (self.listen_fd, self.lock_fd):
            os.set_inheritable(descriptor, False)
        sign_lock(self.lock_fd)
        self._adopt(orders.get("workers"))

    def _adopt(self, workers: object) -> None:
        for entry in workers if isinstance(workers, list) else []:
            channel = Channel(number_in(entry, "fd"))
            os.set_inheritable(channel.descriptor, False)
            self.current = Worker(
                number_in(entry, "pid"),
                channel,
                version=str(entry.get("version")),
                mode=str(entry.get("mode")),
                is_ready=True,
            )
            self.wants_replacement = self.current.version != __version__
            channel.send(f"pid {os.getpid()}")  # the launcher asked for it, under its own number
            self.log.line(f"took over worker {self.current.pid}")

    def run(self) -> int:
        """Watch until the end; returns the exit status."""
        if self.manager != "foreground":
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a daemon has no terminal to lose
        signals = SignalPipe(SIGNALS if self.manager != "foreground" else (*SIGNALS, HANGUP))
        self.log.rotate()
        self.log.line(f"holds port {self.record.port} ({self.manager}, {__version__})")
        self._write_record()
        try:
            while self._turn(signals):
                pass
        finally:
            signals.close()
            self._close()
        return 0

    def _turn(self, signals: SignalPipe) -> bool:
        """Wait for something and deal with it; False once there is nothing left to watch."""
        now = time.monotonic()
        if now - self.last_loop > PING_SECONDS * 2:
            for worker in self._workers():  # we slept (suspended machine): their silence was ours
                worker.heard = now
        self.last_loop = now
        if self.ends_at is not None and (not self._workers() or now >= self.ends_at):
            return False
        if self.ends_at is None:
            self._keep_going(now)
        channels = {worker.channel.descriptor: worker for worker in self._workers()}
        wake = signals.fileno()
        ready, _, _ = select.select([wake, *channels], [], [], self._seconds_to_wait(now))
        for descriptor in ready:
            if descriptor == wake:
                self._heed(signals.receive())
            else:
                self._listen_to(channels[descriptor])
        return True

    def _workers(self) -> list[Worker]:
        return [w for w in (self.current, self.incoming, *self.leaving) if w is not None]

    def _seconds_to_wait(self, now: float) -> float:
        if self.ends_at is not None:
            return max(0.0, self.ends_at - now)
        until = min(self.next_ping, self.next_check)
        if self.incoming is None and (self.current is None or self.wants_replacement):
            until = min(until, self.pace.not_before)
        return max(0.0, until - now)

    def _keep_going(self, now: float) -> None:
        """Start what is due, ask what is silent, look whether our folder still exists."""
        if self.incoming is None and now >= self.pace.not_before:
            if self.current is not None and self.pace.wants_full(now):
                self.pace.try_full(now)
                self.wants_replacement = True
            if self.current is None or self.wants_replacement:
                self._start(now)
        if self.current is not None and now - self.current.born >= YOUNG_SECONDS:
            self.pace.grew_up()
        if now >= self.next_ping:
            self.next_ping = now + PING_SECONDS
            for worker in self._workers():
                if now - worker.heard > SILENCE_SECONDS:
                    self.log.line(f"worker {worker.pid} hangs; ending it")
                    worker.kill()
                worker.channel.send("ping")
        if now >= self.next_check:
            self.next_check = now + CHECK_SECONDS
            self.log.rotate()
            if not holds_lock(self.paths, self.lock_fd):
                self._end("gone")

    def _start(self, now: float) -> None:
        orders = {**self.passed_on, "manager": self.manager, "supervisor": os.getpid()}
        self.wants_replacement = False  # a wish from here on is for yet another one
        try:
            self.incoming = start_worker(
                self.environ,
                orders,
                listen_fd=self.listen_fd,
                is_plain=self.pace.is_plain,
                keeps_stderr=False,
            )
        except OSError as error:
            self.log.fault("cannot start a worker", error)
            self.wants_replacement = self.current is not None
            self.pace.died(0.0, now, is_replacement=self.wants_replacement)

    def _listen_to(self, worker: Worker) -> None:
        lines = worker.channel.receive()
        if lines is None:
            self._lost(worker)
            return
        worker.heard = time.monotonic()
        for line in lines:
            self._obey(worker, line.split(" "))

    def _obey(self, worker: Worker, words: list[str]) -> None:
        if words[0] == "ready" and len(words) == 3 and worker is self.incoming:
            worker.version, worker.mode, worker.is_ready = words[1], words[2], True
            self._promote(worker)
        elif words[0] == "mode" and len(words) == 2:
            worker.mode = words[1]
            self._write_record()
        elif words[0] == "routes" and len(words) == 2:
            self.record.upstream = dict(json.loads(words[1]))
        elif words[0] == "replace":
            self.wants_replacement = True
        elif words[0] == "upgrade":
            self._upgrade()
        elif words[0] in ("stop", "stop-now"):
            self._end(words[0])

    def _promote(self, worker: Worker) -> None:
        before, self.current, self.incoming = self.current, worker, None
        self.log.line(f"worker {worker.pid} serves ({worker.version}, {worker.mode})")
        if before is not None:
            before.channel.send(f"finish {LEAVE_SECONDS}")
            self.leaving.append(before)
        self._write_record()
        if self.on_ready is not None:
            self.on_ready(self.record.port)
            self.on_ready = None

    def _lost(self, worker: Worker) -> None:
        """Deal with the end of a worker, whoever ended it."""
        now = time.monotonic()
        worker.channel.close()
        if worker in self.leaving:
            self.leaving.remove(worker)
            return
        worker.kill()  # a process that closed its line can no longer be led
        was_replacement = worker is self.incoming and self.current is not None
        if worker is self.incoming:
            self.incoming = None
            self.wants_replacement = was_replacement
        else:
            self.current = None
        if self.ends_at is not None:
            return
        self.record.restarts += 1
        was_plain = self.pace.is_plain
        self.pace.died(now - worker.born, now, is_replacement=was_replacement)
        self.log.line(f"worker {worker.pid} ended after {now - worker.born:.1f} s")
        if self.pace.is_plain and not was_plain:
            self.log.line("workers keep dying: passing through without recording")
        self._write_record()

    def _upgrade(self) -> None:
        """Become the version that is installed now, keeping socket, lock and worker."""
        if self.incoming is not None or not installed_version():
            return  # half way through something; the worker asks again
        if self.manager == "foreground":
            self.wants_replacement = True  # this process is the command line's, not ours to replace
            return
        kept = [self.current] if self.current is not None else []
        orders = {
            **self.passed_on,
            "listen": self.listen_fd,
            "lock": self.lock_fd,
            "port": self.record.port,
            "manager": self.manager,
            "started_at": self.record.started_at,
            "restarts": self.record.restarts,
            "workers": [worker.orders_form() for worker in kept],
        }
        self.log.line(f"upgrading from {__version__} to {installed_version()}")
        descriptors = [self.listen_fd, self.lock_fd, *(w.channel.descriptor for w in kept)]
        try:
            become(orders, self.environ, descriptors)
        except OSError as error:
            self.log.fault("cannot upgrade", error)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)

    def _end(self, reason: str) -> None:
        if self.ends_at is not None and reason == "sigint":
            self.ends_at = time.monotonic()  # asked twice: at once
            return
        grace = GRACE_SECONDS[reason]
        self.log.line(f"ending: {reason}")
        self.ends_at = time.monotonic() + grace + 1.0
        if self.listen_fd >= 0:
            os.close(self.listen_fd)
            self.listen_fd = -1
        for worker in self._workers():
            worker.channel.send(f"finish {grace if worker.is_ready else 0}")
            if not worker.is_ready:
                worker.kill()

    def _close(self) -> None:
        """Leave nothing: no worker, no descriptor, no record of a proxy that was ended."""
        for worker in self._workers():
            worker.kill()
            worker.channel.close()
        if self.manager == "foreground" or is_stopped(self.paths):
            remove_record(self.paths)
        self._reap()
        if self.listen_fd >= 0:
            os.close(self.listen_fd)
        remove_socket(self.paths)  # of a worker that had to be killed
        os.close(self.lock_fd)

    def _write_record(self) -> None:
        current = self.current
        self.record.worker_pid = current.pid if current else 0
        self.record.mode = current.mode if current else "starting"
        try:
            write_record(self.paths, self.record)
        except OSError as error:
            self.log.fault("cannot write the record", error)  # serving does not depend on it

    def _heed(self, numbers: bytes) -> None:
        for byte in numbers:
            if byte == signal.SIGCHLD:
                self._reap()
            elif byte == signal.SIGINT:
                self._end("sigint")
            elif byte in (signal.SIGTERM, signal.SIGHUP) and self.ends_at is None:
                self._end("sigterm")

    def _reap(self) -> None:
        """Take dead children off the process table and say how they died."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for worker in self._workers():
                if worker.pid == pid:
                    worker.is_reaped = True  # from here on the number may be another process's
            how = os.waitstatus_to_exitcode(status)
            if how:
                self.log.line(f"process {pid} ended: {f'signal {-how}' if how < 0 else how}")


def main(arguments: list[str] | None = None) -> int:
    """Run `python -m openmem.host.supervisor`: see `launcher.py` for what a person or hook asks."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--serve"]:
        orders = take_orders()
        environ = dict(os.environ)
        return Supervisor(Paths(environ), orders, environ).run()
    from openmem.host.launcher import launch

    return launch(arguments)


if __name__ == "__main__":
    sys.exit(main())
