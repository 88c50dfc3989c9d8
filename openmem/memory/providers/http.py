"""Calls over a pool of connections: what the command line uses, also from several threads.

This is the only module of the memory half that loads httpx.
"""

from __future__ import annotations

import ssl
import threading

import httpx

from openmem.memory.providers.wire import (
    CONNECT_SECONDS,
    LARGEST_REPLY,
    BrokenOff,
    Call,
    NotConnected,
    OutOfTime,
    Reply,
)


class PooledTransport:
    """Connections that are kept between calls; no proxy of the environment is used."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.Client] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def send(self, call: Call) -> Reply:
        """Send a call. NotConnected, BrokenOff, OutOfTime."""
        timeout = httpx.Timeout(call.seconds, connect=min(CONNECT_SECONDS, call.seconds))
        try:
            with self._client(call.ca_file).stream(
                call.method,
                call.url,
                headers=dict(call.headers),
                content=call.body or None,
                timeout=timeout,
            ) as response:
                body = bytearray()
                for part in response.iter_bytes():
                    body += part
                    if len(body) > LARGEST_REPLY:
                        raise BrokenOff("the answer is too long")
                return Reply(status=response.status_code, body=bytes(body))
        except (httpx.ConnectTimeout, httpx.PoolTimeout):
            raise NotConnected("no connection in time") from None
        except httpx.ConnectError as error:
            raise NotConnected(_reason(error)) from None
        except httpx.TimeoutException:
            raise OutOfTime from None
        except httpx.HTTPError as error:
            raise BrokenOff(type(error).__name__) from None

    def _client(self, ca_file: str) -> httpx.Client:
        with self._lock:
            if ca_file not in self._clients:
                try:
                    context = ssl.create_default_context(cafile=ca_file or None)
                except OSError as error:
                    raise NotConnected(f"{ca_file}: {error.strerror or error}") from None
                self._clients[ca_file] = httpx.Client(
                    verify=context, trust_env=False, follow_redirects=False
                )
            return self._clients[ca_file]


def _reason(error: httpx.ConnectError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            why = getattr(cause, "verify_message", "") or cause.reason or "TLS fails"
            return f"its certificate does not hold: {why}"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return "no connection"
