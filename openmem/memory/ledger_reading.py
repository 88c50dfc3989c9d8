"""What the ledger knows: memories as they stand, entries in order, what waits, what does not fit.

Standard library only: hooks read it on every prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openmem.base.clock import now_text
from openmem.base.errors import NotFound
from openmem.base.paths import Paths
from openmem.memory.chain import digest_of_entry, entry_of, memory_of, replay, salted
from openmem.memory.ledger_file import LedgerFile
from openmem.memory.model import Kind, LedgerEntry, Memory, Trust, normalised

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # `hashlib` loads OpenSSL too, 3 ms that a prompt does without
    except ImportError:
        from hashlib import blake2b

ENTRY = "number, at, verb, memory_id, bank, actor, provider, detail, text_digest, previous, digest"
_MEMORY = (
    "memory.memory_id, memory.bank, memory.kind, coalesce(words.text, ''), memory.trust,"
    " memory.state, memory.actor, memory.session_id, memory.row, memory.recorded_at,"
    " memory.valid_from, memory.valid_to, memory.supersedes, memory.superseded_by, memory.ended_at"
)
_FROM = "FROM memory LEFT JOIN words ON words.memory_id = memory.memory_id"
_AT_ONCE = 500  # SQLite takes at least 999 values in one statement


class LedgerReader:
    """The reading half. `key`: the installation's. StoreUnavailable from any method.

    `is_frozen`: for a dry run, which leaves no file.
    """

    def __init__(
        self,
        paths: Paths,
        key: bytes,
        *,
        provider: str = "local",
        busy_seconds: float = 10.0,
        is_frozen: bool = False,
    ) -> None:
        self._file = LedgerFile(paths.ledger_file, busy_seconds=busy_seconds, is_frozen=is_frozen)
        self._key = key
        self._provider = provider

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._file.close()

    def exists(self) -> bool:
        """Return whether anything was ever recorded."""
        return self._file.exists()

    def memory(self, memory_id: str) -> Memory:
        """Return a memory by its id. NotFound when there is none."""
        found = self._select("WHERE memory.memory_id = ?", (memory_id,))
        if not found:
            raise NotFound(
                f"there is no memory {memory_id}.", hint="`openmem memory list` shows the ids."
            )
        return found[0]

    def memories(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Return the memories of these ids that exist."""
        found: dict[str, Memory] = {}
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            for memory in self._select(f"WHERE memory.memory_id IN ({marks})", tuple(part)):
                found[memory.id] = memory
        return found

    def listing(
        self,
        bank: str,
        *,
        kind: Kind | None = None,
        trust: Trust | None = None,
        include_gone: bool = False,
        limit: int = -1,
        newest_first: bool = True,
    ) -> list[Memory]:
        """Return a bank's memories; without `include_gone` only the active ones."""
        where, values = ["memory.bank = ?"], [bank]
        if not include_gone:
            where.append("memory.state = 'active'")
        if kind:
            where.append("memory.kind = ?")
            values.append(kind)
        if trust:
            where.append("memory.trust = ?")
            values.append(trust)
        order = "DESC" if newest_first else "ASC"
        return self._select(
            f"WHERE {' AND '.join(where)}"
            f" ORDER BY memory.recorded_at {order}, memory.memory_id {order} LIMIT {limit:d}",
            tuple(values),
        )

    def of_session(self, bank: str, session_id: str, *, kind: Kind = "passage") -> list[Memory]:
        """Return what a bank holds of one session, in the session's order."""
        return self._select(
            "WHERE memory.bank = ? AND memory.session_id = ? AND memory.kind = ?"
            " AND memory.state = 'active' ORDER BY memory.row, memory.memory_id",
            (bank, session_id, kind),
        )

    def last_row(self, bank: str, session_id: str) -> int:
        """Return the highest row that was ever kept of a session, 0 for none."""
        rows = self._file.read(
            "SELECT max(row) FROM memory WHERE bank = ? AND session_id = ?", (bank, session_id)
        )
        return int(rows[0][0] or 0) if rows else 0

    def replaced(self, bank: str) -> list[Memory]:
        """Return what was replaced by a correction, with its text; for looking back in time."""
        return self._select(
            "WHERE memory.bank = ? AND memory.state = 'superseded'"
            " AND memory.trust <> 'rejected' ORDER BY memory.recorded_at",
            (bank,),
        )

    def older_passages(self, before: str, limit: int = 5_000) -> list[str]:
        """Return ids of active passages that were recorded before a time, of any bank."""
        rows = self._file.read(
            "SELECT memory_id FROM memory WHERE state = 'active' AND kind = 'passage'"
            f" AND recorded_at < ? LIMIT {limit:d}",
            (before,),
        )
        return [str(row[0]) for row in rows]

    def ids_like(self, start: str, bank: str = "", limit: int = 20) -> list[str]:
        """Return the ids that begin with `start`, of one bank or of all."""
        rows = self._file.read(
            "SELECT memory_id FROM memory WHERE memory_id >= ? AND memory_id < ?"
            f" AND (? = '' OR bank = ?) ORDER BY memory_id LIMIT {limit:d}",
            (start, start + "\U0010ffff", bank, bank),
        )
        return [str(row[0]) for row in rows]

    def banks(self) -> list[tuple[str, int, int, str]]:
        """Return (bank, active memories, of them pending, newest recorded at), by name."""
        rows = self._file.read(
            "SELECT bank, count(*), sum(trust = 'pending' AND kind = 'statement'),"
            " max(recorded_at) FROM memory WHERE state = 'active' GROUP BY bank ORDER BY bank"
        )
        return [(str(b), int(n), int(p or 0), str(at)) for b, n, p, at in rows]

    def counts(self, bank: str) -> dict[str, int]:
        """Return how many memories a bank holds by `kind trust`, and the tombstones."""
        rows = self._file.read(
            "SELECT kind, trust, count(*) FROM memory WHERE bank = ? AND state = 'active'"
            " GROUP BY kind, trust",
            (bank,),
        )
        found = {f"{kind} {trust}": int(count) for kind, trust, count in rows}
        gone = self._file.read("SELECT count(*) FROM tombstone WHERE bank = ?", (bank,))
        found["tombstones"] = int(gone[0][0]) if gone else 0
        return found

    def history(self, memory_id: str = "", *, bank: str = "", limit: int = -1) -> list[LedgerEntry]:
        """Return entries in order, of one memory or one bank; the last `limit` of them."""
        where, values = "", []
        if memory_id:
            where, values = "WHERE memory_id = ?", [memory_id]
        elif bank:
            where, values = "WHERE bank = ?", [bank]
        rows = self._file.read(
            f"SELECT {ENTRY} FROM entry {where} ORDER BY number DESC LIMIT {limit:d}",
            tuple(values),
        )
        return [entry_of(row) for row in reversed(rows)]

    def gone(self, bank: str, texts: Sequence[str]) -> list[bool]:
        """Return, for each text, whether it may not be told in a bank any more.

        It was forgotten, or it is what a statement says that was rejected, replaced or has ended,
        and no other statement says the same and stands.
        """
        if not texts or not self._has_gone(bank):
            return [False] * len(texts)
        return [self._is_gone(bank, self.normal_of(text)) for text in texts]

    def _has_gone(self, bank: str) -> bool:
        return any(
            self._file.read(f"SELECT 1 FROM {rest} LIMIT 1", (bank,))
            for rest in (
                "tombstone WHERE bank = ?",
                "memory WHERE bank = ? AND state = 'superseded'",
                "memory WHERE bank = ? AND state = 'active' AND kind = 'statement'"
                " AND trust = 'rejected'",
                "memory INDEXED BY memory_ends WHERE bank = ? AND valid_to <> ''",
            )
        )

    def _is_gone(self, bank: str, normal: bytes) -> bool:
        if self._file.read("SELECT 1 FROM tombstone WHERE bank = ? AND normal = ?", (bank, normal)):
            return True
        same = self._file.read(
            "SELECT state, trust, valid_to FROM memory INDEXED BY memory_normal"
            " WHERE bank = ? AND normal = ? AND kind = 'statement'",
            (bank, normal),
        )
        now = now_text()
        stands = [
            state == "active" and trust != "rejected" and not (valid_to and valid_to <= now)
            for state, trust, valid_to in same
        ]
        return bool(stands) and not any(stands)

    def is_tombstoned(self, bank: str, text: str) -> bool:
        """Return whether a text was forgotten in a bank."""
        return bool(
            self._file.read(
                "SELECT 1 FROM tombstone WHERE bank = ? AND normal = ?",
                (bank, self.normal_of(text)),
            )
        )

    def find_same(self, bank: str, text: str, kind: Kind = "statement") -> str:
        """Return the id of an active memory that says the same, "" when none does."""
        rows = self._file.read(
            "SELECT memory_id FROM memory INDEXED BY memory_normal"
            " WHERE bank = ? AND normal = ? AND kind = ?"
            " AND state = 'active' ORDER BY recorded_at LIMIT 1",
            (bank, self.normal_of(text), kind),
        )
        return str(rows[0][0]) if rows else ""

    def outbox(self, provider: str, limit: int = 2_000) -> list[tuple[int, str, str, str, int]]:
        """Return (number, verb, memory id, bank, tries) of what waits; "erase" comes last."""
        rows = self._file.read(
            "SELECT number, verb, memory_id, bank, tries FROM outbox WHERE provider = ?"
            f" ORDER BY verb = 'erase', number LIMIT {limit:d}",
            (provider,),
        )
        return [(int(n), str(v), str(m), str(b), int(t)) for n, v, m, b, t in rows]

    def waiting(self, provider: str) -> set[str]:
        """Return the ids of all that a provider was not told yet, "" among them for bytes."""
        rows = self._file.read("SELECT memory_id FROM outbox WHERE provider = ?", (provider,))
        return {str(row[0]) for row in rows}

    def waiting_count(self, provider: str) -> int:
        """Return how many words to a provider wait."""
        rows = self._file.read("SELECT count(*) FROM outbox WHERE provider = ?", (provider,))
        return int(rows[0][0]) if rows else 0  # no ledger yet

    def normal_of(self, text: str) -> bytes:
        """Return the keyed digest by which two texts are the same; gives no content away."""
        data = normalised(text).encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._key, digest_size=16, person=b"memory").digest()

    def verify(self) -> list[str]:
        """Return what does not fit: broken links, changed texts, state that entries do not give."""
        problems: list[str] = []
        previous = ""
        texts = {
            str(memory_id): (bytes(salt), str(text))
            for memory_id, salt, text in self._file.read("SELECT memory_id, salt, text FROM words")
        }
        state: dict[str, dict[str, str]] = {}
        digests: dict[str, str] = {}  # of the last time: a dropped bank may have been restored
        for row in self._file.read(f"SELECT {ENTRY} FROM entry ORDER BY number"):
            entry = entry_of(row)
            if entry.previous != previous:
                problems.append(f"entry {entry.number}: does not follow the one before it")
            if entry.digest != digest_of_entry(entry):
                problems.append(f"entry {entry.number}: was changed")
            previous = entry.digest
            replay(state, entry)
            if entry.verb == "add":
                digests[entry.memory_id] = entry.text_digest
        stored = {
            str(row[0]): dict(zip(("trust", "state", "by", "bank"), map(str, row[1:]), strict=True))
            for row in self._file.read(
                "SELECT memory_id, trust, state, superseded_by, bank FROM memory"
            )
        }
        for memory_id in sorted(stored.keys() | state.keys()):
            if stored.get(memory_id) != state.get(memory_id):
                problems.append(f"memory {memory_id}: its state is not what the entries give")
        for memory_id, (salt, text) in sorted(texts.items()):
            if salted(salt, text) != digests.get(memory_id):
                problems.append(f"memory {memory_id}: its text was changed")
        alive = {memory_id for memory_id, found in stored.items() if found["state"] == "active"}
        problems += [f"memory {one}: its text is missing" for one in sorted(alive - texts.keys())]
        return problems

    def _select(self, tail: str, values: tuple[Any, ...]) -> list[Memory]:
        return [
            memory_of(row) for row in self._file.read(f"SELECT {_MEMORY} {_FROM} {tail}", values)
        ]
