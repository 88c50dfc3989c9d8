"""The adapter for Cognee's HTTP API. Source: recorded from version 1.6.5, 2026-11-30."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

from openmem.memory.providers.base import Ask, Capability, Hit, Item, ProviderStatus, unsupported
from openmem.memory.providers.hits import Row, hits_of, question_of
from openmem.memory.providers.wire import (
    Address,
    KeyRefused,
    Link,
    Transport,
    quoted,
    sendable,
    server_name,
)

_PAGE = 1000
_MARK = re.compile(r"\s*\[openmem (m-[0-9a-f]+|[\w.-]{1,64})\]\s*$")
_INGEST_SECONDS = 120.0


class CogneeProvider:
    """Memories as files of a Cognee dataset. With a `user` in the address, its key is a password:
    the adapter logs in when it is first needed."""

    name = "cognee"
    capabilities: frozenset[Capability] = frozenset(("listing", "drop-bank", "wait"))

    def __init__(
        self,
        address: Address,
        transport: Transport,
        origin_of: Callable[[], str],
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._link = Link(address, transport, headers_of=self._headers, sleep=sleep)
        self._address = address
        self._origin_of = origin_of
        self._sleep = sleep
        self._token = ""

    def close(self) -> None:
        """Close the connections."""
        self._link.close()

    def remember(self, bank: str, items: Sequence[Item]) -> None:
        """Add items as files, then have them taken in together, in the background."""
        if not items:
            return
        old = self._files(bank, {item.id for item in items})
        for item in items:
            kind, body = _form(self._sent(bank, item), _file_of(item))
            seconds = max(self._address.seconds, _INGEST_SECONDS)
            reply = self._link.send("POST", "/api/v1/add", body, kind, seconds=seconds)
            new = _data_ids(self._link.decoded(reply))
            for dataset, data, memory_id in old:
                if memory_id == item.id and data not in new:
                    self._remove(dataset, data)
        body_of = {"datasets": [server_name(bank)], "runInBackground": True}
        self._link.json("POST", "/api/v1/cognify", body_of, seconds=_INGEST_SECONDS)

    def recall(self, bank: str, ask: Ask) -> list[Hit]:
        """Return what fits, by chunks; no model is asked."""
        question = question_of(ask.text)
        if not question:
            return []
        body: dict[str, Any] = {
            "query": question,
            "datasets": [server_name(bank)],
            "searchType": "CHUNKS",
            "topK": 2 * ask.limit + 8,
        }
        if len(ask.kinds) == 1:
            body["nodeName"] = [f"kind:{ask.kinds[0]}"]
        status, answer = self._link.json(
            "POST", "/api/v1/recall", body, seconds=ask.seconds, may_be=(404,)
        )
        rows = answer if isinstance(answer, list) and status != 404 else []
        read = [_row(row) for row in rows if isinstance(row, dict) and not _is_system(row)]
        own = [row for row, by in read if by == self._origin_of()]
        return hits_of(own, ask)

    def forget(self, bank: str, memory_ids: Sequence[str]) -> None:
        """Remove files with their chunks."""
        for dataset, data, _ in self._files(bank, set(memory_ids)):
            self._remove(dataset, data)

    def listing(self, bank: str) -> Iterator[str]:
        """Yield the ids of this installation's files."""
        dataset = self._dataset(bank)
        if dataset:
            for row in self._rows(dataset):
                if _metadata(row).get("by") == self._origin_of():
                    yield _id(row)

    def erase(self, bank: str) -> NoReturn:
        """Unsupported("erase")."""
        unsupported(self.name, "erase")

    def drop_bank(self, bank: str) -> None:
        """Remove a dataset."""
        dataset = self._dataset(bank)
        if dataset:
            self._link.send("DELETE", f"/api/v1/datasets/{quoted(dataset)}", may_be=(403, 404))

    def status(self, bank: str) -> ProviderStatus:
        """Return whether the server is ready, and what the bank holds and waits for."""
        reply = self._link.send("GET", "/health", may_be=(503,), is_open=True)
        if reply.status == 503:
            return ProviderStatus(name=self.name, is_ready=False, detail="it is not ready yet")
        dataset = self._dataset(bank)
        return ProviderStatus(
            name=self.name,
            is_ready=True,
            memories=sum(1 for _ in self.listing(bank)) if dataset else 0,
            waiting=self._waiting(dataset) if dataset else 0,
        )

    def wait(self, bank: str, *, seconds: float) -> bool:
        """Return whether everything handed over is found, waiting at most `seconds` for it."""
        ends, pause = time.monotonic() + seconds, 0.1
        dataset = self._dataset(bank)
        while dataset and self._waiting(dataset):
            if time.monotonic() >= ends:
                return False
            self._sleep(pause)
            pause = min(1.0, 1.5 * pause)
        return True

    def _headers(self) -> Mapping[str, str]:
        if not self._address.key:
            return {}
        if not self._address.user:
            return {"x-api-key": self._address.key}
        if not self._token:
            self._token = self._logged_in()
        return {"authorization": f"Bearer {self._token}"}

    def _logged_in(self) -> str:
        form = {"username": self._address.user, "password": self._address.key}
        reply = self._link.send(
            "POST",
            "/api/v1/auth/login",
            urlencode(form).encode(),
            "application/x-www-form-urlencoded",
            is_open=True,
        )
        answer = self._link.decoded(reply)
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise KeyRefused(f"provider cognee at {self._address.url} gave no token at its login.")
        return token

    def _sent(self, bank: str, item: Item) -> list[tuple[str, str]]:
        origin = self._origin_of()
        metadata = {
            "document_id": item.id,
            "by": origin,
            "kind": item.kind,
            "session": item.session_id,
            "timestamp": item.recorded_at,
        }
        return [
            ("datasetName", server_name(bank)),
            ("labels", json.dumps([item.id])),
            ("external_metadata", json.dumps([metadata])),
            ("node_set", f"kind:{item.kind}"),
        ]

    def _dataset(self, bank: str) -> str:
        """Return the server's id of a bank, "" when it has none."""
        answer = self._link.json("GET", "/api/v1/datasets")[1]
        for row in answer if isinstance(answer, list) else ():
            if isinstance(row, dict) and row.get("name") == server_name(bank):
                return str(row.get("id") or "")
        return ""

    def _rows(self, dataset: str) -> Iterator[dict[str, Any]]:
        place = 0
        while True:
            path = f"/api/v1/datasets/{quoted(dataset)}/data?limit={_PAGE}&offset={place}"
            status, answer = self._link.json("GET", path, may_be=(404,))
            rows = answer if isinstance(answer, list) and status != 404 else []
            yield from (row for row in rows if isinstance(row, dict))
            place += len(rows)
            if len(rows) < _PAGE:
                return

    def _files(self, bank: str, ids: set[str]) -> list[tuple[str, str, str]]:
        """Return (dataset, file, memory id) of these memories; labels cannot be asked for."""
        dataset = self._dataset(bank)
        if not dataset:
            return []
        return [
            (dataset, str(row.get("id", "")), _id(row))
            for row in self._rows(dataset)
            if _id(row) in ids
        ]

    def _remove(self, dataset: str, data: str) -> None:
        path = f"/api/v1/datasets/{quoted(dataset)}/data/{quoted(data)}"
        self._link.send("DELETE", path, may_be=(404,))

    def _waiting(self, dataset: str) -> int:
        path = f"/api/v1/datasets/{quoted(dataset)}/processing-status"
        answer = self._link.json("GET", path)[1]
        return int(answer.get("pending") or 0) if isinstance(answer, dict) else 0


