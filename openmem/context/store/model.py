"""What goes into the recorder and what comes back; plain values.

`Recording` is the recorder as the proxy sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from openmem.context.formats.view import RequestView
from openmem.context.rows import Block
from openmem.context.session import Registration

ThreadKind = Literal["main", "sub-agent", "side"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One request to be recorded. `agent_id`: the sub-agent's id, else "".

    `registration`: what is known of the session, None when nothing is.
    """

    agent: str
    view: RequestView
    kind: ThreadKind = "main"
    agent_id: str = ""
    registration: Registration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a request came to.

    `thread`: fingerprint of the first row of the conversation, "" when the request holds no row.
    `head`: key of its last row, to which the reply chains. `new_rows`: how many were stored now.
    `masked`: secrets masked in them.
    """

    thread: str
    head: str
    new_rows: int = 0
    masked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One trim, fault or model call. Source: context-store contract, Events.

    `kind`: trim, clearing, fail_open, usage, compaction. `location`: `<file>:<line>`, `error`: the
    exception's type; never content. None: not reported, or of no meaning for this kind.
    `at`: "" for now.
    """

    kind: str
    version: str
    at: str = ""
    location: str | None = None
    error: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    dropped: int | None = None
    model: str | None = None
    thread_root: str | None = None
    trimmed: int | None = None
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    output_tokens: int | None = None
    breakpoints: int | None = None
    breakpoint_at: str | None = None
    prefix_kept: int | None = None
    prefix_bytes: int | None = None
    bust: str | None = None


class Recording(Protocol):
    """The recorder. Every method may be called from any thread and blocks.

    StoreUnavailable: nothing of this call was stored; the text names the session and why.
    """

    def record_request(self, sid: str, incoming: Incoming) -> Recorded:
        """Store a request's new rows in one transaction. `sid`: sanitised."""
        ...

    def record_response(self, sid: str, thread: str, previous: str, blocks: Sequence[Block]) -> int:
        """Store a reply, chained to `Recorded.head`; return how many rows were new."""
        ...

    def add_event(self, sid: str, event: Event) -> None:
        """Append an event and add its counts to the session's and the thread's."""
        ...

    def close(self) -> None:
        """Close all databases."""
        ...
