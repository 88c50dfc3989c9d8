"""One request's copy on its way to the recorder process.

Idea: pieces are put in as they pass by and go out from a task of their own, so that nothing that
streams waits for the recorder.
Invariant: what a job holds is reserved in the link's account and given back exactly once.
Trap: a copy is handed over once the response's first bytes are out (or after 50 ms), not at once:
on a small machine the copying competes with the request itself.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from openmem.context.proxy.recording import frames
from openmem.context.proxy.recording.sent import Sent

_HANDOVER_DELAY_SECONDS = 0.05
_BATCH_BYTES = 64 * 1024
_BATCH_SECONDS = 0.25

RECORDED = "recorded"
DENIED = "denied"
SIDE = "side"
# Requests that are no JSON object: nothing that we, or anybody, could have kept.
NOT_JSON = "not-json"
# Requests that are kept, but too odd to be shown in another form; they go as they came.
UNTRIMMABLE = "untrimmable"
# Outcomes that are no fault of ours and no loss: the request goes on, and that is that.
EXPECTED = frozenset({RECORDED, DENIED, SIDE})


class Channel(Protocol):
    """The link as a job sees it."""

    def reserve(self, size: int) -> bool: ...
    def release(self, size: int) -> None: ...
    def give_up(self, job: Job, why: str) -> None: ...
    def send(self, kind: int, job: int, about: Mapping[str, Any] | None = None) -> None: ...
    async def transmit(self, data: bytes) -> None: ...


class Job:
    """One request's copy on its way to the recorder.

    `done` resolves to the outcome once all rows of the exchange are committed, or it is known
    that there will be none; it never raises.
    """

    def __init__(self, link: Channel, number: int, about: Callable[[], dict[str, Any]]) -> None:
        loop = asyncio.get_running_loop()
        self.done: asyncio.Future[str] = loop.create_future()
        self._link = link
        self.number = number
        self._about = about
        self._items: deque[tuple[int, bytes]] = deque()
        self._held = 0
        self._body_bytes = 0
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._batch_timer: asyncio.TimerHandle | None = None
        self._is_open = True
        self._view: asyncio.Future[Sent] | None = None
        self._wake = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._timer = loop.call_later(_HANDOVER_DELAY_SECONDS, self.hand_over)

    @property
    def is_open(self) -> bool:
        """Whether more of this exchange is wanted."""
        return self._is_open

    def body(self, chunks: list[bytes], spliced: bytes | None = None) -> None:
        """Take the request's body, whole. `spliced`: what is sent instead of it."""
        for chunk in chunks:
            self._put(frames.BODY, chunk)
        self._body_bytes = self._held
        told = b""
        if spliced is not None:
            told = json.dumps({"size": len(spliced), "crc": zlib.crc32(spliced)}).encode("ascii")
        self._put(frames.SENT, told)

    async def view(self, chunks: list[bytes], wait_seconds: float) -> Sent | None:
        """Give in the request's body and return what is to be sent; None when no word came.

        The body is handed over at once: the request waits.
        """
        for chunk in chunks:
            self._put(frames.BODY, chunk)
        self._body_bytes = self._held
        return await self._asked(frames.VIEW, wait_seconds, then=frames.SENT)

    async def repaired(self, cause: str, wait_seconds: float) -> Sent | None:
        """Return another form of the request, whose form of ours was refused; None for none.
        `cause`: a word of `sent.py`."""
        return await self._asked(frames.REPAIR, wait_seconds, given=cause.encode("ascii"))

    async def _asked(
        self, kind: int, wait_seconds: float, then: int | None = None, given: bytes = b""
    ) -> Sent | None:
        self._view = asyncio.get_running_loop().create_future()
        self._put(kind, given)
        if then is not None:
            self._put(then, b"")
        self.hand_over()
        done, _ = await asyncio.wait({self._view}, timeout=wait_seconds)
        return self._view.result() if done else None

    def view_came(self, body: bytes, beta: str, refusal: str) -> None:
        """Take in what is to be sent."""
        if self._view is not None and not self._view.done():
            self._view.set_result(Sent(body=body or None, beta=beta, refusal=refusal))

    def body_is_stored(self) -> None:
        """Let go of the body's share of the queue: the recorder is done with it."""
        self._link.release(self._body_bytes)
        self._held -= self._body_bytes
        self._body_bytes = 0

    def hand_over(self) -> None:
        """Begin to copy; called when the response's first bytes are out, or by the clock."""
        self._timer.cancel()
        if self._pump is None and self._is_open:
            self._pump = asyncio.get_running_loop().create_task(self._run())
            self._pump.add_done_callback(self._pump_ended)

    def head(self, *, status: int, content_type: str, encoding: str) -> None:
        about = {"status": status, "content_type": content_type, "encoding": encoding}
        self._put(frames.HEAD_SEEN, json.dumps(about).encode("ascii"))

    def data(self, piece: bytes) -> None:
        """Take the next bytes of the response; small ones are gathered before they are sent."""
        if not self._is_open:
            return
        self._batch.append(piece)
        self._batch_bytes += len(piece)
        if self._batch_bytes >= _BATCH_BYTES:
            self._flush()
        elif self._batch_timer is None:
            loop = asyncio.get_running_loop()
            self._batch_timer = loop.call_later(_BATCH_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
            self._batch_timer = None
        if self._batch:
            piece = b"".join(self._batch)
            self._batch, self._batch_bytes = [], 0
            self._put(frames.DATA, piece)

    def end(self, reason: str) -> None:
        """Say how the response ended: "complete", or why it did not."""
        if self._is_open:
            self._flush()
            self._put(frames.END, json.dumps({"reason": reason}).encode("ascii"))
            self.hand_over()
            self._is_open = False

    def late(self) -> None:
        """Note that the response's last byte went out before the rows were committed."""
        self._link.send(frames.LATE, self.number)

    async def handed_over(self, timeout_seconds: float) -> None:
        """Wait until the whole copy is out of this process, or for as long as is given."""
        if self._pump is not None and not self._pump.done():
            either: set[asyncio.Future[Any]] = {self._pump, self.done}
            await asyncio.wait(either, timeout=timeout_seconds, return_when="FIRST_COMPLETED")

    def resolve(self, outcome: str) -> None:
        """Settle the job and let go of its copies."""
        self._is_open = False
        self._timer.cancel()
        if self._batch_timer is not None:
            self._batch_timer.cancel()
        self._items.clear()
        self._batch.clear()
        self._link.release(self._held)
        self._held = 0
        self._wake.set()
        if self._view is not None and not self._view.done():
            self._view.set_result(Sent())
        if not self.done.done():
            self.done.set_result(outcome)

    def _put(self, kind: int, payload: bytes) -> None:
        if not self._is_open:
            return
        if not self._link.reserve(len(payload)):
            self._link.give_up(self, "recorder-behind")
            return
        self._held += len(payload)
        self._items.append((kind, payload))
        self._wake.set()

    async def _run(self) -> None:
        about = json.dumps(self._about()).encode("ascii")
        ready = [frames.frame(frames.OPEN, self.number, about)]
        size = len(about)
        is_ended = False
        while not self.done.done() and not is_ended:
            while self._items and size < _BATCH_BYTES:
                kind, payload = self._items.popleft()
                ready.append(frames.frame(kind, self.number, payload))
                size += len(payload)
                is_ended = kind == frames.END
            if ready:
                # Few and large writes: each wakes the recorder, which competes for a processor.
                await self._link.transmit(b"".join(ready))
                is_large = size >= _BATCH_BYTES
                ready, size = [], 0
                if is_large:
                    await asyncio.sleep(0)  # a large body must not keep the loop from its streams
                continue
            self._wake.clear()
            await self._wake.wait()

    def _pump_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # The recorder's socket broke; its reader resolves all jobs. This one at the latest now.
            self.resolve("recorder-lost")
