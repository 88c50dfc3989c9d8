"""The one way in and out of memory, for tools, hooks and the command line alike.

Idea: policy, then redaction, then ledger, then provider, for every verb. Invariant: what recall
may show is decided by the ledger alone: accepted, or pending and marked so; never rejected,
replaced, expired or forgotten, and never of a bank out of reach. A provider's answer is only a list
of ids. Trap: writing fails closed (no policy, no key, no ledger: nothing is kept), telling the
provider does not: what it was not told waits in the outbox.
Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from openmem.base.errors import Failed, NotFound, OpenmemError, PolicyDenied, Usage
from openmem.base.frame import carries_own_text
from openmem.base.light import dataclass, replace
from openmem.base.paths import Paths
from openmem.memory.delivery import Delivered, deliver
from openmem.memory.ledger import Ledger
from openmem.memory.looking import Looker, is_shown
from openmem.memory.model import (
    LONGEST_STATEMENT,
    Actor,
    Draft,
    Kind,
    LedgerEntry,
    Memory,
    Source,
    Trust,
    normalised,
    storable,
)
from openmem.memory.notes import take_out
from openmem.memory.places import note_place
from openmem.memory.providers.base import Ask, Embedding, Provider, VectorsStand, item_of
from openmem.memory.scope import Scope
from openmem.memory.times import check_order, moment_of

_ID = r"m-[0-9a-f]{1,16}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of a new statement. `masked`: the kinds of secrets that were cut out of it."""

    memory: Memory
    masked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What became of forgetting. `also_in`: kept turns that hold the same words.

    `pending`: what still holds bytes of it: "provider", "bytes"; empty when nothing does.
    """

    memory: Memory
    also_in: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


class Memories(Looker):
    """Every verb of memory. `key`: the installation's. Errors are OpenmemError.

    `is_frozen`: for a dry run; what would write fails.
    """

    ledger: Ledger

    def __init__(
        self,
        paths: Paths,
        key: bytes,
        provider: Provider,
        *,
        busy_seconds: float = 10.0,
        is_frozen: bool = False,
    ) -> None:
        ledger = Ledger(
            paths, key, provider=provider.name, busy_seconds=busy_seconds, is_frozen=is_frozen
        )
        super().__init__(ledger, provider)
        self.paths = paths
        self._key = key

    @property
    def key(self) -> bytes:
        """The installation's key, with which secrets are masked."""
        return self._key

    # writing

    def add(
        self,
        scope: Scope,
        text: str,
        *,
        bank: str = "",
        valid_from: str = "",
        valid_to: str = "",
        source: Source | None = None,
        trust: Trust | None = None,
    ) -> Added:
        """Remember a statement. Pending from an agent, accepted from a person. Usage on bad text,
        PolicyDenied, Duplicate, Tombstoned, Replaced."""
        draft, kinds = self.drafted(
            scope, text, bank=bank, valid_from=valid_from, valid_to=valid_to, source=source
        )
        if trust:
            draft = replace(draft, trust=trust)
        outcome = self.ledger.add_all([draft])[0]
        if isinstance(outcome, Failed):
            raise outcome
        self.deliver()
        if draft.bank == scope.bank:
            note_place(self.paths, scope.workspace, scope.bank)
        return Added(memory=self.ledger.memory(outcome), masked=kinds)

    def drafted(
        self,
        scope: Scope,
        text: str,
        *,
        bank: str = "",
        valid_from: str = "",
        valid_to: str = "",
        source: Source | None = None,
    ) -> tuple[Draft, tuple[str, ...]]:
        """Return what `add` would record, and the kinds of secrets masked in it; writes nothing."""
        target = scope.bank_to_write(bank)
        starts, ends = moment_of(valid_from, "valid-from"), moment_of(valid_to, "valid-to")
        check_order(starts, ends)
        masked, kinds = self._masked(text)
        draft = Draft(
            bank=target,
            text=masked,
            kind="statement",
            actor=scope.actor,
            trust=first_trust(scope.actor),
            source=source or Source(session_id=scope.session_id),
            valid_from=starts,
            valid_to=ends,
        )
        return draft, kinds

    def correct(self, scope: Scope, memory_id: str, text: str) -> Added:
        """Replace a statement by another, linked both ways. What an agent writes is pending; until
        a person accepts it, the statement it is to replace stands beside it, if it was accepted."""
        old = self.mine(scope, memory_id)
        masked, kinds = self._masked(text)
        if old.kind != "statement":
            raise Usage(f"{memory_id} is a kept turn: it is what was said and cannot be corrected.")
        if normalised(masked) == normalised(old.text) and masked == old.text:
            raise Usage(f"{memory_id} says that already.")
        trust = first_trust(scope.actor)
        if trust == "pending" and old.trust == "accepted":
            memory = self.ledger.propose(old.id, masked, scope.actor, scope.session_id)
        else:
            memory = self.ledger.correct(old.id, masked, scope.actor, trust)
        self.deliver()
        return Added(memory=memory, masked=kinds)

    def forget(self, scope: Scope, memory_id: str) -> Forgotten:
        """Forget one memory for good, and check that search does not find it any more."""
        memory = self.mine(scope, memory_id, include_gone=True)
        also = self._holding(memory)
        self.ledger.forget(memory.id, scope.actor)
        self.ledger.enqueue(self.provider.name, "erase", "", memory.bank)
        outcome = self.deliver()
        pending = []
        if outcome.problem is not None or self._is_still_found(memory):
            pending.append("provider")
        if outcome.waiting:
            pending.append("bytes")
        return Forgotten(memory=memory, also_in=also, pending=tuple(pending))

    def judge(self, scope: Scope, memory_id: str, trust: Trust) -> Memory:
        """Accept, reject or reopen a statement; a person's act. PolicyDenied for anybody else."""
        if not scope.is_person:
            raise PolicyDenied(
                "only a person accepts or rejects.", hint="The person runs: openmem memory review"
            )
        memory = self.mine(scope, memory_id)
        if memory.kind != "statement":
            raise Usage(f"{memory_id} is a kept turn; only statements are reviewed.")
        judged = self.ledger.set_trust(memory.id, trust, scope.actor)
        if trust == "accepted" and judged.supersedes:
            replaced = self.ledger.memories([judged.supersedes]).get(judged.supersedes)
            if replaced and replaced.state == "active":
                self.ledger.replace(replaced.id, judged.id, scope.actor)
        self.deliver()
        return self.ledger.memory(judged.id)

    def replace(self, scope: Scope, memory_id: str, by: str) -> Memory:
        """Let one statement, which is accepted with it, take the place of another."""
        old = self.mine(scope, memory_id)
        self.judge(scope, by, "accepted")
        replaced = self.ledger.memory(old.id)
        if replaced.state == "active":
            replaced = self.ledger.replace(old.id, by, scope.actor)
            self.deliver()
        return replaced

    def date(self, scope: Scope, memory_id: str, valid_from: str, valid_to: str) -> Memory:
        """Change the times between which a statement holds; a person's act."""
        if not scope.is_person:
            raise PolicyDenied("only a person changes when a statement holds.")
        memory = self.mine(scope, memory_id)
        starts = moment_of(valid_from, "valid-from") or memory.valid_from
        ends = moment_of(valid_to, "valid-to") or memory.valid_to
        check_order(starts, ends)
        return self.ledger.set_validity(memory.id, starts, ends, scope.actor)

    def is_untold(self, memory_id: str) -> bool:
        """Return whether the provider was not told yet of the last change of a memory."""
        return memory_id in self.ledger.waiting(self.provider.name)

    def deliver(self) -> Delivered:
        """Tell the provider what it has not been told yet."""
        return deliver(
            self.ledger,
            self.provider,
            f"{self.paths.state_dir}/memory.lock",
            lambda memory_ids: take_out(self.paths, memory_ids),
        )

    def reindex(self, bank: str) -> int:
        """Give the provider what the ledger holds of a bank, and take out what it does not."""
        self.deliver()
        wanted = {
            memory.id: memory
            for memory in self.ledger.listing(bank, newest_first=False)
            if memory.trust != "rejected"
        }
        if "listing" in self.provider.capabilities:
            strangers = [one for one in self.provider.listing(bank) if one not in wanted]
            self.provider.forget(bank, strangers)
        memories = list(wanted.values())
        for start in range(0, len(memories), 500):
            self.provider.remember(bank, [item_of(m) for m in memories[start : start + 500]])
        return len(memories)

    def fill_vectors(
        self, bank: str, may_go_on: Callable[[], bool] = lambda: True
    ) -> VectorsStand | None:
        """Make the vectors that a bank lacks; None where there are none, or the person wants none.

        The caller has asked whether the bank's workspace may be retained.
        """
        if "vectors" not in self.provider.capabilities:
            return None
        return cast("Embedding", self.provider).fill_vectors(bank, may_go_on)

    # reading

    def listing(
        self,
        scope: Scope,
        *,
        bank: str = "",
        kind: Kind | None = "statement",
        trust: Trust | None = None,
        include_gone: bool = False,
        limit: int = 50,
    ) -> list[Memory]:
        """Return a bank's memories as they stand, newest first; to an agent only what is shown."""
        target = scope.bank_to_read(bank)
        found = self.ledger.listing(
            target, kind=kind, trust=trust, include_gone=include_gone, limit=limit
        )
        return found if scope.is_person else [m for m in found if is_shown(m, target)]

    def show(self, scope: Scope, memory_id: str) -> Memory:
        """Return one memory. NotFound; an agent does not see what recall would not show it."""
        memory = self.resolve(scope, memory_id)
        if not scope.is_person and not is_shown(memory, memory.bank):
            raise NotFound(f"memory {memory.id} is {_why_not(memory)}.", code="not-active")
        return memory

    def history(
        self, scope: Scope, memory_id: str = "", *, bank: str = "", limit: int = 50
    ) -> list[LedgerEntry]:
        """Return what was done to one memory, or in a bank; entries hold no content."""
        if memory_id:
            return self.ledger.history(self.resolve(scope, memory_id).id, limit=limit)
        return self.ledger.history(bank=scope.bank_to_read(bank), limit=limit)

    def resolve(self, scope: Scope, memory_id: str) -> Memory:
        """Return the memory of an id or of the start of one, within reach. NotFound, Usage,
        PolicyDenied for another bank's."""
        wanted = memory_id.strip().lower()
        wanted = wanted if wanted.startswith("m-") else f"m-{wanted}"
        if not re.fullmatch(_ID, wanted):
            raise Usage(f"{memory_id[:40]!r} is not the id of a memory.", hint=_LIST_HINT)
        ids = self.ledger.ids_like(wanted)
        if wanted in ids:
            ids = [wanted]
        if len(ids) > 1:
            raise Usage(f"{memory_id} stands for several memories: {', '.join(ids[:5])}.")
        if not ids:
            raise NotFound(f"there is no memory {memory_id}.", hint=_LIST_HINT)
        memory = self.ledger.memory(ids[0])
        scope.bank_to_read(memory.bank)
        return memory

    def mine(self, scope: Scope, memory_id: str, *, include_gone: bool = False) -> Memory:
        """Return a memory that may be changed. As `resolve`; Failed when it is not active."""
        memory = self.resolve(scope, memory_id)
        scope.bank_to_write(memory.bank)
        gone = ("forgotten", "expired") if include_gone else ("forgotten", "expired", "superseded")
        if memory.state in gone:
            by = f" by {memory.superseded_by}" if memory.superseded_by else ""
            code = "forgotten" if memory.state == "forgotten" else "not-active"
            raise Failed(f"memory {memory.id} is {memory.state}{by}.", code=code)
        if not scope.is_person and memory.trust == "rejected":
            raise Failed(f"memory {memory.id} is rejected.", code="not-active")
        return memory

    # parts

    def _masked(self, text: str) -> tuple[str, tuple[str, ...]]:
        from openmem.base.redact import redact  # its rules take longer to load than a hook has

        text = text.strip()
        if not normalised(text):
            raise Usage("a memory needs text.")
        if len(text) > LONGEST_STATEMENT:
            raise Usage(
                f"the text has {len(text)} characters; a statement has at most "
                f"{LONGEST_STATEMENT}.",
                hint="Say it in one or two sentences, or add several.",
            )
        if carries_own_text(text):
            raise Usage("the text repeats what openmem recalled; it is remembered already.")
        redacted = redact(storable(text), self._key)
        return redacted.text, redacted.kinds

    def _holding(self, memory: Memory) -> tuple[str, ...]:
        """Return ids of other memories that hold the same words, whole."""
        wanted = normalised(memory.text)
        if not wanted:
            return ()
        try:
            hits = self.provider.recall(memory.bank, Ask(text=memory.text[:2000], limit=40))
        except OpenmemError:
            return ()  # the search is a service on the side; forgetting goes on without it
        others = self.ledger.memories([hit.id for hit in hits if hit.id != memory.id])
        return tuple(
            one.id
            for one in others.values()
            if one.state == "active" and wanted in normalised(one.text)
        )

    def _is_still_found(self, memory: Memory) -> bool:
        try:
            hits = self.provider.recall(memory.bank, Ask(text=memory.text[:2000], limit=20))
            return any(hit.id == memory.id for hit in hits)
        except OpenmemError:
            return True  # not seen to be gone is not gone


def first_trust(actor: Actor) -> Trust:
    """Return the trust that a statement starts with."""
    return "accepted" if actor.kind == "person" else "pending"


def _why_not(memory: Memory) -> str:
    if memory.state != "active":
        return memory.state
    return memory.trust if memory.trust == "rejected" else "not valid now"


_LIST_HINT = "`openmem memory list` shows the ids."
