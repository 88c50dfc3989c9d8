"""The adapter for Hindsight's HTTP API. Source: recorded from version 1.1.0, 2026-11-30."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from openmem.base.errors import Failed
from openmem.memory.providers.base import Ask, Capability, Hit, Item, ProviderStatus, unsupported
from openmem.memory.providers.hits import Row, hits_of, question_of
from openmem.memory.providers.wire import Address, Link, Transport, quoted, sendable, server_name

_PAGE = 100
_OURS = uuid.UUID("6f1d9a52-0a3b-4f0e-9d0c-6f70656e6d65")
_TOKENS_PER_HIT = 250
_FOUND_LATER = ("pending", "processing")
_BUSY_SECONDS = 20.0


class Busy(Failed):
    """The server still takes in what is to be removed; trying again later helps."""

    code = "provider-busy"


class HindsightProvider:
    """Memories as documents of a Hindsight bank.

    `origin_of`: names this installation, so that what others put into a shared bank is left alone.
    """

    name = "hindsight"
    capabilities: frozenset[Capability] = frozenset(("listing", "drop-bank", "wait"))

    def __init__(
        self,
        address: Address,
        transport: Transport,
        origin_of: Callable[[], str],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"authorization": f"Bearer {address.key}"} if address.key else {}
        self._link = Link(address, transport, headers_of=lambda: headers, sleep=sleep)
        self._origin_of = origin_of
        self._sleep = sleep

    def close(self) -> None:
        """Close the connections."""
        self._link.close()

    def remember(self, bank: str, items: Sequence[Item]) -> None:
        """Hand items over; they are found once `wait` says so, and survive the server's end."""
        if not items:
            return
        operation = str(uuid.uuid5(_OURS, repr([bank, self._origin_of(), *map(repr, items)])))
        state = self._operation(bank, operation)
        if state in _FOUND_LATER:
            return  # told before, and the answer was lost
        if state != "not_found":
            # An id that was used starts nothing; what it took in may have been replaced since.
            items = [one for one in items if not self._holds(bank, one)]
            operation = str(uuid.uuid4())
        if items:
            self._retain(bank, items, operation)

    def recall(self, bank: str, ask: Ask) -> list[Hit]:
        """Return what fits; budget and size follow from how many hits are wanted."""
        question = question_of(ask.text)
        if not question:
            return []
        tags = [f"by:{self._origin_of()}"]
        if len(ask.kinds) == 1:
            tags.append(f"kind:{ask.kinds[0]}")
        body = {
            "query": question,
            "budget": "low" if ask.is_quick else "mid",
            "max_tokens": max(1024, min(16_384, ask.limit * _TOKENS_PER_HIT)),
            # Observations stand for several documents and belong to none.
            "types": ["world", "experience"],
            "tags": tags,
            "tags_match": "all_strict",
            "include": {"entities": None},
        }
        path = f"{self._path(bank)}/memories/recall"
        status, answer = self._link.json("POST", path, body, seconds=ask.seconds, may_be=(404,))
        if status == 404:
            return []
        return hits_of([_row(row) for row in _list(answer, "results")], ask)

    def forget(self, bank: str, memory_ids: Sequence[str]) -> None:
        """Delete documents with all that was drawn from them. Busy: they are still taken in."""
        if not self.wait(bank, seconds=_BUSY_SECONDS):
            # What is deleted before it has been taken in would appear afterwards.
            raise Busy(
                "provider hindsight still takes texts in; forgetting is told again later.",
                hint="See its queue: openmem status",
            )
        for memory_id in dict.fromkeys(memory_ids):
            path = f"{self._path(bank)}/documents/{quoted(memory_id)}"
            self._link.send("DELETE", path, may_be=(404,))

    def listing(self, bank: str) -> Iterator[str]:
        """Yield the ids of this installation's documents."""
        own = quoted(f"by:{self._origin_of()}")
        place = 0
        while True:
            path = (
                f"{self._path(bank)}/documents?limit={_PAGE}&offset={place}"
                f"&tags={own}&tags_match=any_strict"
            )
            status, answer = self._link.json("GET", path, may_be=(404,))
            rows = [] if status == 404 else _list(answer, "items")
            yield from (str(row.get("id", "")) for row in rows)
            place += len(rows)
            if len(rows) < _PAGE:
                return

    def erase(self, bank: str) -> NoReturn:
        """Unsupported("erase")."""
        unsupported(self.name, "erase")

    def drop_bank(self, bank: str) -> None:
        """Delete a bank with everything in it."""
        self._link.send("DELETE", self._path(bank), may_be=(404,))

    def status(self, bank: str) -> ProviderStatus:
        """Return whether the server is well, and what the bank holds and waits for."""
        reply = self._link.send("GET", "/health", may_be=(503,), is_open=True)
        health = self._link.decoded(reply)
        told = str(health.get("status", "")) if isinstance(health, dict) else ""
        if reply.status == 503 or told != "healthy":
            return ProviderStatus(
                name=self.name, is_ready=False, detail="its database does not answer"
            )
        status, stats = self._link.json("GET", f"{self._path(bank)}/stats", may_be=(404,))
        if status == 404 or not isinstance(stats, dict):
            return ProviderStatus(name=self.name, is_ready=True, memories=0)
        failed = int(stats.get("failed_operations") or 0)
        queue = self._queue(bank)
        return ProviderStatus(
            name=self.name,
            is_ready=True,
            memories=sum(1 for _ in self.listing(bank)),
            waiting=_texts(queue),
            waiting_since=_oldest(queue),
            detail=f"{failed} failed in its queue" if failed else "",
        )

    def wait(self, bank: str, *, seconds: float) -> bool:
        """Return whether everything handed over is found, waiting at most `seconds` for it."""
        ends, pause = time.monotonic() + seconds, 0.05
        while self._queue(bank):
            if time.monotonic() >= ends:
                return False
            self._sleep(pause)
            pause = min(1.0, 1.5 * pause)
        return True

    def _retain(self, bank: str, items: Sequence[Item], operation: str) -> None:
        body = {
            "items": [self._sent(item) for item in items],
            "async": True,
            "operation_id": operation,
        }
        self._link.json("POST", f"{self._path(bank)}/memories", body)

    def _sent(self, item: Item) -> dict[str, Any]:
        return {
            "content": sendable(item.text),
            "document_id": item.id,
            "timestamp": item.recorded_at,
            "tags": [f"by:{self._origin_of()}", f"kind:{item.kind}"],
            "metadata": {"kind": item.kind, "session": item.session_id, "row": str(item.row)},
            "update_mode": "replace",
        }

    def _operation(self, bank: str, operation: str) -> str:
        path = f"{self._path(bank)}/operations/{operation}"
        status, answer = self._link.json("GET", path, may_be=(404,))
        return "not_found" if status == 404 else str(_table(answer).get("status", ""))

    def _holds(self, bank: str, item: Item) -> bool:
        path = f"{self._path(bank)}/documents/{quoted(item.id)}"
        status, answer = self._link.json("GET", path, may_be=(404,))
        held = _table(answer).get("original_text")
        return status != 404 and held in (None, sendable(item.text))  # None: it keeps no texts

    def _queue(self, bank: str) -> list[dict[str, Any]]:
        """Return the operations that still take texts in."""
        found: list[dict[str, Any]] = []
        for state in _FOUND_LATER:
            path = (
                f"{self._path(bank)}/operations?status={state}&limit={_PAGE}&exclude_parents=true"
            )
            status, answer = self._link.json("GET", path, may_be=(404,))
            for row in [] if status == 404 else _list(answer, "operations"):
                if "retain" in str(row.get("operation_type") or row.get("task_type") or ""):
                    found.append(row)
        return found

    def _path(self, bank: str) -> str:
        return f"/v1/default/banks/{server_name(bank)}"


def _texts(queue: Sequence[dict[str, Any]]) -> int:
    return sum(max(1, int(row.get("items_count") or 0)) for row in queue)


def _oldest(queue: Sequence[dict[str, Any]]) -> str:
    """Return when the oldest was handed over, in our form; "" for an empty queue."""
    times = sorted(str(row.get("created_at") or "")[:19] for row in queue)
    return f"{times[0]}Z" if times and times[0] else ""


def _row(row: dict[str, Any]) -> Row:
    metadata, scores = _table(row.get("metadata")), _table(row.get("scores"))
    return Row(
        id=str(row.get("document_id") or ""),
        text=str(row.get("text") or ""),
        score=float(scores.get("final") or 0.0),
        kind=str(metadata.get("kind") or ""),
        session_id=str(metadata.get("session") or ""),
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(answer: object, key: str) -> list[dict[str, Any]]:
    rows = _table(answer).get(key)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
