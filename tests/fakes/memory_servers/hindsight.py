"""Hindsight 1.1.0, as recorded: documents, facts, operations that are worked off or held."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.fakes.memory_servers.serving import Answer, Asked, Stand, likeness, segments

_ITEM = {"content", "document_id", "timestamp", "tags", "metadata", "update_mode"}
_RECALL = {"query", "budget", "max_tokens", "types", "tags", "tags_match", "include"}
_NOT_FOUND = {"operation_type": None, "error_message": None}


@dataclass
class Bank:
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Hindsight(Stand):
    """`is_held`: operations stay pending until `work_off`; `fails`: they end as failed;
    `held_since`: when they say that they were handed over, "" for now."""

    banks: dict[str, Bank] = field(default_factory=dict)
    is_held: bool = False
    fails: bool = False
    held_since: str = ""

    def answer(self, asked: Asked) -> Answer:
        path = segments(asked.path)
        if path == ["health"]:
            return 200, {"status": "healthy", "database": "connected", "db_pool_max": 100}
        if path == ["version"]:
            return 200, {"api_version": "1.1.0", "features": {"observations": True}}
        if self.key and asked.headers.get("authorization") != f"Bearer {self.key}":
            return 401, {"detail": "Authentication failed: Invalid API key"}
        self.require(path[:3] == ["v1", "default", "banks"], "no such path")
        return self._bank(asked, path[3], path[4:])

    def work_off(self) -> None:
        """Do what waits."""
        for bank in self.banks.values():
            for operation in bank.operations.values():
                if operation["status"] == "pending":
                    self._do(bank, operation)

    def _bank(self, asked: Asked, name: str, rest: list[str]) -> Answer:
        bank = self.banks.get(name)
        match (asked.method, rest):
            case ("DELETE", []):
                gone = self.banks.pop(name, Bank())
                return 200, {"success": True, "deleted_count": len(gone.documents)}
            case ("POST", ["memories"]):
                return self._retain(asked.json, name, self.banks.setdefault(name, Bank()))
            case ("GET", ["operations", one]):
                found = bank.operations.get(one) if bank else None
                missing = {"operation_id": one, "id": one, "status": "not_found", **_NOT_FOUND}
                return 200, found or missing
            case ("GET", ["operations"]):
                return self._operations(asked, name, bank or Bank())
        if bank is None:
            return 404, {"detail": f"Bank '{name}' not found"}
        match (asked.method, rest):
            case ("POST", ["memories", "recall"]):
                return self._recall(asked.json, bank)
            case ("GET", ["documents"]):
                return self._documents(asked, bank)
            case ("GET", ["documents", one]) if one in bank.documents:
                return 200, {**bank.documents[one], "original_text": bank.documents[one]["text"]}
            case ("DELETE", ["documents", one]) if one in bank.documents:
                units = len(self._facts(bank.documents.pop(one)))
                return 200, {"success": True, "document_id": one, "memory_units_deleted": units}
            case ("GET" | "DELETE", ["documents", _]):
                return 404, {"detail": "Document not found"}
            case ("GET", ["stats"]):
                states = [o["status"] for o in bank.operations.values()]
                return 200, {
                    "total_documents": len(bank.documents),
                    "pending_operations": states.count("pending"),
                    "failed_operations": states.count("failed"),
                }
        self.require(False, "no such path")
        return 405, {"detail": "Method Not Allowed"}

    def _retain(self, body: Any, name: str, bank: Bank) -> Answer:
        self.check_keys(body, {"items", "async", "operation_id"}, {"items"})
        self.require(bool(body["items"]), "nothing to take in")
        for item in body["items"]:
            self.check_keys(item, _ITEM, {"content", "document_id"})
            self.require(all(isinstance(v, str) for v in item["metadata"].values()), "metadata")
        one = body.get("operation_id") or str(uuid.uuid4())
        if one not in bank.operations:
            bank.operations[one] = {
                "operation_id": one,
                "id": one,
                "status": "pending",
                "task_type": "retain",
                "operation_type": "retain",
                "items_count": len(body["items"]),
                "error_message": None,
                "created_at": datetime.now(UTC).isoformat(),
                "_items": body["items"],
            }
            if not self.is_held:
                self._do(bank, bank.operations[one])
        answer = {"success": True, "bank_id": name, "items_count": len(body["items"])}
        return 200, {**answer, "async": True, "operation_id": one, "usage": None}

    def _do(self, bank: Bank, operation: dict[str, Any]) -> None:
        operation["status"] = "failed" if self.fails else "completed"
        for item in [] if self.fails else operation["_items"]:
            bank.documents[item["document_id"]] = {
                "id": item["document_id"],
                "text": item["content"],
                "tags": item["tags"],
                "document_metadata": item["metadata"],
                "timestamp": item["timestamp"],
            }

    def _operations(self, asked: Asked, name: str, bank: Bank) -> Answer:
        known = {"status", "limit", "offset", "exclude_parents"}
        self.require(set(asked.query) <= known, f"unknown query {asked.query}")
        self.require(int(asked.query.get("limit", 20)) <= 100, "limit above 100")
        rows = [o for o in bank.operations.values() if o["status"] == asked.query["status"]]
        shown = [{k: v for k, v in row.items() if k != "_items"} for row in rows]
        for row in shown if self.held_since else ():
            row["created_at"] = self.held_since
        return 200, {"bank_id": name, "total": len(rows), "operations": shown[:100]}

    def _documents(self, asked: Asked, bank: Bank) -> Answer:
        self.require(set(asked.query) <= {"limit", "offset", "tags", "tags_match"}, "query")
        tag = asked.query.get("tags", "")
        rows = [d for d in bank.documents.values() if not tag or tag in d["tags"]]
        start, size = int(asked.query["offset"]), int(asked.query["limit"])
        return 200, {"items": rows[start : start + size], "total": len(rows)}

    def _recall(self, body: Any, bank: Bank) -> Answer:
        self.check_keys(body, _RECALL, {"query"})
        self.require(body["budget"] in ("low", "mid", "high"), "budget")
        self.require(body["query"].strip() != "", "an empty question")
        self.require(set(body["types"]) <= {"world", "experience", "observation"}, "types")
        rows: list[dict[str, Any]] = []
        for document in bank.documents.values():
            if not set(body.get("tags", ())) <= set(document["tags"]):
                continue
            for fact in self._facts(document):
                score = likeness(body["query"], fact)
                if score > 0:
                    rows.append(
                        {
                            "id": str(uuid.uuid4()),
                            "text": fact,
                            "type": "world",
                            "document_id": document["id"],
                            "metadata": document["document_metadata"],
                            "tags": document["tags"],
                            "scores": {"final": score, "semantic": None, "keyword": 0.3},
                        }
                    )
        rows.sort(key=lambda row: -row["scores"]["final"])
        return 200, {"results": rows, "trace": None, "chunks": None}

    def _facts(self, document: dict[str, Any]) -> list[str]:
        """Return one fact for each sentence, as its mock model does."""
        return [s for s in re.split(r"(?<=[.!?])\s+", document["text"]) if s]
