"""Our own record over whichever provider is active: what was remembered, by whom, and what became
of it.

Idea: each act appends one entry, chained by digest to the one before; the current state follows.
Invariant: entries are never changed; a text can be erased without breaking the chain; what was
forgotten is refused for good, by a keyed digest of its normalised text.
Trap: readers hold snapshots; bytes of an erased text are only gone after VACUUM and a truncating
checkpoint, so forgetting says "pending" until those succeed.
Standard library only: hooks read it.
"""

from __future__ import annotations

import hmac
import json
import os
import sqlite3
from collections.abc import Mapping, Sequence

from openmem.base.clock import now_text
from openmem.base.errors import Failed, NotFound
from openmem.base.paths import Paths
from openmem.memory.chain import digest_of_entry, entry_of, memory_of, new_id, replay, salted
from openmem.memory.ledger_file import LedgerFile
from openmem.memory.model import Actor, Kind, LedgerEntry, Memory, Source, Trust, normalised

_ENTRY = "number, at, verb, memory_id, bank, actor, provider, detail, text_digest, previous, digest"
_MEMORY = (
    "memory.memory_id, memory.bank, memory.kind, coalesce(words.text, ''), memory.trust,"
    " memory.state, memory.actor, memory.session_id, memory.row, memory.recorded_at,"
    " memory.valid_from, memory.valid_to, memory.supersedes, memory.superseded_by"
)
_FROM = "FROM memory LEFT JOIN words ON words.memory_id = memory.memory_id"


class Tombstoned(Failed):
    """This text was forgotten in this bank and is not taken in again."""

    code = "forgotten"


class Duplicate(Failed):
    """This text is remembered in this bank already; `memory_id` names it."""

    code = "duplicate"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"it is remembered already, as {memory_id}.")
        self.memory_id = memory_id


