"""From a request to its chain: which thread it is, which messages are new, what they hold.

Idea: messages that the thread's last request held too are not decoded; the chain goes on from
the key remembered behind them.
Trap: a sub-agent or side request has a seed of its own, unless it carries the main conversation
(a compaction request, a forked sub-agent): then it is a fork, or all of it would be stored twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmem.context.formats.registry import FORMATS
from openmem.context.formats.view import RawMessage
from openmem.context.rows import (
    Block,
    KeyedBlock,
    chain,
    fingerprint_of,
    fork_of,
    head_of,
    seed_of,
)
from openmem.context.store.model import Incoming
from openmem.context.store.thread_memory import Memories, ThreadMemory

IsKnown = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedMessage:
    """A message that had to be read. `head`: the chain's key behind it."""

    keyed: list[KeyedBlock]
    head: str

    @property
    def is_assistant(self) -> bool:
        return any(row.block.role == "assistant" for row in self.keyed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A request's chain. `messages`: the ones after the first `known`, which `memory` holds.

    `thread`: "" when the request holds no row. `is_fork`: it goes on from another thread's rows.
    """

    raws: Sequence[RawMessage]
    memory: ThreadMemory | None
    known: int
    messages: list[WalkedMessage]
    seed: str
    root: str
    thread: str
    is_fork: bool


def walk_request(key: bytes, incoming: Incoming, memories: Memories, is_known: IsKnown) -> Walk:
    """Return a request's chain. `is_known`: whether a fingerprint is stored in this session.

    NotUnderstood when one of its messages cannot be read.
    """
    raws = incoming.view.messages
    memory, known = memories.longest_match(incoming.kind, incoming.agent_id, raws)
    form = FORMATS[incoming.view.wire]
    names: dict[str, str] = {}
    if memory:
        # The results that come next name calls of the message before, or before a reminder.
        for raw in raws[max(0, known - form.looks_back) : known]:
            form.blocks(raw, names)
    decoded = [form.blocks(raw, names) for raw in raws[known:]]
    seed = memory.seed if memory else _seed(key, incoming, decoded, is_known)
    head = memory.head(known) if memory else seed
    messages: list[WalkedMessage] = []
    for blocks in decoded:
        keyed = chain(key, blocks, head)
        head = head_of(keyed, head)
        messages.append(WalkedMessage(keyed=keyed, head=head))
    root = (memory.root if memory else "") or _root(messages)
    is_fork = bool(root) and seed != seed_of(key, incoming.kind, incoming.agent_id)
    return Walk(
        raws=raws,
        memory=memory,
        known=known,
        messages=messages,
        seed=seed,
        root=root,
        thread=fork_of(key, root, incoming.kind, incoming.agent_id) if is_fork else root,
        is_fork=is_fork,
    )


def _seed(key: bytes, incoming: Incoming, decoded: list[list[Block]], is_known: IsKnown) -> str:
    own = seed_of(key, incoming.kind, incoming.agent_id)
    if not own:
        return own
    first = next((b for blocks in decoded for b in blocks if not b.is_side), None)
    has_history = any(b.role == "assistant" for blocks in decoded for b in blocks)
    if first is None or not has_history or is_known(fingerprint_of(key, first, own)):
        return own
    return "" if is_known(fingerprint_of(key, first, "")) else own


def _root(messages: list[WalkedMessage]) -> str:
    """Return the key of the first row that advances the chain, else of the first row."""
    rows = [row for message in messages for row in message.keyed]
    for row in rows:
        if row.content_key:
            return row.fingerprint
    return rows[0].fingerprint if rows else ""
