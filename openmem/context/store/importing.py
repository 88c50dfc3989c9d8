"""One session's file, filled from what was read elsewhere: nothing twice, nothing lost.

Idea: blocks are keyed as the recorder keys them. What the store knows is passed over and the chain
goes on from the row that is there; the rest is prepared (masked, cut into lines) and inserted, a
batch a transaction.
Invariant: redaction and tombstones hold as for the proxy; a batch is stored whole or not at all.
Trap: when somebody else writes to the session meanwhile, what was matched may be wrong: `Moved` is
raised, nothing of the batch is stored, and the reading begins anew.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openmem.base.paths import Paths
from openmem.context.rows import Block, KeyedBlock, chain, seed_of
from openmem.context.store.beside import Beside
from openmem.context.store.database import session_file, unavailable
from openmem.context.store.inserting import (
    Belongs,
    Inserter,
    Inserting,
    Moved,
    New,
    open_to_fill,
)
from openmem.context.store.known import KnownRows
from openmem.context.store.masking import Masker
from openmem.context.store.prepare import Row
from openmem.context.store.readonly import connect_for_reading
from openmem.context.store.schema import STATEMENTS, VERSION
from openmem.context.store.tables import Tables
from openmem.context.transcript import Piece

_Keyed = tuple[KeyedBlock, New]


@dataclass(slots=True, kw_only=True)
class Counts:
    """What an import came to. `known`: rows that were there; `first`, `last`: POSIX seconds."""

    added: int = 0
    known: int = 0
    masked: int = 0
    first: float = 0.0
    last: float = 0.0


@dataclass(slots=True)
class _Chain:
    """Where one thread's chain stands. `root`: its first row's key, "" before there is one.

    `thread`: its id once it is stored. `waiting`: side rows that came before the first other one.
    `told`: hashes of the reminders that were told. `sides`: keys of the side rows that hang on the
    head.
    """

    agent_id: str
    seed: str
    head: str
    root: str = ""
    thread: int = 0
    last_seq: int = 0
    known_head: str = ""
    waiting: list[tuple[Block, Piece]] = field(default_factory=list)
    told: set[int] = field(default_factory=set)
    sides: set[str] = field(default_factory=set)

    def go_on(self, head: str) -> None:
        """Go on from another row."""
        self.head = head
        self.sides.clear()

    @property
    def is_at_known_row(self) -> bool:
        """Whether the last row of the chain was there before the import."""
        return self.last_seq > 0 and self.head == self.known_head

    @property
    def family(self) -> tuple[str, str]:
        return ("sub-agent" if self.agent_id else "main", self.agent_id)


class SessionImport:
    """Adds pieces to one session. Not thread-safe. Errors: `Moved`, StoreUnavailable.

    `state`: what `state` returned when the transcript was read the last time; None to read it from
    the beginning. `is_dry`: nothing is written, and counts are as far as they can be told.
    `beside`: who stores the rows of a session that was not recorded, None for this process.
    """

    def __init__(
        self,
        paths: Paths,
        sid: str,
        key: bytes,
        masker: Masker,
        *,
        belongs: Belongs,
        state: Mapping[str, Any] | None = None,
        is_dry: bool = False,
        beside: Beside | None = None,
    ) -> None:
        self.sid = sid
        self._paths = paths
        self._key = key
        self._masker = masker
        self._known_count = self._handed_over = 0
        self._first = self._last = 0.0
        self._chains: dict[str, _Chain] = {}
        self._coming: set[str] = set()
        self._under_way: deque[set[str]] = deque()
        with self._faults():
            connection = _opened(paths, sid) if is_dry else open_to_fill(paths, sid)
            self._connection = connection
            self._tables = Tables(connection, 0)
            last_seq = self._tables.read_session()[3]
            if state and state.get("last_seq") != last_seq:
                connection.close()
                raise Moved
            self._known = KnownRows(0 if state else last_seq)
            self._inserter: Inserting
            if beside and not is_dry and not self._known.limit:
                self._inserter = beside.inserter(sid, belongs, last_seq)
            else:
                here = Inserter(paths, sid, key, connection, belongs=belongs, is_dry=is_dry)
                here.known = self._known
                self._inserter = here
                if here.last_seq != last_seq:
                    self.close()
                    raise Moved
            # A chain that only grows meets no row of its own: they need not be looked for.
            self._grows_only = not last_seq
            for saved in (state or {}).get("chains", ()):
                self._restore(saved)

    def _faults(self) -> _Faults:
        return _Faults(self._paths, self.sid)

    def close(self) -> None:
        """Close the file; what was not settled is not stored."""
        self._inserter.close()
        self._connection.close()

    @property
    def counts(self) -> Counts:
        """What it came to so far."""
        done = self._inserter
        return Counts(
            added=done.added,
            known=self._known_count + done.known_sides,
            masked=done.masked,
            first=self._first,
            last=self._last,
        )

    # what is kept for the next time

    @property
    def is_settled(self) -> bool:
        """Whether everything that was added is stored, and nothing waits for more."""
        return not any(c.waiting for c in self._chains.values())

    def state(self) -> dict[str, Any]:
        """Return what the next import of the same transcript goes on from; only when settled.

        Everything is stored then. Moved, StoreUnavailable: something is not.
        """
        self._inserter.settle()
        last_seq = self._tables.read_session()[3]
        chains = [[c.agent_id, c.head, c.root] for c in self._chains.values() if c.root]
        return {"chains": chains, "last_seq": last_seq}

    def _restore(self, saved: Sequence[str]) -> None:
        agent_id, head, root = saved
        found = self._chain(agent_id)
        row = self._tables.find_row(head)
        if row is None:
            return  # swept or forgotten with its session: the chain begins anew
        found.root = root
        found.go_on(head)
        found.thread, found.last_seq = self._tables.read_place(row.seq)[1], row.seq

    # keying

    def add(self, pieces: Iterable[Piece]) -> None:
        """Take pieces in the order in which they were said."""
        with self._faults():
            rows: list[_Keyed] = []
            for piece in pieces:
                self._take(piece, rows)
            self._hand_over(rows)

    def end(self) -> None:
        """Store what waits for a first prompt, which will not come any more."""
        with self._faults():
            rows: list[_Keyed] = []
            for found in self._chains.values():
                self._end(found, rows)
            self._hand_over(rows)

    def _hand_over(self, rows: list[_Keyed]) -> None:
        if not rows:
            return
        masked: list[Row] = [*self._masker.masked([keyed for keyed, _ in rows])]
        self._inserter.insert([new for _, new in rows], masked, (self._first, self._last))
        self._handed_over += 1
        self._under_way.append(self._coming)
        self._coming = set()
        while len(self._under_way) > self._handed_over - self._inserter.batches:
            self._under_way.popleft()

    def _is_coming(self, fingerprint: str) -> bool:
        """Return whether a row was taken and cannot be found in the tables yet."""
        return fingerprint in self._coming or any(fingerprint in keys for keys in self._under_way)

    def _chain(self, agent_id: str) -> _Chain:
        found = self._chains.get(agent_id)
        if found is None:
            seed = seed_of(self._key, "sub-agent" if agent_id else "main", agent_id)
            found = self._chains[agent_id] = _Chain(agent_id, seed, seed)
        return found

    def _take(self, piece: Piece, rows: list[_Keyed]) -> None:
        at = self._chain(piece.agent_id)
        if piece.at:
            self._first = min(self._first or piece.at, piece.at)
            self._last = max(self._last, piece.at)
        if piece.begins_anew and at.root:
            at.root, at.thread = "", 0
            at.go_on(at.seed)
            at.told.clear()
            self._grows_only = False
        is_sum = piece.begins_anew or piece.sums_up
        for block in piece.blocks:
            if not at.root and block.is_side:
                at.waiting.append((block, piece))
                continue
            self._place(at, block, piece, rows, is_sum)
            is_sum = False

    def _place(
        self, at: _Chain, block: Block, piece: Piece, rows: list[_Keyed], is_sum: bool
    ) -> None:
        """Find a block's row, or make one; then the chain goes on from it."""
        (keyed,) = chain(self._key, (block,), at.head)
        if block.is_side:
            self._side(at, keyed, piece, rows)
            return
        seq = self._find(at, keyed)
        if not at.root:
            at.root = keyed.fingerprint
            if seq > 0:
                at.thread = self._tables.read_place(seq)[1]
            waiting, at.waiting = at.waiting, []
            for one, its_piece in waiting:
                (side,) = chain(self._key, (one,), at.seed)
                self._side(at, side, its_piece, rows)
        if seq == 0:
            rows.append((keyed, _new(at, piece, is_sum)))
            self._coming.add(keyed.fingerprint)
        else:
            self._known_count += 1
        at.go_on(keyed.fingerprint)
        if seq > 0:
            at.head, at.thread = self._tables.read_place(seq)
            at.last_seq, at.known_head = (seq, at.head) if seq <= self._known.limit else (0, "")

    def _find(self, at: _Chain, keyed: KeyedBlock) -> int:
        """Return the seq of a block's row, -1 for one that is about to be stored, 0 for none."""
        if self._is_coming(keyed.fingerprint):
            return -1
        if self._grows_only:
            return 0
        found = self._tables.find_row(keyed.fingerprint)
        if found:
            self._known.use(found.seq)
            self._known.use(found.source or 0)
            return found.seq
        found_seq = self._known.by_content(self._tables, keyed, at.family, at.last_seq)
        block = keyed.block
        if not found_seq and self._known.limit and (block.role, block.kind) == ("user", "text"):
            # Claude Code ends a text with a line feed where it joins two messages in a request.
            (joined,) = chain(self._key, (block._replace(text=f"{block.text}\n"),), "")
            found_seq = self._known.by_content(self._tables, joined, at.family, at.last_seq)
        return found_seq

    def _side(self, at: _Chain, keyed: KeyedBlock, piece: Piece, rows: list[_Keyed]) -> None:
        """Take thinking or a reminder; a reminder's text is stored once a thread."""
        if self._is_known_side(at, keyed.fingerprint):
            self._known_count += 1
            return
        at.sides.add(keyed.fingerprint)
        if keyed.block.role == "system":
            # At a row that was recorded, what the client told beside it was recorded, too, though
            # perhaps in other words than the transcript's.
            text = hash(keyed.block.text)
            if text in at.told or at.is_at_known_row:
                self._known_count += 1
                return
            at.told.add(text)
        self._coming.add(keyed.fingerprint)
        rows.append((keyed, _new(at, piece, is_sum=piece.sums_up)))

    def _is_known_side(self, at: _Chain, fingerprint: str) -> bool:
        if fingerprint in at.sides:
            return True
        if self._grows_only:
            return False  # whatever hangs on this head is in `sides`
        return self._is_coming(fingerprint) or self._tables.find_row(fingerprint) is not None

    def _end(self, at: _Chain, rows: list[_Keyed]) -> None:
        """Give side rows a thread of their own when no other row ever came."""
        waiting, at.waiting = at.waiting, []
        for block, piece in waiting:
            (keyed,) = chain(self._key, (block,), at.seed)
            at.root = at.root or keyed.fingerprint
            self._side(at, keyed, piece, rows)


def _new(at: _Chain, piece: Piece, is_sum: bool) -> New:
    return New(
        at=piece.at,
        model=piece.model,
        family=at.family,
        root=at.root,
        thread=at.thread,
        previous=at.head if at.head != at.seed else "",
        is_sum=is_sum,
        begins_anew=piece.begins_anew,
    )


def _opened(paths: Paths, sid: str) -> sqlite3.Connection:
    """Return a reading connection to the session's file, or to an empty one in memory."""
    path = session_file(paths, sid)
    if os.path.exists(path):  # opening one that is not there would make it
        connection = connect_for_reading(path)
        if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
            return connection
        connection.close()
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in STATEMENTS:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO session (id, session_id, created_at, last_at) VALUES (1, ?, 0, 0)", (sid,)
    )
    return connection


class _Faults:
    """Turns faults of the file into StoreUnavailable."""

    def __init__(self, paths: Paths, sid: str) -> None:
        self._paths, self._sid = paths, sid

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, fault: BaseException | None, at: object) -> None:
        if isinstance(fault, sqlite3.Error | OSError):
            raise unavailable(self._paths, self._sid, fault) from fault
