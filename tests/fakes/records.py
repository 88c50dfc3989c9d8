"""What a fake server keeps of each request, and how it is laid on disk."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from tests.fakes.wire import Request

_SECRET = {"authorization", "x-api-key", "cookie", "proxy-authorization"}


@dataclass(slots=True, kw_only=True)
class Record:
    """One request that reached the server, kept before it is answered.

    `number`: from 1 within its run · `status`: of the answer, 0 until one is complete.
    """

    run: str
    number: int
    endpoint: str
    request: Request
    status: int = 0

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.request.plain_body)
        assert isinstance(value, dict)
        return value

    @property
    def messages(self) -> list[dict[str, Any]]:
        found = self.json["messages"]
        assert isinstance(found, list)
        return found


def write_record(folder: str, position: int, keep: Record) -> None:
    """Write a record as three files: facts as JSON (keys left out), head and body as they came."""
    stem = os.path.join(folder, keep.run, f"{position:05d}-{keep.endpoint}")
    os.makedirs(os.path.dirname(stem), exist_ok=True)
    shown = [[k, "(left out)" if k.lower() in _SECRET else v] for k, v in keep.request.headers]
    facts = {
        "number": keep.number,
        "method": keep.request.method,
        "target": keep.request.target,
        "status": keep.status,
        "headers": shown,
    }
    with open(f"{stem}.json", "w", encoding="utf-8") as file:
        json.dump(facts, file, indent=1)
    with open(f"{stem}.head", "wb") as file:
        file.write(keep.request.head)
    with open(f"{stem}.body", "wb") as file:
        file.write(keep.request.body)
