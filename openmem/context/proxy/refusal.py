"""The proxy's own answers, in the shape of the provider's errors, so that agents show our words.

Trap: agents act on wording and status. No answer of ours is a 413, and only the one at a proven
limit is a 400 and speaks of prompts, so that the agent compacts;
`x-should-retry: false` ends retries where trying again cannot help, `retry-after` paces them
where it can. Source: Claude Code 2.1.332 against failing servers, facts of 2026-11-30.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from openmem.context.proxy.headers import Pairs

_TYPES = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    426: "invalid_request_error",
    502: "api_error",
    503: "api_error",
    508: "api_error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An answer instead of the upstream's. `retry_after`: seconds, 0 when it will not heal.

    `is_ours`: the message says first who speaks. `code`: OpenAI's name of the error, "" for none.
    """

    status: int
    message: str
    retry_after: int = 0
    is_ours: bool = True
    code: str = ""

    def headers(self, body: bytes) -> Pairs:
        pairs = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode("ascii")),
            (b"x-openmem-proxy", b"refused"),
        ]
        if self.retry_after:
            pairs.append((b"retry-after", str(self.retry_after).encode("ascii")))
        else:
            pairs.append((b"x-should-retry", b"false"))
        if self.status == 426:
            pairs.append((b"upgrade", b"HTTP/1.1"))
        return pairs

    def body(self, path: str) -> bytes:
        """Return the JSON body: OpenAI's shape on its paths, else Anthropic's."""
        kind = _TYPES.get(self.status, "api_error")
        message = f"openmem proxy: {self.message}" if self.is_ours else self.message
        if path.endswith(("/responses", "/chat/completions")):
            error = {"message": message, "type": kind, "param": None, "code": self.code or None}
            return json.dumps({"error": error}).encode("ascii")
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode(
            "ascii"
        )


def foreign(what: str) -> Refusal:
    return Refusal(
        status=403,
        message=f"this address serves programs on this machine only, not {what}.",
    )


def unknown_route(agent: str, known: list[str]) -> Refusal:
    names = f" Known: {', '.join(known)}." if known else ""
    return Refusal(
        status=404,
        message=(
            f"there is no route for {agent!r}.{names} Wire the agent with "
            f"`openmem install-coding-agent`, or take this address out of its settings."
        ),
    )


def no_bare_path() -> Refusal:
    return Refusal(
        status=404,
        message=(
            "this path names no agent. Agents use /a/<agent>/…, written by "
            "`openmem install-coding-agent`; `openmem proxy run --upstream URL` serves bare paths."
        ),
    )


def no_upgrade() -> Refusal:
    return Refusal(status=426, message="no WebSocket here; send the request over HTTP.")


def loop(origin: str) -> Refusal:
    return Refusal(
        status=508,
        message=(
            f"the upstream {origin} is this proxy itself. `openmem install-coding-agent` gives "
            "the route the address that the agent had before."
        ),
    )
