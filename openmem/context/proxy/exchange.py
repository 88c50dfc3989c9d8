"""One request and its response through the proxy.

Idea: the request goes up as it came, the response comes down as it comes; copies go to the
recorder beside that.
Invariant: a piece of the response is passed on at once. Only the last byte may wait, until the
rows are committed or the time is over; then it goes and the fault is counted.
Trap: a client that leaves is seen only by asking for its next message, so a task waits for that
while an exchange lasts, and cancels it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from openmem.context.formats.view import Wire
from openmem.context.proxy import headers as heads
from openmem.context.proxy.client import Body, Client, Unreachable
from openmem.context.proxy.ending import EndFinder
from openmem.context.proxy.recording.families import Families
from openmem.context.proxy.recording.identity import (
    IDENTITY_HEADERS,
    agent_id_of,
    stated_session_id,
)
from openmem.context.proxy.recording.job import Job
from openmem.context.proxy.recording.link import RecorderLink
from openmem.context.proxy.recording.sent import FOR_CLEARING, FOR_THINKING, Sent
from openmem.context.proxy.recording.splicing import WHOLE
from openmem.context.proxy.refusal import Refusal
from openmem.context.proxy.upstream import Upstream

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


_SMALL_BYTES = 1024 * 1024
# What a compressed request may unfold to; a guess too high only asks the recorder in vain.
_PACKED = 12
_WORDS_BYTES = 64 * 1024
_HEAD_BYTES = 4096
# Most answers of a test or a token count are over sooner; a task for each would cost more.
_WATCH_DELAY_SECONDS = 0.02
_HAND_OVER_SECONDS = 8.0


class ClientLeft(Exception):
    """The client closed its connection before it had sent its request whole."""


class Refused(Exception):
    """The request would pass a proven limit; `message` is said instead of sending it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a request goes. `agent`: "" on the bare path; `path`: as sent, without our prefix."""

    agent: str
    upstream: Upstream
    path: bytes


class Exchange:
    """Runs one exchange. `link`: None when it is not to be recorded; `wire`: None then, too, where
    the path is of no format that we read."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        route: Route,
        wire: Wire | None,
        client: Client,
        link: RecorderLink | None,
        families: Families,
        body_limit_bytes: int,
        commit_wait_seconds: float,
        view_wait_seconds: float,
        passed: Callable[[str], None],
        fault: Callable[[str], None],
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._route = route
        self._wire: Wire = wire or "messages"
        self._client = client
        self._link = link
        self._families = families
        self._body_limit = body_limit_bytes
        self._commit_wait = commit_wait_seconds
        self._view_wait = view_wait_seconds
        self._sent: Sent | None = None
        self._passed = passed
        self._fault = fault
        self._job: Job | None = None
        self._is_client_gone = False
        self._task: asyncio.Task[None] | None = None
        self._watch_timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the exchange to its end, or to the client's or the upstream's."""
        self._task = asyncio.current_task()
        try:
            await self._forward()
        except ClientLeft:
            self._end("client-left")
        except asyncio.CancelledError:
            if not self._is_client_gone:
                self._end("proxy-ended")
                raise
            if self._task is not None:
                self._task.uncancel()  # the cancelling was our own
            self._end("client-left")
        finally:
            if self._watch_timer is not None:
                self._watch_timer.cancel()
            if self._watcher is not None:
                self._watcher.cancel()

    def _end(self, reason: str) -> None:
        if self._job is not None:
            self._job.end(reason)

    # --- the request

    async def _body(self) -> Body:
        """Return the body: nothing, its pieces when they are wanted whole, else a stream of them.

        A small body is taken whole in any case: it can be sent again, and costs less.
        """
        pairs: heads.Pairs = self._scope["headers"]
        length = heads.first(pairs, b"content-length")
        is_sized = length.isdecimal() and not heads.joined(pairs, b"transfer-encoding")
        if length in ("", "0") and not heads.joined(pairs, b"transfer-encoding"):
            async for _ in self._pieces():
                pass
            return None
        if self._link is None and not (is_sized and int(length) <= _SMALL_BYTES):
            return self._stream([])
        chunks: list[bytes] = []
        size = 0
        async for chunk in self._pieces():
            chunks.append(chunk)
            size += len(chunk)
            if size > self._body_limit:
                self._passed("too-large")
                self._link = None
                return self._stream(chunks)
        if self._link is not None:
            self._open_job(self._link, chunks, size)
            return await self._sent_instead(chunks, size)
        return chunks

    async def _sent_instead(self, chunks: list[bytes], size: int) -> list[bytes]:
        """Return the request's trimmed form when it has one, else the request."""
        job, link = self._job, self._link
        if job is None or link is None:
            return chunks
        about = self._about()
        told = about["headers"]
        sid, lane = stated_session_id(told, "", ""), agent_id_of(told)
        is_packed = bool(heads.joined(self._scope["headers"], b"content-encoding"))
        head = b"" if is_packed else chunks[0][:_HEAD_BYTES]
        if not link.wants_view(sid, lane, size * _PACKED if is_packed else size, head):
            job.body(chunks)
            return chunks
        splicer = link.splicer
        if sid and not is_packed:
            splicer.begin(job.number, (sid, lane), about)
            spliced = await splicer.body_for(job.number, chunks, size)
            if spliced is not None:
                job.body(chunks, spliced)
                if spliced == WHOLE:
                    return chunks
                self._sent = Sent(body=spliced)
                return [spliced]
            if not job.is_open:
                return chunks  # the recorder was lost meanwhile
            splicer.ask(job.number)
        sent = await job.view(chunks, self._view_wait)
        if sent is None:
            self._fault("view-late")
            return chunks
        if sent.refusal:
            raise Refused(sent.refusal)
        if sent.body is None:
            splicer.sent(job.number, WHOLE)
            return chunks
        self._sent = sent
        splicer.sent(job.number, sent.body)
        return [sent.body]

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._is_client_gone = True
                raise ClientLeft
            piece = message.get("body", b"")
            if piece:
                yield piece
            if not message.get("more_body", False):
                loop = asyncio.get_running_loop()
                self._watch_timer = loop.call_later(_WATCH_DELAY_SECONDS, self._begin_watch)
                return

    async def _stream(self, begun: list[bytes]) -> AsyncIterator[bytes]:
        for chunk in begun:
            yield chunk
        begun.clear()
        async for chunk in self._pieces():
            yield chunk

    def _open_job(self, link: RecorderLink, chunks: list[bytes], size: int) -> None:
        job = link.open(self._about, size)
        if isinstance(job, str):
            self._fault(job)
            return
        self._job = job

    def _begin_watch(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    def _about(self) -> dict[str, Any]:
        """Return what the recorder is told of the request besides its body; never a login."""
        told = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in reversed(self._scope["headers"])
            if name in IDENTITY_HEADERS
        }
        told["content-encoding"] = heads.joined(self._scope["headers"], b"content-encoding")
        headers = self._families.under_the_top(told)
        return {"route": self._route.agent, "wire": self._wire, "headers": headers}

    async def _watch(self) -> None:
        """Cancel the exchange when the client leaves; begins once its request is whole."""
        message = await self._receive()
        if message["type"] == "http.disconnect" and self._task is not None:
            self._is_client_gone = True
            self._task.cancel()

    # --- the response

    async def _forward(self) -> None:
        try:
            # The body is kept nowhere else, so that a long stream does not hold it.
            response = await self._request(await self._body())
            if response.status == 400 and self._sent is not None and self._job is not None:
                response = await self._repaired(response, self._job)
        except Refused as error:
            self._end("refused")
            refusal = Refusal(
                status=400, message=error.message, is_ours=False, code="context_length_exceeded"
            )
            await refuse(self._send, refusal, self._route.path.decode("latin-1"))
            return
        except Unreachable as error:
            self._end("no-response")
            if not self._is_client_gone:
                await refuse(self._send, error.refusal, self._route.path.decode("latin-1"))
            return
        try:
            await self._pass_on(response)
        finally:
            response.close()  # a response that was read whole has given its connection back before

    async def _request(self, body: Body) -> aiohttp.ClientResponse:
        pairs = heads.for_upstream(self._scope["headers"])
        if self._sent is not None and isinstance(body, list):
            pairs = heads.for_other_body(pairs, sum(map(len, body)), self._sent.beta)
        return await self._client.send(
            self._scope["method"],
            self._route.upstream,
            self._route.path,
            self._scope["query_string"],
            pairs,
            body,
        )

    async def _repaired(self, response: aiohttp.ClientResponse, job: Job) -> aiohttp.ClientResponse:
        """Return the answer to a repaired request when one of our forms was refused for what we
        did to it.

        The refusal speaks of our indices, and the client would take it for its own fault.
        """
        words = await response.content.read(_WORDS_BYTES)
        cause = _cause_of(words, self._wire)
        if not cause:
            response.content.unread_data(words)
            return response
        sent = await job.repaired(cause, self._view_wait)
        if sent is None or sent.body is None:
            response.content.unread_data(words)
            return response
        response.close()
        self._sent = sent
        return await self._request([sent.body])

    async def _pass_on(self, response: aiohttp.ClientResponse) -> None:
        raw = response.raw_headers
        content_type = heads.joined(raw, b"content-type")
        encoding = heads.joined(raw, b"content-encoding")
        if self._job is not None:
            self._job.head(status=response.status, content_type=content_type, encoding=encoding)
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": heads.for_client(
                    heads.without_indices(list(raw)) if self._is_ours_refused(response) else raw
                ),
            }
        )
        length = heads.joined(raw, b"content-length")
        ending = EndFinder(
            content_type=content_type,
            encoding=encoding,
            content_length=int(length) if length.isdecimal() else None,
            wire=self._wire,
        )
        send, content = self._send, response.content
        try:
            while piece := await content.readany():
                job = self._job
                if job is None or not job.is_open:
                    await send(_more(piece))
                elif ending.is_last(piece):
                    if len(piece) > 1:
                        await send(_more(piece[:-1]))
                    job.data(piece)
                    await self._committed()
                    await send(_more(piece[-1:]))
                else:
                    await send(_more(piece))
                    job.data(piece)
                    job.hand_over()
        except (aiohttp.ClientError, OSError):
            # The upstream broke off. The client must see that, too: no proper end is sent, and
            # the server closes the connection of a response that was left unfinished.
            self._end("upstream-broke")
            return
        await self._committed()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _is_ours_refused(self, response: aiohttp.ClientResponse) -> bool:
        return response.status == 400 and self._sent is not None and self._sent.body is not None

    async def _committed(self) -> None:
        """Wait until the exchange's rows are committed, or for as long as a response may wait."""
        job = self._job
        if job is None:
            return
        job.end("complete")
        if job.done.done():
            return
        done, _ = await asyncio.wait({job.done}, timeout=self._commit_wait)
        if not done:
            job.late()
            # What has left this process is stored even if it is killed now; under a flood the copy
            # may still be here.
            await job.handed_over(_HAND_OVER_SECONDS)
            self._fault("commit-late")
            self._job = None


def _cause_of(words: bytes, wire: Wire) -> str:
    """Return what of ours a refusal may be due to: a word of `sent.py`, "" for nothing."""
    if wire == "responses":
        return FOR_THINKING if b"reasoning" in words else ""
    if b"context_management" in words or b"clear_tool_uses" in words:
        return FOR_CLEARING
    return FOR_THINKING if b"signature" in words and b"thinking" in words else ""


def _more(piece: bytes) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": True}


async def refuse(send: Send, refusal: Refusal, path: str) -> None:
    """Answer with an error of ours."""
    body = refusal.body(path)
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": refusal.headers(body),
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})
