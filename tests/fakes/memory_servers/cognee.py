"""Cognee 1.6.5, as recorded: datasets of files, taken in by `cognify`, found as chunks."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qs

from tests.fakes.memory_servers.serving import Answer, Asked, Stand, likeness, segments

_FIELDS = {"datasetName", "labels", "external_metadata", "node_set"}
_RECALL = {"query", "datasets", "searchType", "topK", "nodeName"}
_NAMESPACE = uuid.UUID(int=7)


@dataclass
class Dataset:
    id: str
    files: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Cognee(Stand):
    """`user`: who may log in with `key` as the password, "" when `key` is one of the API.

    `is_held`: what was added is not taken in until `work_off`.
    """

    user: str = ""
    datasets: dict[str, Dataset] = field(default_factory=dict)
    is_held: bool = False

    def answer(self, asked: Asked) -> Answer:
        path = segments(asked.path)
        if path == ["health"]:
            return 200, {"status": "ready", "health": "healthy", "version": "1.6.5"}
        if path == ["api", "v1", "auth", "login"]:
            form = {k: v[0] for k, v in parse_qs(asked.body.decode()).items()}
            if form != {"username": self.user, "password": self.key}:
                return 400, {"detail": "LOGIN_BAD_CREDENTIALS"}
            return 200, {"access_token": "token-1", "token_type": "bearer"}
        if self.key and not self._is_let_in(asked):
            return 401, {"detail": "Authentication required (auth posture: default)."}
        self.require(path[:2] == ["api", "v1"], "no such path")
        match (asked.method, path[2:]):
            case ("POST", ["add"]):
                return self._add(asked)
            case ("POST", ["cognify"]):
                return self._cognify(asked.json)
            case ("POST", ["recall"]):
                return self._recall(asked.json)
            case ("GET", ["datasets"]):
                return 200, [{"id": d.id, "name": name} for name, d in self.datasets.items()]
            case ("DELETE", ["datasets", one]):
                name = self._name(one)
                if name is None:
                    return 403, {"detail": "Request owner does not have necessary permission."}
                del self.datasets[name]
                return 200, None
            case ("GET", ["datasets", one, "data"]):
                self.require(set(asked.query) <= {"limit", "offset"}, "unknown query")
                start, size = int(asked.query["offset"]), int(asked.query["limit"])
                self.require(size <= 1000, "limit above 1000")
                rows = [_shown(row) for row in self._dataset(one).files.values()]
                return 200, rows[start : start + size]
            case ("DELETE", ["datasets", one, "data", data]):
                self._dataset(one).files.pop(data, None)
                return 200, None
            case ("GET", ["datasets", one, "processing-status"]):
                files = self._dataset(one).files.values()
                done = sum(1 for row in files if row["is_done"])
                return 200, {"total": len(files), "completed": done, "pending": len(files) - done}
        self.require(False, "no such path")
        return 404, {"detail": "Not Found"}

    def work_off(self) -> None:
        """Take in what waits."""
        for dataset in self.datasets.values():
            for row in dataset.files.values():
                row["is_done"] = True

    def _is_let_in(self, asked: Asked) -> bool:
        if self.user:
            return asked.headers.get("authorization") == "Bearer token-1"
        return asked.headers.get("x-api-key") == self.key

    def _name(self, one: str) -> str | None:
        return next((name for name, d in self.datasets.items() if d.id == one), None)

    def _dataset(self, one: str) -> Dataset:
        name = self._name(one)
        self.require(name is not None, "a dataset that is not there")
        assert name is not None
        return self.datasets[name]

    def _add(self, asked: Asked) -> Answer:
        kind = asked.headers["content-type"]
        message = message_from_bytes(f"content-type: {kind}\r\n\r\n".encode() + asked.body)
        form: dict[str, str] = {}
        files: list[tuple[str, str]] = []
        for part in message.walk():
            if part.is_multipart():
                continue
            name = str(part.get_param("name", header="content-disposition"))
            text = bytes(part.get_payload(decode=True) or b"").decode()
            if part.get_filename():
                self.require(name == "data", f"a file named {name}")
                files.append((str(part.get_filename()), text))
            else:
                form[name] = text
        self.require("raw_data" not in form, "raw_data may be opened as a path")
        self.check_keys(form, _FIELDS, {"datasetName"})
        self.require(len(files) == 1, f"{len(files)} files")
        dataset = self.datasets.setdefault(
            form["datasetName"], Dataset(str(uuid.uuid5(_NAMESPACE, form["datasetName"])))
        )
        text = files[0][1]
        data = str(uuid.uuid5(_NAMESPACE, dataset.id + hashlib.sha256(text.encode()).hexdigest()))
        is_known = data in dataset.files
        if not is_known and any(row["name"] == files[0][0] for row in dataset.files.values()):
            return 409, {"error": "Document already exists; use the update endpoint"}
        dataset.files[data] = {
            "id": data,
            "name": files[0][0],
            "text": text,
            "label": json.loads(form["labels"])[0],
            "externalMetadata": json.loads(form["external_metadata"])[0],
            "node_set": form["node_set"],
            "is_done": is_known and dataset.files[data]["is_done"],
        }
        run = {"status": "PipelineRunCompleted", "dataset_id": dataset.id}
        return 200, {**run, "data_ingestion_info": [{"run_info": run, "data_id": data}]}

    def _cognify(self, body: Any) -> Answer:
        self.check_keys(body, {"datasets", "runInBackground"}, {"datasets"})
        for name in body["datasets"]:
            self.require(name in self.datasets, f"no dataset {name}")
        if not self.is_held:
            self.work_off()
        ids = [self.datasets[name].id for name in body["datasets"]]
        return 200, {one: {"status": "PipelineRunStarted", "dataset_id": one} for one in ids}

    def _recall(self, body: Any) -> Answer:
        self.check_keys(body, _RECALL, {"query", "datasets", "searchType"})
        self.require(body["searchType"] == "CHUNKS", "an answer made up by a model")
        self.require(body["query"].strip() != "", "an empty question")
        name = body["datasets"][0]
        if name not in self.datasets:
            return 404, {"detail": f"Dataset(s) not found: '{name}'. [DatasetNotFoundError]"}
        dataset = self.datasets[name]
        done = [row for row in dataset.files.values() if row["is_done"]]
        if not done:
            return 200, [{"source": "system", "status": "memory_warming_up", "text": "Warming up"}]
        rows = []
        for row in done:
            text = re.sub(r"\s*\[openmem [^\]]*\]\s*$", "", row["text"])
            score = likeness(body["query"], text)
            if body.get("nodeName") and row["node_set"] not in body["nodeName"]:
                continue
            if score > 0:
                rows.append(
                    {
                        "kind": "chunk",
                        "text": row["text"],
                        "score": 1.0 - score,  # a distance, whatever its name
                        "dataset_name": name,
                        "metadata": {"data_id": row["id"], "document_name": row["label"]},
                        "raw": {"external_metadata": json.dumps(row["externalMetadata"])},
                        "source": "graph",
                    }
                )
        rows.sort(key=lambda row: float(row["score"]))
        return 200, rows[: body.get("topK", 15)]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("id", "label", "externalMetadata")}
