"""mem0's REST server, as recorded: scopes, a threshold, `infer`, and no delete by metadata."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.memory_servers.serving import Answer, Asked, Stand, likeness, segments

_ADD = {"messages", "user_id", "agent_id", "run_id", "metadata", "infer"}
_SEARCH = {"query", "filters", "top_k", "threshold"}
_SCOPES = ("user_id", "agent_id", "run_id")


@dataclass
class Mem0(Stand):
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_model_down: bool = False
    sees_no_facts: bool = False

    def answer(self, asked: Asked) -> Answer:
        path = segments(asked.path)
        if path == ["auth", "setup-status"]:
            return 200, {"needsSetup": False}
        if path == ["health"]:
            return 404, {"detail": "Not Found"}
        if self.key and "x-api-key" not in asked.headers:
            return 401, {"detail": "Authentication required. Provide a Bearer token or X-API-Key."}
        if self.key and asked.headers["x-api-key"] != self.key:
            return 401, {"detail": "Invalid API key."}
        match (asked.method, path):
            case ("POST", ["memories"]):
                return self._add(asked.json)
            case ("GET", ["memories"]):
                return self._list(asked)
            case ("DELETE", ["memories"]):
                if not any(scope in asked.query for scope in _SCOPES):
                    return 400, {"detail": "At least one identifier is required."}
                for one in [i for i, row in self.rows.items() if _fits(row, asked.query)]:
                    del self.rows[one]
                return 200, {"message": "All relevant memories deleted"}
            case ("DELETE", ["memories", one]):
                if self.rows.pop(one, None) is None:
                    return 404, {"detail": f"Memory with id {one} not found"}
                return 200, {"message": "Memory deleted successfully"}
            case ("POST", ["search"]):
                return self._search(asked.json)
        self.require(False, "no such path")
        return 404, {"detail": "Not Found"}

    def _add(self, body: Any) -> Answer:
        self.check_keys(body, _ADD, {"messages"})
        if not any(body.get(scope) for scope in _SCOPES):
            return 400, {
                "detail": "At least one identifier (user_id, agent_id, run_id) is required."
            }
        if self.is_model_down:
            return 502, {"detail": "Provider is unreachable.", "code": "provider_unavailable"}
        results = []
        for message in body["messages"]:
            self.check_keys(message, {"role", "content"}, {"role", "content"})
            text = message["content"]
            facts = re.split(r"(?<=[.!?])\s+", text) if body.get("infer", True) else [text]
            if self.sees_no_facts and body.get("infer", True):
                facts = []
            for fact in facts:
                one = str(uuid.uuid4())
                self.rows[one] = {
                    "id": one,
                    "memory": fact,
                    "metadata": body.get("metadata"),
                    "created_at": "2026-11-30T08:01:39+00:00",
                    **{scope: body[scope] for scope in _SCOPES if body.get(scope)},
                }
                results.append({"id": one, "memory": fact, "event": "ADD"})
        return 200, {"results": results}

    def _list(self, asked: Asked) -> Answer:
        self.require(set(asked.query) <= {*_SCOPES, "top_k", "show_expired"}, "unknown query")
        self.require("user_id" in asked.query, "a listing of everybody's")
        rows = [row for row in self.rows.values() if _fits(row, asked.query)]
        return 200, {"results": rows[: min(1000, int(asked.query.get("top_k", 100)))]}

    def _search(self, body: Any) -> Answer:
        self.check_keys(body, _SEARCH, {"query", "filters"})
        filters = body["filters"]
        if not any(scope in filters for scope in _SCOPES):
            return 400, {
                "detail": "filters must contain at least one of: user_id, agent_id, run_id."
            }
        found = []
        for row in self.rows.values():
            held = {**(row["metadata"] or {}), **{s: row.get(s) for s in _SCOPES}}
            score = likeness(body["query"], row["memory"])
            is_in = all(held.get(name) == value for name, value in filters.items())
            if is_in and score >= body.get("threshold", 0.1):
                found.append({**row, "score": score})
        found.sort(key=lambda row: -row["score"])
        return 200, {"results": found[: body.get("top_k", 20)]}


def _fits(row: dict[str, Any], query: dict[str, str]) -> bool:
    return all(row.get(scope) == query[scope] for scope in _SCOPES if scope in query)
