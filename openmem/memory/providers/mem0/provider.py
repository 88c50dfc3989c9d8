"""The adapter for mem0's REST server. Source: recorded from its library 2.2.1, 2026-11-30."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

from openmem.memory.providers.base import Ask, Capability, Hit, Item, ProviderStatus, unsupported
from openmem.memory.providers.hits import Row, hits_of, question_of
from openmem.memory.providers.wire import Address, Link, Transport, quoted, sendable, server_name

_MOST = 1000  # rows that one listing holds; there is no second page
_MODEL_SECONDS = 120.0


class Mem0Provider:
    """Memories of a bank as those of one user. `infer`: its model draws facts out of a text."""

    name = "mem0"
    capabilities: frozenset[Capability] = frozenset(("drop-bank",))

    def __init__(
        self,
        address: Address,
        transport: Transport,
        origin_of: Callable[[], str],
        *,
        infer: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"x-api-key": address.key} if address.key else {}
        self._link = Link(address, transport, headers_of=lambda: headers, sleep=sleep)
        self._origin_of = origin_of
        self._infer = infer

    def close(self) -> None:
        """Close the connections."""
        self._link.close()

    def remember(self, bank: str, items: Sequence[Item]) -> None:
        """Add items one by one; what stood under an id before goes once the new text is there."""
        seconds = max(self._link.address.seconds, _MODEL_SECONDS) if self._infer else 0.0
        for item in items:
            old = self._rows_of(bank, item.id)
            body = self._sent(bank, item)
            answer = self._link.json("POST", "/memories", body, seconds=seconds)[1]
            if self._infer and not _results(answer):
                # Its model saw no fact in the text; what was remembered is kept all the same.
                self._link.json("POST", "/memories", {**body, "infer": False})
            for row in old:
                self._remove(row)

    def recall(self, bank: str, ask: Ask) -> list[Hit]:
        """Return what fits, by the server's own threshold."""
        question = question_of(ask.text)
        if not question:
            return []
        filters: dict[str, Any] = {"user_id": server_name(bank), "by": self._origin_of()}
        if len(ask.kinds) == 1:
            filters["kind"] = ask.kinds[0]
        body = {"query": question, "filters": filters, "top_k": min(_MOST, 2 * ask.limit + 8)}
        answer = self._link.json("POST", "/search", body, seconds=ask.seconds)[1]
        return hits_of([_row(row) for row in _results(answer)], ask)

    def forget(self, bank: str, memory_ids: Sequence[str]) -> None:
        """Remove everything that was drawn from these memories, each by its own id."""
        for memory_id in dict.fromkeys(memory_ids):
            for row in self._rows_of(bank, memory_id):
                self._remove(row)

    def listing(self, bank: str) -> NoReturn:
        """Unsupported("listing"): the server names a thousand rows at most, without pages."""
        unsupported(self.name, "listing")

    def erase(self, bank: str) -> NoReturn:
        """Unsupported("erase")."""
        unsupported(self.name, "erase")

    def drop_bank(self, bank: str) -> None:
        """Remove all of a bank."""
        query = urlencode({"user_id": server_name(bank)})
        self._link.send("DELETE", f"/memories?{query}", may_be=(404,))

    def status(self, bank: str) -> ProviderStatus:
        """Return whether the server answers with this key, and how much the bank holds.

        `memories` is -1 beyond what the server lists.
        """
        self._link.send("GET", "/auth/setup-status", is_open=True)
        rows = self._rows_of(bank)
        ids = {_id(row) for row in rows if _by(row) == self._origin_of()}
        detail = "its model draws facts out" if self._infer else "texts are kept as they are"
        return ProviderStatus(
            name=self.name,
            is_ready=True,
            memories=len(ids - {""}) if len(rows) < _MOST else -1,
            detail=detail,
        )

    def set_dimensions(self, dimensions: int) -> None:
        """Tell the server how many numbers its embeddings have; kept in its database.

        Both at once: the embedder alone makes every add fail afterwards (recorded).
        """
        store = {"embedding_model_dims": dimensions, "collection_name": f"memories_{dimensions}"}
        body = {
            "embedder": {"config": {"embedding_dims": dimensions}},
            "vector_store": {"config": store},
        }
        self._link.json("POST", "/configure", body)

    def _sent(self, bank: str, item: Item) -> dict[str, Any]:
        return {
            "messages": [{"role": "user", "content": sendable(item.text)}],
            "user_id": server_name(bank),
            "run_id": item.id,
            "infer": self._infer,
            "metadata": {
                "document_id": item.id,
                "by": self._origin_of(),
                "kind": item.kind,
                "session": item.session_id,
                "timestamp": item.recorded_at,
            },
        }

    def _rows_of(self, bank: str, memory_id: str = "") -> list[dict[str, Any]]:
        """Return the rows of a memory, or of the whole bank."""
        query = {"user_id": server_name(bank), "top_k": str(_MOST)}
        if memory_id:
            query["run_id"] = memory_id
        rows = _results(self._link.json("GET", f"/memories?{urlencode(query)}")[1])
        # A filter that a server does not know is ignored there, and must not remove others' rows.
        return [row for row in rows if not memory_id or _id(row) == memory_id]

    def _remove(self, row: dict[str, Any]) -> None:
        path = f"/memories/{quoted(str(row.get('id', '')))}"
        self._link.send("DELETE", path, may_be=(404,))


def _id(row: dict[str, Any]) -> str:
    return str(row.get("run_id") or _metadata(row).get("document_id") or "")


def _by(row: dict[str, Any]) -> str:
    return str(_metadata(row).get("by") or "")


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    metadata = row.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _row(row: dict[str, Any]) -> Row:
    metadata = _metadata(row)
    return Row(
        id=_id(row),
        text=str(row.get("memory") or ""),
        score=float(row.get("score") or 0.0),
        kind=str(metadata.get("kind") or ""),
        session_id=str(metadata.get("session") or ""),
    )


def _results(answer: object) -> list[dict[str, Any]]:
    rows = answer.get("results") if isinstance(answer, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
