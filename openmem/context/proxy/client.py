"""The one HTTP client: sends a request upstream and gives its response, bytes as they come.

Invariant: the client library adds nothing (no user agent, no cookies, no login of its own) and
undoes nothing (no decompression, no redirects).
Trap: a kept connection may have been closed by the other side just when it is used again. Nothing
of the request was answered then, so it is sent once more on a fresh one; a failure on a fresh
connection is reported, never retried.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from openmem.base.errors import InvalidConfig
from openmem.context.proxy.refusal import Refusal
from openmem.context.proxy.upstream import Upstream, proxy_for, tls_context

_CONNECT_SECONDS = 15.0
_KEEP_ALIVE_SECONDS = 30.0
_HEADER_BYTES = 256 * 1024
_READ_BYTES = 256 * 1024
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Unreachable(Exception):
    """The upstream gave no response; `refusal` is what the client is told."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Chunks(aiohttp.payload.Payload):
    """A body that is at hand in pieces, sent as they are. It may be sent twice."""

    _autoclose = True

    def __init__(self, chunks: Sequence[bytes]) -> None:
        super().__init__(chunks)
        self._size = sum(len(chunk) for chunk in chunks)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for chunk in self._value:
            await writer.write(chunk)

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        await self.write(writer)  # the length is that of the pieces, checked when they came in


Body = Sequence[bytes] | AsyncIterator[bytes] | None


class _Attempt:
    """What is learnt of one attempt: whether a connection was made for it."""

    __slots__ = ("is_fresh",)

    def __init__(self) -> None:
        self.is_fresh = False


_ATTEMPT: ContextVar[_Attempt] = ContextVar("attempt")


class _Connector(aiohttp.TCPConnector):
    """Notes on the running attempt that a connection had to be made."""

    async def _create_connection(self, *given: Any, **named: Any) -> Any:
        _ATTEMPT.get().is_fresh = True
        return await super()._create_connection(*given, **named)


class Client:
    """Sends requests. `problems`: certificate files that could not be used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._session: aiohttp.ClientSession | None = None
        self._tls: ssl.SSLContext | None = None
        self._proxies: dict[Upstream, str] = {}
        self.problems: list[str] = []

    async def start(self, *, needs_tls: bool) -> None:
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            skip_auto_headers=_OWN_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            connector=_Connector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
            read_bufsize=_READ_BYTES,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )
        if needs_tls:
            self._tls_context()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(self._environ, self.problems)
        return self._tls

    def _proxy(self, upstream: Upstream) -> str:
        if upstream not in self._proxies:
            self._proxies[upstream] = proxy_for(upstream, self._environ)
        return self._proxies[upstream]

    async def send(
        self,
        method: str,
        upstream: Upstream,
        raw_path: bytes,
        query: bytes,
        headers: list[tuple[str, str]],
        body: Body,
    ) -> aiohttp.ClientResponse:
        """Return the upstream's response, its body unread. Unreachable when there is none."""
        assert self._session is not None, "start() comes first"
        options: dict[str, Any] = {"allow_redirects": False, "headers": headers}
        try:
            proxy = self._proxy(upstream)
        except InvalidConfig as error:
            raise Unreachable(Refusal(status=502, message=error.message)) from None
        if proxy:
            options["proxy"] = proxy
        if upstream.scheme == "https" or proxy.startswith("https"):
            options["ssl"] = self._tls_context()
        url = upstream.url(raw_path, query)
        can_repeat = body is None or isinstance(body, Sequence)
        while True:
            data = Chunks(body) if isinstance(body, Sequence) else body
            attempt = _Attempt()
            _ATTEMPT.set(attempt)
            try:
                return await self._session.request(method, url, data=data, **options)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                was_closed = isinstance(error, aiohttp.ServerDisconnectedError | OSError)
                if not (was_closed and can_repeat and not attempt.is_fresh):
                    raise Unreachable(_refusal(upstream, proxy, error)) from None


def _refusal(upstream: Upstream, proxy: str, error: BaseException) -> Refusal:
    """Return our words for a failure to get a response. Never names credentials."""
    where = upstream.origin
    if proxy:
        where += (
            " through the proxy of HTTPS_PROXY"
            if upstream.scheme == "https"
            else (" through the proxy of HTTP_PROXY")
        )
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return Refusal(
            status=502,
            message=(
                f"the certificate of {where} is not trusted here. If your network has an "
                "authority of its own, name its file in NODE_EXTRA_CA_CERTS and restart the proxy."
            ),
        )
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Refusal(status=502, message=f"{where} answered {error.status}.", retry_after=5)
    if isinstance(
        error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | TimeoutError
    ):
        return Refusal(
            status=503,
            message=f"{where} cannot be reached ({_reason(error)}).",
            retry_after=5,
        )
    return Refusal(
        status=502,
        message=f"{where} closed the connection without an answer ({type(error).__name__}).",
        retry_after=1,
    )


def _reason(error: BaseException) -> str:
    cause = getattr(error, "os_error", None) or error
    if isinstance(cause, socket.gaierror):
        return "its name does not resolve"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no connection in time"
    text = getattr(cause, "strerror", None)
    return text.lower() if isinstance(text, str) and text else type(cause).__name__
