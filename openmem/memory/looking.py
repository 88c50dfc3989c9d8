"""Finding what may be shown: the reading half of the facade, as light as a hook needs it.

Idea: the provider names ids, the ledger says what they are and whether they may be shown.
Invariant: never rejected, replaced, expired or forgotten ones, never one of another bank; `as_of`
looks back with the same rule. Trap: a provider's answer may be stale; nothing of it is shown that
the ledger does not confirm.
Standard library only.
"""

from __future__ import annotations

from openmem.base.clock import now_text
from openmem.base.light import dataclass
from openmem.memory.ledger_reading import LedgerReader
from openmem.memory.model import Kind, Memory, Trust, sentences_of
from openmem.memory.providers.base import Ask, Provider, item_of
from openmem.memory.scope import Scope

_SPARE = 12  # asked for beyond the limit, because some may not be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A memory that was found. `score`: comparable within one answer only."""

    memory: Memory
    score: float = 0.0


class Looker:
    """Searches and lists. `ledger`: read only here. Errors are OpenmemError."""

    ledger: LedgerReader

    def __init__(self, ledger: LedgerReader, provider: Provider) -> None:
        self.ledger = ledger
        self.provider = provider

    def close(self) -> None:
        """Close every file."""
        self.ledger.close()
        self.provider.close()

    def search(
        self,
        scope: Scope,
        text: str,
        *,
        bank: str = "",
        limit: int = 8,
        kinds: tuple[Kind, ...] = (),
        as_of: str = "",
        has_floor: bool = False,
        is_quick: bool = False,
        seconds: float = 0.0,
        without_session: str = "",
    ) -> list[Found]:
        """Return what fits, best first; only what may be recalled, at `as_of` or now."""
        target = scope.bank_to_read(bank)
        moment = _moment(as_of)
        if not self.ledger.exists():
            return []
        ask = Ask(
            text=text,
            limit=limit + _SPARE,
            kinds=kinds,
            has_floor=has_floor,
            is_quick=is_quick,
            seconds=seconds,
            without_session=without_session,
        )
        provider: Provider = self._as_it_was(target, moment) if moment else self.provider
        hits = provider.recall(target, ask)
        memories = self.ledger.memories([hit.id for hit in hits])
        found = [
            Found(memory=memories[hit.id], score=hit.score)
            for hit in hits
            if hit.id in memories and is_shown(memories[hit.id], target, moment)
        ]
        return _ordered(self._without_gone(found, target))[:limit]

    def known(
        self, scope: Scope, *, bank: str = "", limit: int = 200, as_of: str = ""
    ) -> list[Memory]:
        """Return the statements that hold now, or held then; accepted ones first, newest first."""
        target = scope.bank_to_read(bank)
        moment = _moment(as_of)
        if moment:
            return self._known_at(target, moment)[:limit]
        found: list[Memory] = []
        trusts: tuple[Trust, ...] = ("accepted", "pending")
        for trust in trusts:
            listed = self.ledger.listing(target, kind="statement", trust=trust, limit=limit)
            found += [memory for memory in listed if is_shown(memory, target)]
        return found[:limit]

    def _known_at(self, bank: str, moment: str) -> list[Memory]:
        if not self.ledger.exists():
            return []
        listed = [*self.ledger.listing(bank, kind="statement"), *self.ledger.replaced(bank)]
        then = [m for m in listed if m.kind == "statement" and is_shown(m, bank, moment)]
        return sorted(then, key=lambda m: (m.trust == "accepted", m.recorded_at), reverse=True)

    def _without_gone(self, found: list[Found], bank: str) -> list[Found]:
        """Return hits without kept turns that say what may not be told any more."""
        passages = [one for one in found if one.memory.kind == "passage"]
        if not passages:
            return found
        parts = [sentences_of(one.memory.text.partition(": ")[2]) for one in passages]
        flags = iter(self.ledger.gone(bank, [part for each in parts for part in each]))
        told = set()
        for one, each in zip(passages, parts, strict=True):
            if not any([next(flags) for _ in each]):
                told.add(one.memory.id)
        return [one for one in found if one.memory.kind != "passage" or one.memory.id in told]

    def _as_it_was(self, bank: str, moment: str) -> Provider:
        """Return a provider in memory with what held at a moment, replaced statements included."""
        from openmem.memory.providers.local.provider import LocalProvider

        then = LocalProvider(None)
        memories = [*self.ledger.listing(bank, newest_first=False), *self.ledger.replaced(bank)]
        then.remember(bank, [item_of(m) for m in memories if is_shown(m, bank, moment)])
        return then


def is_shown(memory: Memory, bank: str, moment: str = "") -> bool:
    """Return whether recall may show a memory, at a moment or now."""
    if memory.bank != bank or memory.trust == "rejected" or not memory.text:
        return False
    if moment:
        return memory.state in ("active", "superseded") and memory.holds_at(moment)
    return memory.state == "active" and memory.holds_at(now_text())


def _ordered(found: list[Found]) -> list[Found]:
    """Return hits best first; what scores alike by trust, then newest first."""
    return sorted(
        found,
        key=lambda one: (
            round(one.score, 2),
            one.memory.trust == "accepted",
            one.memory.recorded_at,
        ),
        reverse=True,
    )


def _moment(as_of: str) -> str:
    if not as_of:
        return ""
    from openmem.memory.times import moment_of

    return moment_of(as_of, "as-of")