class Ledger:
    """The ledger's file. `key`: the installation's. `provider`: which one acts, for the record.

    StoreUnavailable from any method: locked for too long, full, damaged or newer than ours.
    """

    def __init__(
        self, paths: Paths, key: bytes, *, provider: str = "local", busy_seconds: float = 10.0
    ) -> None:
        self._file = LedgerFile(paths.ledger_file, busy_seconds=busy_seconds)
        self._key = key
        self._provider = provider

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._file.close()

    def exists(self) -> bool:
        """Return whether anything was ever recorded."""
        return self._file.exists()

    def clear_freed_bytes(self) -> bool:
        """Overwrite what was erased. False while a reader holds old pages: try again later."""
        return self._file.clear_freed_bytes()

    # reading

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
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
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
        if kind:
            where.append("memory.kind = ?")
            values.append(kind)
        if trust:
            where.append("memory.trust = ?")
            values.append(trust)
        if not include_gone:
            where.append("memory.state = 'active'")
        order = "DESC" if newest_first else "ASC"
        return self._select(
            f"WHERE {' AND '.join(where)}"
            f" ORDER BY memory.recorded_at {order}, memory.memory_id {order} LIMIT {limit:d}",
            tuple(values),
        )

    def banks(self) -> list[tuple[str, int, int, str]]:
        """Return (bank, active memories, of them pending, newest recorded at), by name."""
        rows = self._file.read(
            "SELECT bank, count(*), sum(trust = 'pending' AND kind = 'statement'),"
            " max(recorded_at) FROM memory WHERE state = 'active' GROUP BY bank ORDER BY bank"
        )
        return [(str(b), int(n), int(p or 0), str(at)) for b, n, p, at in rows]

    def history(self, memory_id: str = "", *, bank: str = "", limit: int = -1) -> list[LedgerEntry]:
        """Return entries in order, of one memory or one bank; the last `limit` of them."""
        where, values = "", []
        if memory_id:
            where, values = "WHERE memory_id = ?", [memory_id]
        elif bank:
            where, values = "WHERE bank = ?", [bank]
        rows = self._file.read(
            f"SELECT {_ENTRY} FROM entry {where} ORDER BY number DESC LIMIT {limit:d}",
            tuple(values),
        )
        return [entry_of(row) for row in reversed(rows)]

    def is_tombstoned(self, bank: str, text: str) -> bool:
        """Return whether a text was forgotten in a bank."""
        rows = self._file.read(
            "SELECT 1 FROM tombstone WHERE bank = ? AND normal = ?", (bank, self._normal(text))
        )
        return bool(rows)

    def find_same(self, bank: str, text: str, kind: Kind = "statement") -> str:
        """Return the id of an active memory that says the same, "" when none does."""
        rows = self._file.read(
            "SELECT memory_id FROM memory WHERE bank = ? AND normal = ? AND kind = ?"
            " AND state = 'active' ORDER BY recorded_at LIMIT 1",
            (bank, self._normal(text), kind),
        )
        return str(rows[0][0]) if rows else ""

    # acts

    def add(
        self,
        *,
        bank: str,
        text: str,
        kind: Kind,
        actor: Actor,
        trust: Trust,
        source: Source | None = None,
        valid_from: str = "",
        valid_to: str = "",
        recorded_at: str = "",
        memory_id: str = "",
        supersedes: str = "",
        allow_same: bool = False,
    ) -> Memory:
        """Record a new memory. Tombstoned, Duplicate; ValueError on an empty text.

        `recorded_at`: when it was recorded elsewhere (an import), "" for now.
        """
        if not normalised(text):
            raise ValueError("a memory needs text")
        source = source or Source()
        at = recorded_at or now_text()
        with self._file.writing() as connection:
            normal = self._normal(text)
            if connection.execute(
                "SELECT 1 FROM tombstone WHERE bank = ? AND normal = ?", (bank, normal)
            ).fetchone():
                raise Tombstoned("this was forgotten here and is not taken in again.")
            same = connection.execute(
                "SELECT memory_id FROM memory WHERE bank = ? AND normal = ? AND kind = ?"
                " AND state = 'active' LIMIT 1",
                (bank, normal, kind),
            ).fetchone()
            if same and not allow_same:
                raise Duplicate(str(same[0]))
            created = memory_id or new_id()
            salt = os.urandom(16)
            detail = {
                "kind": kind,
                "trust": trust,
                "session": source.session_id,
                "row": source.row,
                "recorded_at": at,
                "valid_from": valid_from,
                "valid_to": valid_to,
                "supersedes": supersedes,
                "normal": normal.hex(),
            }
            self._append(connection, "add", created, bank, actor, detail, salted(salt, text))
            connection.execute("INSERT INTO words VALUES (?, ?, ?)", (created, salt, text))
            connection.execute(
                "INSERT INTO memory VALUES (?, ?, ?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, '', ?)",
                (
                    created,
                    bank,
                    kind,
                    trust,
                    str(actor),
                    source.session_id,
                    source.row,
                    at,
                    valid_from,
                    valid_to,
                    supersedes,
                    normal,
                ),
            )
            if supersedes:
                self._append(
                    connection, "supersede", supersedes, bank, actor, {"superseded_by": created}, ""
                )
                connection.execute(
                    "UPDATE memory SET state = 'superseded', superseded_by = ? WHERE memory_id = ?",
                    (created, supersedes),
                )
        return self.memory(created)

    def set_trust(self, memory_id: str, trust: Trust, actor: Actor) -> Memory:
        """Accept or reject a statement. NotFound; Failed when it is not active any more."""
        memory = self._active(memory_id)
        if memory.trust != trust:
            with self._file.writing() as connection:
                detail = {"trust": trust}
                verb = {"accepted": "accept", "rejected": "reject", "pending": "reopen"}[trust]
                self._append(connection, verb, memory_id, memory.bank, actor, detail, "")
                connection.execute(
                    "UPDATE memory SET trust = ? WHERE memory_id = ?", (trust, memory_id)
                )
        return self.memory(memory_id)

    def set_validity(self, memory_id: str, valid_from: str, valid_to: str, actor: Actor) -> Memory:
        """Change the times between which a memory holds."""
        memory = self._active(memory_id)
        with self._file.writing() as connection:
            detail = {"valid_from": valid_from, "valid_to": valid_to}
            self._append(connection, "date", memory_id, memory.bank, actor, detail, "")
            connection.execute(
                "UPDATE memory SET valid_from = ?, valid_to = ? WHERE memory_id = ?",
                (valid_from, valid_to, memory_id),
            )
        return self.memory(memory_id)

    def correct(self, memory_id: str, text: str, actor: Actor, trust: Trust) -> Memory:
        """Replace a statement by another, linked both ways; the old one is kept, superseded."""
        old = self._active(memory_id)
        return self.add(
            bank=old.bank,
            text=text,
            kind=old.kind,
            actor=actor,
            trust=trust,
            source=old.source,
            supersedes=old.id,
            allow_same=normalised(text) == normalised(old.text),
        )

    def forget(self, memory_id: str, actor: Actor) -> Memory:
        """Erase a memory's text and keep a tombstone. NotFound; forgetting twice is NotFound."""
        memory = self.memory(memory_id)
        if memory.state == "forgotten":
            raise NotFound(f"memory {memory_id} is forgotten already.", code="forgotten")
        with self._file.writing() as connection:
            normal = connection.execute(
                "SELECT normal FROM memory WHERE memory_id = ?", (memory_id,)
            ).fetchone()[0]
            self._append(connection, "forget", memory_id, memory.bank, actor, {}, "")
            connection.execute("DELETE FROM words WHERE memory_id = ?", (memory_id,))
            connection.execute(
                "UPDATE memory SET state = 'forgotten' WHERE memory_id = ?", (memory_id,)
            )
            connection.execute(
                "INSERT OR IGNORE INTO tombstone VALUES (?, ?, ?)",
                (memory.bank, normal, now_text()),
            )
        return memory

    def expire(self, ids: Sequence[str], actor: Actor) -> int:
        """Erase passages that are past their time; no tombstone, they may be kept again."""
        found = self.memories(ids)
        with self._file.writing() as connection:
            for memory in found.values():
                self._append(connection, "expire", memory.id, memory.bank, actor, {}, "")
                connection.execute("DELETE FROM words WHERE memory_id = ?", (memory.id,))
                connection.execute(
                    "UPDATE memory SET state = 'forgotten' WHERE memory_id = ?", (memory.id,)
                )
        return len(found)

    def drop_bank(self, bank: str, actor: Actor) -> int:
        """Erase a whole bank, without tombstones; return how many memories it held."""
        with self._file.writing() as connection:
            count = int(
                connection.execute(
                    "SELECT count(*) FROM memory WHERE bank = ?", (bank,)
                ).fetchone()[0]
            )
            self._append(connection, "drop-bank", "", bank, actor, {"memories": count}, "")
            connection.execute(
                "DELETE FROM words WHERE memory_id IN"
                " (SELECT memory_id FROM memory WHERE bank = ?)",
                (bank,),
            )
            connection.execute("DELETE FROM memory WHERE bank = ?", (bank,))
            connection.execute("DELETE FROM tombstone WHERE bank = ?", (bank,))
            connection.execute("DELETE FROM outbox WHERE bank = ?", (bank,))
        return count

    # outbox

    def enqueue(self, provider: str, verb: str, memory_id: str, bank: str) -> None:
        """Note what a provider has still to be told."""
        with self._file.writing() as connection:
            connection.execute(
                "INSERT INTO outbox (provider, verb, memory_id, bank, at) VALUES (?, ?, ?, ?, ?)",
                (provider, verb, memory_id, bank, now_text()),
            )

    def outbox(self, provider: str) -> list[tuple[int, str, str, str, int]]:
        """Return (number, verb, memory id, bank, tries) of what waits, oldest first."""
        rows = self._file.read(
            "SELECT number, verb, memory_id, bank, tries FROM outbox WHERE provider = ?"
            " ORDER BY number",
            (provider,),
        )
        return [(int(n), str(v), str(m), str(b), int(t)) for n, v, m, b, t in rows]

    def delivered(self, number: int) -> None:
        """Take something out of the outbox."""
        with self._file.writing() as connection:
            connection.execute("DELETE FROM outbox WHERE number = ?", (number,))

    def failed_delivery(self, number: int, problem: str) -> None:
        """Count a try that failed. `problem`: a code, never content."""
        with self._file.writing() as connection:
            connection.execute(
                "UPDATE outbox SET tries = tries + 1, problem = ? WHERE number = ?",
                (problem, number),
            )

    # checking

    def verify(self) -> list[str]:
        """Return what does not fit: broken links, changed texts, state that entries do not give."""
        problems: list[str] = []
        previous = ""
        texts = {
            str(memory_id): (bytes(salt), str(text))
            for memory_id, salt, text in self._file.read("SELECT memory_id, salt, text FROM words")
        }
        state: dict[str, dict[str, str]] = {}
        for row in self._file.read(f"SELECT {_ENTRY} FROM entry ORDER BY number"):
            entry = entry_of(row)
            if entry.previous != previous:
                problems.append(f"entry {entry.number}: does not follow the one before it")
            if entry.digest != digest_of_entry(entry):
                problems.append(f"entry {entry.number}: was changed")
            previous = entry.digest
            replay(state, entry)
            if entry.verb == "add" and entry.memory_id in texts:
                salt, text = texts[entry.memory_id]
                if salted(salt, text) != entry.text_digest:
                    problems.append(f"memory {entry.memory_id}: its text was changed")
        stored = {
            str(row[0]): dict(zip(("trust", "state", "by", "bank"), map(str, row[1:]), strict=True))
            for row in self._file.read(
                "SELECT memory_id, trust, state, superseded_by, bank FROM memory"
            )
        }
        for memory_id in sorted(stored.keys() | state.keys()):
            if stored.get(memory_id) != state.get(memory_id):
                problems.append(f"memory {memory_id}: its state is not what the entries give")
        return problems

    # the file

    def _normal(self, text: str) -> bytes:
        return hmac.digest(self._key, b"memory\0" + normalised(text).encode(), "sha256")[:16]

    def _active(self, memory_id: str) -> Memory:
        memory = self.memory(memory_id)
        if memory.state != "active":
            raise Failed(f"memory {memory_id} is {memory.state}.", code="not-active")
        return memory

    def _select(self, tail: str, values: tuple[object, ...]) -> list[Memory]:
        return [
            memory_of(row) for row in self._file.read(f"SELECT {_MEMORY} {_FROM} {tail}", values)
        ]

    def _append(
        self,
        connection: sqlite3.Connection,
        verb: str,
        memory_id: str,
        bank: str,
        actor: Actor,
        detail: Mapping[str, object],
        text_digest: str,
    ) -> None:
        last = connection.execute(
            "SELECT number, digest FROM entry ORDER BY number DESC LIMIT 1"
        ).fetchone()
        number, previous = (int(last[0]) + 1, str(last[1])) if last else (1, "")
        entry = LedgerEntry(
            number=number,
            at=now_text(),
            verb=verb,
            memory_id=memory_id,
            bank=bank,
            actor=str(actor),
            provider=self._provider,
            detail=json.dumps(detail, sort_keys=True, separators=(",", ":")),
            text_digest=text_digest,
            previous=previous,
            digest="",
        )
        connection.execute(
            f"INSERT INTO entry ({_ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.number,
                entry.at,
                entry.verb,
                entry.memory_id,
                entry.bank,
                entry.actor,
                entry.provider,
                entry.detail,
                entry.text_digest,
                entry.previous,
                digest_of_entry(entry),
            ),
        )