def _file_of(item: Item) -> tuple[str, bytes]:
    """Return name and bytes of a memory's file.

    The name follows from the text: another text under a name that is there is refused (409, seen
    with 1.6.5), and an update gives a file a new id in any case.
    """
    data = f"{sendable(item.text)}\n\n[openmem {item.id}]\n".encode()
    return f"{item.id}.{hashlib.sha256(data).hexdigest()[:12]}.txt", data


def _form(fields: Sequence[tuple[str, str]], file: tuple[str, bytes]) -> tuple[str, bytes]:
    """Return content type and bytes of a multipart form with one file part, `data`."""
    border = f"openmem-{secrets.token_hex(16)}"
    parts: list[bytes] = []
    for name, value in fields:
        head = f'--{border}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'
        parts.append(head.encode() + value.encode() + b"\r\n")
    head = (
        f'--{border}\r\ncontent-disposition: form-data; name="data"; filename="{file[0]}"\r\n'
        "content-type: text/plain\r\n\r\n"
    )
    parts.append(head.encode() + file[1] + f"\r\n--{border}--\r\n".encode())
    return f"multipart/form-data; boundary={border}", b"".join(parts)


def _data_ids(answer: object) -> set[str]:
    rows = answer.get("data_ingestion_info") if isinstance(answer, dict) else None
    found = rows if isinstance(rows, list) else []
    return {str(row.get("data_id", "")) for row in found if isinstance(row, dict)}


def _is_system(row: dict[str, Any]) -> bool:
    return row.get("source") == "system"


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    """Return what we gave with a file; in a chunk it is a text of JSON."""
    value = row.get("externalMetadata", row.get("external_metadata"))
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _id(row: dict[str, Any]) -> str:
    return str(_metadata(row).get("document_id") or row.get("label") or "")


def _row(row: dict[str, Any]) -> tuple[Row, str]:
    """Return a chunk as a row, and which installation it is of."""
    raw = row.get("raw")
    metadata = _metadata(raw) if isinstance(raw, dict) else {}
    text = str(row.get("text") or "")
    ends = _MARK.search(text)
    found = Row(
        id=str(metadata.get("document_id") or (ends[1] if ends else "")),
        text=_MARK.sub("", text),
        # What it calls a score is a distance: 0 is the same, 2 the opposite (seen with 1.6.5).
        score=1.0 - float(row.get("score") or 0.0) / 2,
        kind=str(metadata.get("kind") or ""),
        session_id=str(metadata.get("session") or ""),
    )
    return found, str(metadata.get("by") or "")
