"""How a provider's server is spoken to: one call, one reply, one clear error.

Idea: adapters say what they want in JSON; a transport carries it, and which one is handed in from
above: a plain one of the standard library for hooks, a pooled one for the command line.
Invariant: a call is sent again only when no connection came about, so that nothing happens twice;
redirects are not followed, so a key goes nowhere but to the server it is for; no error holds text
that was sent. Trap: whatever answers on a port need not be the provider.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from openmem.base.errors import OpenmemError, Usage
from openmem.memory.providers.base import TimedOut

CONNECT_SECONDS = 3.0
LARGEST_REPLY = 32 * 1024 * 1024
_PAUSES = (0.1, 0.3)  # before the second and the third try to connect


class Unreachable(OpenmemError):
    """No connection to the provider's server came about, or it broke off."""

    code = "provider-unreachable"


class KeyRefused(OpenmemError):
    """The provider does not accept the key."""

    code = "provider-key-refused"


class ServerFailed(OpenmemError):
    """The provider answered, and not as it should. `status`: of HTTP, 0 for none."""

    code = "provider-failed"

    def __init__(self, message: str, *, status: int = 0, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.status = status


class NotConnected(Exception):
    """From a transport: nothing was sent. The message says why in a few words."""


class BrokenOff(Exception):
    """From a transport: it was sent, and no whole answer came."""


class OutOfTime(Exception):
    """From a transport: it was sent, and no answer came in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `url`: whole; `seconds`: for the answer, above 0; `ca_file`: "" for the
    system's authorities."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 30.0
    ca_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back. `body`: decoded, at most `LARGEST_REPLY` bytes."""

    status: int
    body: bytes


class Transport(Protocol):
    """Carries calls, from several threads too. NotConnected, BrokenOff, OutOfTime."""

    def send(self, call: Call) -> Reply: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a server is and how to be let in. `key`: a secret, "" for none; `user`: who logs in
    with it, "" when it is a key of the API. `is_own`: it is the stack that openmem runs here."""

    provider: str
    url: str
    key: str = ""
    user: str = ""
    ca_file: str = ""
    seconds: float = 30.0
    is_own: bool = True

    @property
    def advice(self) -> str:
        """What helps when it does not answer."""
        if self.is_own:
            return "Start it: openmem up. See what is wrong: openmem doctor"
        return "See whether it runs there; what is remembered meanwhile is told to it later."

    @property
    def look(self) -> str:
        """Where to see what it says."""
        return "See what it says: openmem logs" if self.is_own else "See what it says there."


class Link:
    """Calls to one server. `headers_of`: what goes with each call, asked for each time."""

    def __init__(
        self,
        address: Address,
        transport: Transport,
        *,
        headers_of: Callable[[], Mapping[str, str]],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self._transport = transport
        self._headers_of = headers_of
        self._sleep = sleep

    def close(self) -> None:
        self._transport.close()

    def json(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        seconds: float = 0.0,
        may_be: Collection[int] = (),
    ) -> tuple[int, Any]:
        """Send JSON and return status and decoded answer. As `send`; ServerFailed if no JSON."""
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        kind = "application/json" if data else ""
        reply = self.send(method, path, data, kind, seconds=seconds, may_be=may_be)
        return reply.status, self.decoded(reply)

    def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "",
        *,
        seconds: float = 0.0,
        may_be: Collection[int] = (),
        is_open: bool = False,
    ) -> Reply:
        """Send one request and return its answer.

        `path`: with its query, quoted. `seconds`: 0 for the address's own. `may_be`: statuses
        beside 2xx that are an answer. `is_open`: goes without a key. Unreachable, TimedOut,
        KeyRefused, ServerFailed.
        """
        headers = {"accept": "application/json"}
        if not is_open:
            headers.update(self._headers_of())
        if content_type:
            headers["content-type"] = content_type
        call = Call(
            method=method,
            url=self.address.url.rstrip("/") + path,
            headers=headers,
            body=body,
            seconds=seconds or self.address.seconds,
            ca_file=self.address.ca_file,
        )
        reply = self._carried(call)
        if 200 <= reply.status < 300 or reply.status in may_be:
            return reply
        raise self._fault(reply)

    def decoded(self, reply: Reply) -> Any:
        """Return a JSON answer, None for an empty one. ServerFailed."""
        if not reply.body.strip():
            return None
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise ServerFailed(
                f"what answers at {self.address.url} does not speak like {self.address.provider}.",
                status=reply.status,
                hint="Look which program has that port: openmem doctor",
                code="provider-foreign",
            ) from None

    def _carried(self, call: Call) -> Reply:
        name, url = self.address.provider, self.address.url
        ends = time.monotonic() + call.seconds
        for pause in (*_PAUSES, None):
            try:
                return self._transport.send(call)
            except NotConnected as error:
                if pause is not None and time.monotonic() + pause < ends:
                    self._sleep(pause)
                    continue
                raise Unreachable(
                    f"provider {name} does not answer at {url} ({error}).",
                    hint=self.address.advice,
                ) from None
            except BrokenOff as error:
                raise Unreachable(
                    f"provider {name} at {url} broke off ({error}).",
                    hint=self.address.look,
                ) from None
            except OutOfTime:
                raise TimedOut(
                    f"provider {name} at {url} did not answer within {call.seconds:g} s.",
                    hint=self.address.look,
                ) from None
        raise AssertionError  # the loop's last turn returns or raises

    def _fault(self, reply: Reply) -> OpenmemError:
        """Return what is wrong, in words of ours: the server's own may repeat what was sent."""
        name, said = self.address.provider, _text_of(reply.body)
        if reply.status in (401, 403) or "LOGIN_BAD_CREDENTIALS" in said:
            return KeyRefused(
                f"provider {name} at {self.address.url} refuses the key ({reply.status}).",
                hint="Put the right one into the file that `openmem config get server.key_file` "
                "names.",
            )
        if 300 <= reply.status < 400:
            return ServerFailed(
                f"{self.address.url} answers from elsewhere ({reply.status}): not followed.",
                status=reply.status,
                hint="Set the last address: openmem config set server.url URL",
            )
        told = ""
        for mark, words in _KNOWN:
            if mark in said:
                told = f": {words}"
                break
        return ServerFailed(
            f"provider {name} could not do it ({reply.status}){told}.",
            status=reply.status,
            hint=self.address.look,
            code="provider-model" if told else "",
        )


# Marks in the servers' answers, as recorded from them, and what they mean.
_KNOWN = (
    ("Fact extraction failed", "its model's answer was of no use to it"),
    ("provider_unavailable", "its model does not answer"),
    ("Upstream provider error", "its model, or the size of its embeddings, is set up wrongly"),
    ("requires an LLM provider", "it has no model"),
)


def _text_of(body: bytes) -> str:
    return body[:4096].decode("utf-8", "replace")


def quoted(part: str) -> str:
    """Return a text as one segment of a path or one value of a query."""
    return quote(part, safe="")


def sendable(text: str) -> str:
    """Return a text that every server takes: no NUL, no half of a surrogate pair."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def checked_url(url: str) -> str:
    """Return a server's address without a final slash. Usage when it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Usage(f"{url[:80]!r} is no address.", hint="Write http://HOST:PORT or https://HOST.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Usage(
            "an address holds no user, ? or #.", hint="A key goes into a file: server.key_file."
        )
    return url.rstrip("/")


def server_name(bank: str) -> str:
    """Return the name that a bank has on a server: readable, safe in a path, one for each bank."""
    import hashlib  # loads OpenSSL; only who speaks to a server needs it

    words = "".join(c if c.isascii() and c.isalnum() else "-" for c in bank.lower())
    slug = "-".join(part for part in words.split("-") if part)[-40:].strip("-")
    digest = hashlib.sha256(bank.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digest}" if slug else digest
