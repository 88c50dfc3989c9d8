"""The protocol of providers and the values that pass through it.

Dropping a whole bank is not on `Provider` but on `BankAdmin`, which only the command line uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NoReturn, Protocol

from openmem.base.errors import OpenmemError, Unsupported
from openmem.base.light import dataclass
from openmem.memory.model import Kind, Memory

# What a provider may be able to do beyond remember, recall, forget one and status.
Capability = Literal["listing", "erase", "drop-bank", "vectors", "reflect", "consolidate", "wait"]
CAPABILITIES: tuple[Capability, ...] = (
    "listing",  # name every id it holds
    "erase",  # overwrite the bytes of what it forgot
    "drop-bank",
    "vectors",  # keep what texts mean, by an endpoint of the person's, for searches by hand
    "reflect",  # answer in its own words, by a model of its own
    "consolidate",
    "wait",  # take in later than it says so, and tell when it has
)


class TimedOut(OpenmemError):
    """The provider did not answer in time."""

    code = "provider-timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is given to a provider. `id`: ours; giving it again replaces what stood under it.

    `text`: masked. `row`: the place in its session, from 1; 0 when it has none.
    """

    id: str
    text: str
    kind: Kind
    recorded_at: str
    session_id: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A question to a provider.

    `limit`: most hits, 1 or more. `kinds`: empty for all. `has_floor`: leave out what is not
    clearly relevant. `is_quick`: common words may be left out to save time. `seconds`: what it may
    take, 0 for as long as it needs. `without_session`: passages of this session are left out.
    """

    text: str
    limit: int = 8
    kinds: tuple[Kind, ...] = ()
    has_floor: bool = False
    is_quick: bool = False
    seconds: float = 0.0
    without_session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that was found. `score`: higher is better, comparable within one answer only."""

    id: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsStand:
    """How the vectors of a bank stand. `is_down`: the endpoint gave none at all."""

    filled: int
    pending: int
    is_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """How a provider fares. `memories`: of one bank; -1 when it cannot say.

    `waiting`: taken in but not found yet; `waiting_since`: UTC text of when the oldest of these was
    handed over, "" when it cannot say. `detail`: for people; no content. `vectors`: None where the
    person wants none.
    """

    name: str
    is_ready: bool
    memories: int = -1
    waiting: int = 0
    waiting_since: str = ""
    size_bytes: int = 0
    detail: str = ""
    vectors: VectorsStand | None = None


class Provider(Protocol):
    """Stores texts under our ids. OpenmemError from any method: unavailable, timed out."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    def remember(self, bank: str, items: Sequence[Item]) -> None:
        """Take items in; the same ids again change nothing but what stands under them."""

    def recall(self, bank: str, ask: Ask) -> list[Hit]:
        """Return what fits, best first; a bank that does not exist holds nothing."""

    def forget(self, bank: str, memory_ids: Sequence[str]) -> None:
        """Remove memories by id; one that is not there is removed already."""

    def listing(self, bank: str) -> Iterator[str]:
        """Yield the ids that a bank holds. Unsupported("listing")."""

    def erase(self, bank: str) -> bool:
        """Overwrite freed bytes; False while a reader holds them. Unsupported("erase")."""

    def status(self, bank: str) -> ProviderStatus: ...

    def close(self) -> None: ...


class Embedding(Protocol):
    """What a provider with the capability "vectors" can do besides."""

    def fill_vectors(self, bank: str, may_go_on: Callable[[], bool]) -> VectorsStand | None:
        """Make the vectors that a bank lacks; None where the person wants none."""


class BankAdmin(Protocol):
    """What the command line may do to a whole bank, and nobody else."""

    def drop_bank(self, bank: str) -> None:
        """Remove a bank with everything in it; one that does not exist is removed already."""


def item_of(memory: Memory) -> Item:
    """Return a memory as a provider takes it in."""
    return Item(
        id=memory.id,
        text=memory.text,
        kind=memory.kind,
        recorded_at=memory.recorded_at,
        session_id=memory.source.session_id,
        row=memory.source.row,
    )


def unsupported(provider: str, capability: Capability) -> NoReturn:
    """Raise what a provider raises for something it cannot do."""
    raise Unsupported(f"provider {provider} cannot do this ({capability}).")
