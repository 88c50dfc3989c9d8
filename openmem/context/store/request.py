"""What one request changes in its session: rows to add, rows that left or came back to context.

Idea: decided against the tables twice, with the same code: first without a lock, to prepare what
is missing, then inside the transaction.
Invariant: a request never takes rows of another agent out of context.
Trap: clients rewrite history (compaction, cleared tool results). Rows after the change are new to
the chain, but hold text that is stored: such a row keeps a `source` and no text of its own, so that
counts stay right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openmem import __version__
from openmem.base.clock import utc_text
from openmem.context.formats.surroundings import is_compaction_row
from openmem.context.rows import KeyedBlock
from openmem.context.store.model import Event, Incoming
from openmem.context.store.prepare import Prepared
from openmem.context.store.tables import Found, Tables
from openmem.context.store.thread_memory import Memories, ThreadMemory
from openmem.context.store.walk import Walk

_SUMMARY = "This session is being continued from a previous conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a request came to. `seqs`: for each message that was read, its rows."""

    seqs: list[list[int]]
    new_rows: int = 0
    masked: int = 0


class RequestRows:
    """The rows of one request against one session's tables."""

    def __init__(self, incoming: Incoming, walk: Walk, memories: Memories) -> None:
        self._incoming = incoming
        self._walk = walk
        self._before = memories.of_thread(walk.thread)
        self._found: dict[str, Found] = {}
        self.missing: dict[str, KeyedBlock] = {}
        self._prepared: dict[str, Prepared] = {}

    def look_up(self, tables: Tables) -> None:
        """Find what is stored of the messages that were read; the rest is `missing`."""
        self._found.clear()
        self.missing.clear()
        thread_id = tables.find_thread(self._walk.thread) if self._walk.thread else 0
        is_empty = not tables.read_session()[3]
        for message in self._walk.messages:
            for keyed in message.keyed:
                if is_empty:
                    self.missing.setdefault(keyed.fingerprint, keyed)
                    continue
                if keyed.fingerprint in self._found or keyed.fingerprint in self.missing:
                    continue
                found = tables.find_row(keyed.fingerprint)
                prepared = self._prepared.get(keyed.fingerprint)
                if found is None and prepared and keyed.block.role == "system" and thread_id:
                    found = tables.find_system_row(thread_id, prepared.digest)
                if found:
                    self._found[keyed.fingerprint] = found
                else:
                    self.missing[keyed.fingerprint] = keyed

    def prepare(self, tables: Tables, prepare: Callable[[KeyedBlock], Prepared]) -> list[Prepared]:
        """Prepare what is missing and return what then still has to be added."""
        for fingerprint, keyed in self.missing.items():
            if fingerprint not in self._prepared:
                self._prepared[fingerprint] = prepare(keyed)
        if any(keyed.block.role == "system" for keyed in self.missing.values()):
            self.look_up(tables)  # reminders are known again by their text, now that it is known
        return [self._prepared[fingerprint] for fingerprint in self.missing]

    def settled(self, tables: Tables) -> Stored | None:
        """Return what the request came to if it changes nothing, else None."""
        if self.missing or any(_came_back(found) for found in self._found.values()):
            return None
        thread_id = tables.find_thread(self._walk.thread) if self._walk.thread else 0
        seqs = [
            [self._found[keyed.fingerprint].seq for keyed in message.keyed]
            for message in self._walk.messages
        ]
        if thread_id and self._left(tables, thread_id, seqs):
            return None
        return Stored(seqs=seqs)

    def store(self, tables: Tables) -> Stored:
        """Add and mark everything; inside a transaction, after `look_up` and `prepare`."""
        walk, incoming = self._walk, self._incoming
        was_there = bool(tables.find_thread(walk.thread))
        family = tables.read_family(incoming.kind, incoming.agent_id)
        thread_id = tables.ensure_thread(
            walk.thread,
            kind=incoming.kind,
            agent_id=incoming.agent_id,
            parent=None if was_there else self._parent(tables, family),
            model=incoming.view.model,
        )
        tables.begin_rows()
        copies = _Copies(tables, self, set() if walk.is_fork else {*family, thread_id})
        seqs, masked = self._add(tables, thread_id, copies)
        new_rows = tables.flush_rows(thread_id, incoming.view.model)
        left = self._left(tables, thread_id, seqs) - copies.used if was_there else set()
        if left:
            tables.take_out_of_context(left, thread_id)
            tables.take_out_of_context(_sources(tables, left) - _used_sources(tables, left))
        tables.put_back_in_context(
            {found.seq for found in self._found.values() if _came_back(found)}
            | {found.source for found in self._found.values() if found.source}
            | copies.used
        )
        if not was_there and family and incoming.kind == "main" and self._is_compacted(copies):
            self._leave_behind(tables, family, copies)
        elif left and any(_is_summary(keyed) for keyed in self.missing.values()):
            self._note_compaction(tables, len(left))  # Codex keeps its first prompt, so its thread
        return Stored(seqs=seqs, new_rows=new_rows, masked=masked)

    def _add(self, tables: Tables, thread_id: int, copies: _Copies) -> tuple[list[list[int]], int]:
        walk = self._walk
        head_seq = walk.memory.head_seq(walk.known) if walk.memory else 0
        said_before = _last_said_before(walk)
        by_text: dict[str, int] = {}
        all_seqs: list[list[int]] = []
        masked = 0
        for number, message in enumerate(walk.messages):
            seqs: list[int] = []
            for keyed in message.keyed:
                found = self._found.get(keyed.fingerprint)
                if found:
                    seq = found.seq
                else:
                    row = self._prepared[keyed.fingerprint]
                    is_system = keyed.block.role == "system"
                    seq = by_text.get(row.digest, 0) if is_system else 0
                    if not seq:
                        source = copies.source_of(keyed) if number <= said_before else None
                        seq = tables.add_row(
                            row, thread_id=thread_id, prev=head_seq or None, source=source
                        )
                        masked += max(0, row.masked) if source is None else 0
                    if is_system:
                        by_text[row.digest] = seq
                    self._found[keyed.fingerprint] = Found(seq=seq)
                seqs.append(seq)
                if keyed.content_key:
                    head_seq = seq
            all_seqs.append(seqs)
        return all_seqs, masked

    def _parent(self, tables: Tables, family: list[int]) -> int | None:
        if self._walk.is_fork:
            return tables.find_thread(self._walk.root) or None
        if self._incoming.kind != "main":
            family = tables.read_family("main", "")
        return family[0] if family else None

    def carried_before(self) -> set[int]:
        """Return the rows of the messages that were not read again."""
        walk = self._walk
        return set(walk.memory.carried(walk.known)) if walk.memory else set()

    def carried(self) -> set[int]:
        """Return the rows of the request that were stored before it."""
        return self.carried_before() | {found.seq for found in self._found.values()}

    def _left(self, tables: Tables, thread_id: int, seqs: list[list[int]]) -> set[int]:
        """Return the rows of the thread that were in context and are not carried any more."""
        before, walk = self._before, self._walk
        carried = {seq for message in seqs for seq in message}
        if before is None:
            # First request of the thread that this process sees.
            left = tables.read_in_context(thread_id) - carried - self.carried_before()
            return left - _used_sources(tables, left) if left else left
        start = before.ends[walk.known - 1] if before is walk.memory and walk.known else 0
        left = set(before.seqs[start:])
        if not is_repeated(before, walk):
            left.update(before.pending)  # a reply that the client did not go on from
        left -= carried
        if left:
            left -= self.carried_before()
        return left

    def _is_compacted(self, copies: _Copies) -> bool:
        first = next((k.block for m in self._walk.messages for k in m.keyed if k.content_key), None)
        return bool(copies.used) or (first is not None and first.text.startswith(_SUMMARY))

    def _leave_behind(self, tables: Tables, family: list[int], copies: _Copies) -> None:
        """The agent compacted the conversation: what it did not take along left the context."""
        dropped = 0
        for thread_id in family:
            left = tables.read_in_context(thread_id) - copies.used
            dropped += tables.take_out_of_context(left)
        if dropped:
            self._note_compaction(tables, dropped)

    def _note_compaction(self, tables: Tables, dropped: int) -> None:
        tables.add_event(
            Event(
                kind="compaction",
                version=f"openmem:{__version__}",
                dropped=dropped,
                thread_root=self._walk.thread,
                model=self._incoming.view.model or None,
            ),
            utc_text(tables.now),
            thread_id=0,
            is_main=True,
        )


