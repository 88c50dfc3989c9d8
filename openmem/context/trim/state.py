"""The stored decision of a thread: what is cut, and the reports its estimate is calibrated on.

One file per session, `sessions/<sid>.trim.json`, holds the state of each of its threads. It is
read and written whole; a damaged file is an empty one, and the session's next trim starts afresh
from the store, which holds every message anyway.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace

from openmem.base.io import ensure_private_dir, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths
from openmem.context.trim.clearing import NOTHING_CLEARED, Cleared
from openmem.context.trim.items import Item
from openmem.context.trim.spent.parts import NOTHING, Reduced, reduced_from

VERSION = 1
_SAMPLES_KEPT = 4
_THREADS_KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the provider counted for a request of ours.

    `weight`: characters of the request as sent; `tokens`: the whole prompt, cache included, less
    what its images cost by rule.
    """

    weight: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One decision, by item numbers in the request as the client sends it.

    `first`: the first real user turn; `lead`: items behind it that stay with it; `reply`: the
    final reply before the cut, -1 for none; `turn`: the cut turn; `gap_end`: items from behind the
    cut turn (and `lead` of it) up to here are the gap; equal to `gap_start` for none. `strip`:
    thinking before this item is gone; `squeeze`: tool results before it are compressed.
    `survivors`: removed items that must be said again. `anchor`, `anchor_digest`: how many items
    there were and the chain over them. `dropped`: items removed; `masked`: secrets that the store
    holds masked in them. `pointer`: the text as first written. `note`: the mark of what is said
    beside it, "" for nothing. `reduced`: bodies of kept items that are left out, and what is told
    again.
    """

    first: int
    lead: int
    reply: int
    turn: int
    gap_start: int
    gap_end: int
    strip: int
    squeeze: int
    survivors: tuple[int, ...]
    anchor: int
    anchor_digest: str
    dropped: int
    masked: int
    pointer: str
    note: str = ""
    reduced: Reduced = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimState:
    """All that is kept of one thread. `limit`: a window the provider itself named, 0 for none;
    `limit_model`: for which model, "" for any.

    `binding_repair`: a trimmed request of this thread was refused for its thinking once; since
    then its requests ask the provider to drop what does not verify. `cleared`: what the provider
    left out of the last request by itself, as we asked it to.
    """

    cut: Cut | None = None
    samples: tuple[Sample, ...] = ()
    limit: int = 0
    limit_model: str = ""
    model: str = ""
    system_digest: str = ""
    binding_repair: bool = False
    cleared: Cleared = NOTHING_CLEARED

    def with_sample(self, sample: Sample) -> TrimState:
        return replace(self, samples=(*self.samples, sample)[-_SAMPLES_KEPT:])


@dataclass(slots=True)
class SessionTrims:
    """The states of a session's threads, by thread id, in order of use. `was_lost`: there was a
    file that could not be used, so threads that are not among them may have had a cut."""

    threads: dict[str, TrimState] = field(default_factory=dict)
    problem: str = ""
    was_lost: bool = False

    def put(self, thread: str, state: TrimState) -> None:
        self.threads.pop(thread, None)
        self.threads[thread] = state
        while len(self.threads) > _THREADS_KEPT:
            del self.threads[next(iter(self.threads))]


def chain_digest(items: Sequence[Item], key: bytes) -> str:
    """Return the digest over items in order; equal for a history that says the same."""
    digest = hashlib.blake2b(key=key[:64], digest_size=16)
    for item in items:
        digest.update(item.digest)
    return digest.hexdigest()


def trim_file(paths: Paths, sid: str) -> str:
    """Return where a session's trim state is kept."""
    return f"{paths.sessions_dir}/{sid}.trim.json"


def load_trims(paths: Paths, sid: str) -> SessionTrims:
    """Return a session's states. `problem` says why a file that is there could not be used."""
    try:
        data = read_bytes_or_none(trim_file(paths, sid))
    except OSError as error:
        return SessionTrims(problem=f"cannot be read: {error.strerror}", was_lost=True)
    if data is None:
        return SessionTrims()
    try:
        document = json.loads(data)
        if document["version"] != VERSION:
            return SessionTrims(
                problem=f"version {document['version']!r} is not ours", was_lost=True
            )
        threads = {str(name): _decode(value) for name, value in document["threads"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return SessionTrims(problem="damaged", was_lost=True)
    return SessionTrims(threads=threads)


def save_trims(paths: Paths, sid: str, trims: SessionTrims) -> None:
    """Write a session's states, durable. OSError when that is not possible."""
    ensure_private_dir(paths.sessions_dir)
    document = {
        "version": VERSION,
        "threads": {name: asdict(state) for name, state in trims.threads.items()},
    }
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    write_atomic(trim_file(paths, sid), data)


def _decode(value: dict[str, object]) -> TrimState:
    known = {entry.name for entry in fields(TrimState)}
    if set(value) - known:
        raise ValueError("unknown key")
    samples = value.get("samples", ())
    cut = value.get("cut")
    if not isinstance(samples, list) or not all(isinstance(s, dict) for s in samples):
        raise ValueError("samples")
    return TrimState(
        cut=_decode_cut(cut) if isinstance(cut, dict) else None,
        samples=tuple(Sample(weight=int(s["weight"]), tokens=int(s["tokens"])) for s in samples),
        limit=_number(value, "limit"),
        limit_model=str(value.get("limit_model", "")),
        model=str(value.get("model", "")),
        system_digest=str(value.get("system_digest", "")),
        binding_repair=value.get("binding_repair") is True,
        cleared=_decode_cleared(value.get("cleared")),
    )


def _decode_cut(value: dict[str, object]) -> Cut:
    numbers = {
        entry.name: _number(value, entry.name) for entry in fields(Cut) if entry.type == "int"
    }
    survivors = value["survivors"]
    if not isinstance(survivors, list):
        raise ValueError("survivors")
    return Cut(
        **numbers,
        survivors=tuple(int(n) for n in survivors),
        anchor_digest=str(value["anchor_digest"]),
        pointer=str(value["pointer"]),
        note=str(value.get("note", "")),
        reduced=reduced_from(value.get("reduced")),
    )


def _decode_cleared(value: object) -> Cleared:
    if not isinstance(value, dict):
        return NOTHING_CLEARED  # a file of a version that knew of no clearing
    return Cleared(uses=_number(value, "uses"), tokens=_number(value, "tokens"))


def _number(value: dict[str, object], key: str) -> int:
    found = value[key]
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(key)
    return found
