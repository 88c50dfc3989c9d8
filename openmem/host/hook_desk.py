"""Answering hooks inside the warm worker: in threads, each with a deadline.

Idea: policy, registration and recall are ordinary blocking code; a thread runs them while streams
go on. Invariant: the caller has its answer, or the word that there is none, by the deadline; it
then does the work itself or lets the agent go on. Trap: a thread cannot be ended; so their number
is bounded, they never keep the process alive, and a full desk says "busy" at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping

from openmem.host.control_server import Reply

THREADS = 8
DEADLINE_SECONDS = 5.0

Answer = Callable[[str, str, dict[str, object], Mapping[str, str]], str]


class HookDesk:
    """Runs `answer(event, agent, payload, environ)` for the control socket's `hook` requests."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._busy = 0

    async def __call__(self, request: dict[str, object]) -> Reply:
        event, agent = request.get("event"), request.get("agent")
        payload, environ = request.get("payload"), request.get("environ", {})
        if not isinstance(event, str) or not isinstance(agent, str):
            return _no("no-event")
        if not isinstance(payload, dict) or not isinstance(environ, dict):
            return _no("no-payload")
        if self._busy >= THREADS:
            return _no("busy")
        texts = {k: v for k, v in environ.items() if isinstance(v, str)}
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._busy += 1
        threading.Thread(
            target=self._run, args=(done, event, agent, payload, texts), daemon=True, name="hook"
        ).start()
        try:
            return Reply(
                body={"ok": True, "stdout": await asyncio.wait_for(done, _seconds(request))}
            )
        except TimeoutError:
            return _no("deadline")

    def _run(
        self,
        done: asyncio.Future[str],
        event: str,
        agent: str,
        payload: dict[str, object],
        environ: Mapping[str, str],
    ) -> None:
        outcome: str | Exception
        try:
            outcome = self._answer(event, agent, payload, environ)
        except Exception as error:  # noqa: BLE001 - carried over to the loop, which logs it
            outcome = error
        try:
            done.get_loop().call_soon_threadsafe(self._settle, done, outcome)
        except RuntimeError:
            pass  # the loop has closed: the worker has left, and so has the caller

    def _settle(self, done: asyncio.Future[str], outcome: str | Exception) -> None:
        self._busy -= 1
        if done.done():
            return  # the deadline was first
        if isinstance(outcome, Exception):
            done.set_exception(outcome)
        else:
            done.set_result(outcome)


def _seconds(request: Mapping[str, object]) -> float:
    value = request.get("deadline_seconds")
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return min(float(value), DEADLINE_SECONDS)
    return DEADLINE_SECONDS


def _no(reason: str) -> Reply:
    return Reply(body={"ok": False, "error": reason})