class _Copies:
    """Rows of this agent's other history by content, each used once, in order."""

    def __init__(self, tables: Tables, request: RequestRows, thread_ids: set[int]) -> None:
        self._tables = tables
        self._request = request
        self._thread_ids = thread_ids
        self._by_content: dict[bytes, list[int]] | None = None
        self._last = 0
        self.used: set[int] = set()

    def source_of(self, keyed: KeyedBlock) -> int | None:
        """Return the row that holds this block's text in the history that was left, or None."""
        if not keyed.content_key:
            return None
        if self._by_content is None:
            carried = self._request.carried()
            self._by_content = {}
            if self._tables.count_rows(self._thread_ids) <= len(carried):
                return None  # there is no other history
            carried |= _sources(self._tables, carried)
            for content_key, seq in self._tables.read_content(self._thread_ids):
                if seq not in carried:
                    self._by_content.setdefault(content_key, []).append(seq)
        for seq in self._by_content.get(bytes.fromhex(keyed.content_key), ()):
            if seq > self._last:
                self._last = seq
                self.used.add(seq)
                return seq
        return None


def _sources(tables: Tables, seqs: set[int]) -> set[int]:
    """Return the rows that hold the text of these."""
    return {source for seq, source, _ in tables.read_links() if seq in seqs}


def _used_sources(tables: Tables, without: set[int]) -> set[int]:
    """Return the rows whose text is in context through another row, not counting `without`."""
    return {
        source
        for seq, source, in_context in tables.read_links()
        if in_context and seq not in without
    }


def _came_back(found: Found) -> bool:
    return not found.in_context and not found.is_trimmed


def _last_said_before(walk: Walk) -> int:
    """Return the number of the last message read that is history, -1 when none is.

    What is new stands at the end: the last message that is no reminder, unless the agent said it.
    """
    last = -1
    for number, message in enumerate(walk.messages):
        if message.is_assistant:
            last = number
        elif any(row.content_key for row in message.keyed):
            last = max(last, number - 1)
    return last


def _is_summary(keyed: KeyedBlock) -> bool:
    block = keyed.block
    return is_compaction_row(block.role, block.kind, block.text)


def is_repeated(before: ThreadMemory, walk: Walk) -> bool:
    """Return whether the request is the thread's last one again, as after a fault."""
    head = walk.messages[-1].head if walk.messages else before.head(walk.known)
    return head == before.head(before.count)
