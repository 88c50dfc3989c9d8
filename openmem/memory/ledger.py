"""Our own record over whichever provider is active: what was remembered, by whom, and what became
of it.

Idea: each act appends one entry, chained by digest to the one before; the current state follows,
and what the provider has to be told waits in the outbox of the same transaction.
Invariant: entries are never changed; a text can be erased without breaking the chain; what was
forgotten is refused for good, by a keyed digest of its normalised text.
Trap: readers hold snapshots; bytes of an erased text are only gone after VACUUM and a truncating
checkpoint, so forgetting says "pending" until those succeed.
Standard library only: hooks read it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence

from openmem.base.clock import now_text
from openmem.base.errors import Failed, NotFound
from openmem.memory.chain import digest_of_entry, fields_of, new_id, salted
from openmem.memory.ledger_reading import ENTRY, LedgerReader
from openmem.memory.model import Actor, Draft, Kind, LedgerEntry, Memory, Source, Trust, normalised


class Tombstoned(Failed):
    """This text was forgotten in this bank and is not taken in again."""

    code = "forgotten"


class Duplicate(Failed):
    """This text is remembered in this bank already; `memory_id` names it."""

    code = "duplicate"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"it is remembered already, as {memory_id}.")
        self.memory_id = memory_id


class Replaced(Failed):
    """This was said here once and replaced since; only a person brings it back."""

    code = "replaced"

    def __init__(self, memory_id: str, by: str) -> None:
        super().__init__(f"it was remembered as {memory_id} and is replaced by {by}.")
        self.memory_id = memory_id


Refusal = Tombstoned | Duplicate | Replaced


class Ledger(LedgerReader):
    """The ledger. `provider`: which one acts, for the record and for the outbox.

    StoreUnavailable from any method: locked for too long, full, damaged or newer than ours.
    """

    def clear_freed_bytes(self) -> bool:
        """Overwrite what was erased. False while a reader holds old pages: try again later."""
        return self._file.clear_freed_bytes()

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
        """Record a new memory. Tombstoned, Duplicate, Replaced; ValueError on an empty text."""
        draft = Draft(
            bank=bank,
            text=text,
            kind=kind,
            actor=actor,
            trust=trust,
            source=source or Source(),
            valid_from=valid_from,
            valid_to=valid_to,
            recorded_at=recorded_at,
            memory_id=memory_id,
            supersedes=supersedes,
            allow_same=allow_same,
        )
        outcome = self.add_all([draft])[0]
        if isinstance(outcome, Failed):
            raise outcome
        return self.memory(outcome)

    def add_all(self, drafts: Sequence[Draft]) -> list[str | Refusal]:
        """Record several memories in one transaction; an id or the reason against, for each."""
        if any(not normalised(draft.text) for draft in drafts):
            raise ValueError("a memory needs text")
        outcomes: list[str | Refusal] = []
        with self._file.writing() as connection:
            for draft in drafts:
                normal = self.normal_of(draft.text)
                if _is_forgotten(connection, draft.bank, normal):
                    outcomes.append(
                        Tombstoned("this was forgotten here and is not taken in again.")
                    )
                    continue
                same = _same(connection, draft, normal)
                if same and not draft.allow_same:
                    outcomes.append(Duplicate(same))
                    continue
                replaced = _replaced(connection, draft, normal)
                if replaced:
                    outcomes.append(Replaced(*replaced))
                    continue
                outcomes.append(self._add(connection, draft, normal))
        return outcomes

    def _add(self, connection: sqlite3.Connection, draft: Draft, normal: bytes) -> str:
        created = draft.memory_id
        if not created or _row(connection, created):
            created = new_id()
        if draft.supersedes and _row(connection, draft.supersedes) != "active":
            raise Failed(f"memory {draft.supersedes} is not active any more.", code="not-active")
        at = draft.recorded_at or now_text()
        salt = os.urandom(16)
        detail = {
            "kind": draft.kind,
            "trust": draft.trust,
            "session": draft.source.session_id,
            "row": draft.source.row,
            "recorded_at": at,
            "valid_from": draft.valid_from,
            "valid_to": draft.valid_to,
            "supersedes": draft.supersedes,
            "normal": normal.hex(),
        }
        digest = salted(salt, draft.text)
        self._append(connection, "add", created, draft.bank, draft.actor, detail, digest)
        connection.execute("INSERT INTO words VALUES (?, ?, ?)", (created, salt, draft.text))
        connection.execute(
            "INSERT INTO memory VALUES (?, ?, ?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, '', ?, '')",
            (
                created,
                draft.bank,
                draft.kind,
                draft.trust,
                str(draft.actor),
                draft.source.session_id,
                draft.source.row,
                at,
                draft.valid_from,
                draft.valid_to,
                draft.supersedes,
                normal,
            ),
        )
        if draft.superseded_by:
            self._supersede(connection, created, draft.superseded_by, draft.bank, draft.actor, at)
        elif draft.trust != "rejected":
            self._tell(connection, "remember", created, draft.bank)
        if draft.supersedes and not draft.is_proposal:
            replaced = draft.supersedes
            self._supersede(connection, replaced, created, draft.bank, draft.actor, at)
            self._tell(connection, "forget", replaced, draft.bank)
        return created

    def _supersede(
        self,
        connection: sqlite3.Connection,
        replaced: str,
        by: str,
        bank: str,
        actor: Actor,
        at: str,
    ) -> None:
        detail = {"superseded_by": by}
        self._append(connection, "supersede", replaced, bank, actor, detail, "")
        connection.execute(
            "UPDATE memory SET state = 'superseded', superseded_by = ?, ended_at = ?"
            " WHERE memory_id = ?",
            (by, at, replaced),
        )

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
                told = "forget" if trust == "rejected" else "remember"
                self._tell(connection, told, memory_id, memory.bank)
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

    def propose(self, memory_id: str, text: str, actor: Actor, session_id: str = "") -> Memory:
        """Record a pending statement that is to replace an accepted one, which stays until then."""
        old = self._active(memory_id)
        draft = Draft(
            bank=old.bank,
            text=text,
            kind=old.kind,
            actor=actor,
            trust="pending",
            source=Source(session_id=session_id),
            supersedes=old.id,
            is_proposal=True,
        )
        outcome = self.add_all([draft])[0]
        if isinstance(outcome, Failed):
            raise outcome
        return self.memory(outcome)

    def replace(self, memory_id: str, by: str, actor: Actor) -> Memory:
        """Mark a statement as replaced by another that is remembered already. NotFound, Failed."""
        old, new = self._active(memory_id), self._active(by)
        if old.bank != new.bank or old.id == new.id:
            raise Failed(f"memory {by} cannot replace {memory_id}.", code="not-active")
        with self._file.writing() as connection:
            self._supersede(connection, memory_id, by, old.bank, actor, now_text())
            connection.execute(
                "UPDATE memory SET supersedes = ? WHERE memory_id = ? AND supersedes = ''",
                (memory_id, by),
            )
            self._tell(connection, "forget", memory_id, old.bank)
        return self.memory(memory_id)

    def forget(self, memory_id: str, actor: Actor) -> Memory:
        """Erase a memory's text and keep a tombstone. NotFound; forgetting twice is NotFound."""
        memory = self.memory(memory_id)
        if memory.state in ("forgotten", "expired"):
            raise NotFound(f"memory {memory_id} is {memory.state} already.", code="forgotten")
        with self._file.writing() as connection:
            normal = connection.execute(
                "SELECT normal FROM memory WHERE memory_id = ?", (memory_id,)
            ).fetchone()[0]
            self._append(connection, "forget", memory_id, memory.bank, actor, {}, "")
            self._erase(connection, memory, "forgotten")
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
                self._erase(connection, memory, "expired")
        return len(found)

    def drop_bank(self, bank: str, actor: Actor) -> int:
        """Erase a whole bank, without tombstones; return how many memories it held."""
        with self._file.writing() as connection:
            count = int(
                connection.execute(
                    "SELECT count(*) FROM memory WHERE bank = ? AND state = 'active'", (bank,)
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
            _tell(connection, provider, verb, memory_id, bank)

    def delivered(self, *numbers: int) -> None:
        """Take things out of the outbox."""
        if not numbers:
            return
        with self._file.writing() as connection:
            connection.executemany(
                "DELETE FROM outbox WHERE number = ?", [(number,) for number in numbers]
            )

    def failed_delivery(self, number: int, problem: str) -> None:
        """Count a try that failed. `problem`: a code, never content."""
        with self._file.writing() as connection:
            connection.execute(
                "UPDATE outbox SET tries = tries + 1, problem = ? WHERE number = ?",
                (problem, number),
            )

    def _tell(self, connection: sqlite3.Connection, verb: str, memory_id: str, bank: str) -> None:
        _tell(connection, self._provider, verb, memory_id, bank)

    def _erase(self, connection: sqlite3.Connection, memory: Memory, state: str) -> None:
        connection.execute("DELETE FROM words WHERE memory_id = ?", (memory.id,))
        connection.execute(
            "UPDATE memory SET state = ?, ended_at = ? WHERE memory_id = ?",
            (state, now_text(), memory.id),
        )
        self._tell(connection, "forget", memory.id, memory.bank)

    def _active(self, memory_id: str) -> Memory:
        memory = self.memory(memory_id)
        if memory.state != "active":
            by = f" by {memory.superseded_by}" if memory.superseded_by else ""
            raise Failed(f"memory {memory_id} is {memory.state}{by}.", code="not-active")
        return memory

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
            f"INSERT INTO entry ({ENTRY}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*fields_of(entry), digest_of_entry(entry)),
        )


def _row(connection: sqlite3.Connection, memory_id: str) -> str:
    """Return a memory's state, "" when there is no such memory."""
    row = connection.execute(
        "SELECT state FROM memory WHERE memory_id = ?", (memory_id,)
    ).fetchone()
    return str(row[0]) if row else ""


def _is_forgotten(connection: sqlite3.Connection, bank: str, normal: bytes) -> bool:
    return bool(
        connection.execute(
            "SELECT 1 FROM tombstone WHERE bank = ? AND normal = ?", (bank, normal)
        ).fetchone()
    )


def _same(connection: sqlite3.Connection, draft: Draft, normal: bytes) -> str:
    row = connection.execute(
        "SELECT memory_id FROM memory INDEXED BY memory_normal"
        " WHERE bank = ? AND normal = ? AND kind = ?"
        " AND state = 'active' LIMIT 1",
        (draft.bank, normal, draft.kind),
    ).fetchone()
    return str(row[0]) if row else ""


def _replaced(
    connection: sqlite3.Connection, draft: Draft, normal: bytes
) -> tuple[str, str] | None:
    """Return (id, by) of a statement that says the same and was replaced, unless it may return."""
    if draft.kind != "statement" or draft.allow_same or draft.actor.kind == "person":
        return None
    row = connection.execute(
        "SELECT memory_id, superseded_by FROM memory INDEXED BY memory_normal"
        " WHERE bank = ? AND normal = ? AND kind = 'statement' AND state = 'superseded' LIMIT 1",
        (draft.bank, normal),
    ).fetchone()
    return (str(row[0]), str(row[1])) if row else None


def _tell(
    connection: sqlite3.Connection, provider: str, verb: str, memory_id: str, bank: str
) -> None:
    connection.execute(
        "INSERT INTO outbox (provider, verb, memory_id, bank, at) VALUES (?, ?, ?, ?, ?)",
        (provider, verb, memory_id, bank, now_text()),
    )
