"""Calls over the standard library alone: what hooks may load.

Trap: a connection is used once. One that is kept may be closed by the server at any moment, and
then nobody knows whether a call was heard.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
from urllib.parse import urlsplit

from openmem.memory.providers.wire import (
    CONNECT_SECONDS,
    LARGEST_REPLY,
    BrokenOff,
    Call,
    NotConnected,
    OutOfTime,
    Reply,
)


class PlainTransport:
    """One connection for each call; no proxy of the environment is used."""

    def close(self) -> None:
        """Nothing is held open."""

    def send(self, call: Call) -> Reply:
        """Send a call. NotConnected, BrokenOff, OutOfTime."""
        parts = urlsplit(call.url)
        connection = self._connected(call)
        target = parts.path or "/"
        if parts.query:
            target += f"?{parts.query}"
        headers = {**call.headers, "connection": "close"}
        try:
            if connection.sock is not None:
                connection.sock.settimeout(call.seconds)
            connection.request(call.method, target, call.body or None, headers)
            response = connection.getresponse()
            body = response.read(LARGEST_REPLY + 1)
            if len(body) > LARGEST_REPLY:
                raise BrokenOff("the answer is too long")
            return Reply(status=response.status, body=body)
        except TimeoutError:
            raise OutOfTime from None
        except (OSError, http.client.HTTPException) as error:
            raise BrokenOff(type(error).__name__) from None
        finally:
            connection.close()

    def _connected(self, call: Call) -> http.client.HTTPConnection:
        parts = urlsplit(call.url)
        host, seconds = parts.hostname or "", min(CONNECT_SECONDS, call.seconds)
        connection: http.client.HTTPConnection
        try:
            if parts.scheme == "https":
                context = ssl.create_default_context(cafile=call.ca_file or None)
                connection = http.client.HTTPSConnection(
                    host, parts.port, timeout=seconds, context=context
                )
            else:
                connection = http.client.HTTPConnection(host, parts.port, timeout=seconds)
            with contextlib.ExitStack() as failed:
                failed.callback(connection.close)  # a socket may be there, and TLS not
                connection.connect()
                failed.pop_all()
        except TimeoutError:
            raise NotConnected("no connection in time") from None
        except ssl.SSLError as error:
            raise NotConnected(f"its certificate does not hold: {_reason(error)}") from None
        except OSError as error:
            raise NotConnected((error.strerror or type(error).__name__).lower()) from None
        return connection


def _reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or "TLS fails"
