"""The stand-ins answer as the real servers were recorded to: same status, same keys.

The recordings stand beside the checkout, as facts do; they are not part of it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.fakes.memory_servers.cognee import Cognee
from tests.fakes.memory_servers.hindsight import Hindsight
from tests.fakes.memory_servers.mem0 import Mem0
from tests.fakes.memory_servers.serving import Asked, Stand

_BESIDE = Path(__file__).resolve().parents[3] / "shared/captures/providers"
_IS_ID = re.compile(r"[0-9a-f-]{36}")
needs_recordings = pytest.mark.skipif(
    not _BESIDE.is_dir(), reason="the recordings are not beside this checkout (2026-11-30)"
)
_RETAIN = {
    "content": "Bob prefers tabs.",
    "document_id": "doc-arch",
    "timestamp": "2026-11-30T00:00:00Z",
    "tags": ["by:x", "kind:statement"],
    "metadata": {"kind": "statement"},
    "update_mode": "replace",
}


def recorded(name: str) -> dict[str, Any]:
    value = json.loads((_BESIDE / f"{name}.json").read_text())
    assert isinstance(value, dict)
    return value


def asked(method: str, path: str, body: object = None, kind: str = "", raw: bytes = b"") -> Asked:
    parts = urlsplit(path)
    query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
    data = raw or (b"" if body is None else json.dumps(body).encode())
    headers = {"content-type": kind or "application/json"}
    return Asked(method=method, path=parts.path, query=query, headers=headers, body=data)


def check(stand: Stand, request: Asked, name: str, at: tuple[str | int, ...] = ()) -> None:
    """Compare status, and the keys at a place: every key we give was recorded there."""
    status, body = stand.answer(request)
    there = recorded(name)["response"]
    assert status == there["status"], name
    ours, real = body, there["body"]
    for key in at:
        ours, real = ours[key], real[key]
    if isinstance(ours, dict) and isinstance(real, dict):
        named = {key for key in ours if not _IS_ID.fullmatch(key)}
        assert named <= set(real), (name, sorted(named - set(real)))
    assert type(ours) is type(real), name


@needs_recordings
def test_hindsight_answers_as_recorded() -> None:
    """Issue 6: replayed by a strict fake server."""
    stand, bank = Hindsight(), "/v1/default/banks/lab-bank"
    recall = {
        "query": "what does bob prefer",
        "budget": "low",
        "types": ["world"],
        "tags": [],
        "tags_match": "all_strict",
        "max_tokens": 1024,
    }
    check(stand, asked("GET", "/health"), "hindsight/01-health")
    check(
        stand,
        asked("POST", f"{bank}/memories/recall", recall),
        "hindsight/05-recall-before-bank-exists",
    )
    one = "b8bf9e99-9f98-4ef3-9f3e-123a6d6a4468"
    check(stand, asked("GET", f"{bank}/operations/{one}"), "hindsight/77-operation-missing")
    stand.is_held = True
    body = {"items": [_RETAIN], "async": True, "operation_id": one}
    check(stand, asked("POST", f"{bank}/memories", body), "hindsight/11-retain-async")
    check(
        stand,
        asked("POST", f"{bank}/memories", body),
        "hindsight/34-retain-idempotent-operation-id-again",
    )
    pending = asked("GET", f"{bank}/operations?status=pending&limit=100")
    check(stand, pending, "hindsight/12-operations-pending")
    check(stand, pending, "hindsight/12-operations-pending", ("operations", 0))
    stand.work_off()
    check(
        stand,
        asked("POST", f"{bank}/memories/recall", recall),
        "hindsight/15-recall",
        ("results", 0),
    )
    check(stand, asked("GET", f"{bank}/stats"), "hindsight/22-stats")
    check(stand, asked("GET", f"{bank}/documents?limit=9&offset=0"), "hindsight/18-list-documents")
    check(stand, asked("DELETE", f"{bank}/documents/doc-arch"), "hindsight/81-del-document-da")
    check(
        stand, asked("DELETE", f"{bank}/documents/doc-arch"), "hindsight/49-document-delete-missing"
    )
    check(stand, asked("DELETE", bank), "hindsight/53-bank-delete")
    check(stand, asked("DELETE", bank), "hindsight/54-bank-delete-again")
    stand.key = "k"
    check(stand, asked("GET", f"{bank}/stats"), "hindsight/61-auth-missing")
    check(stand, asked("GET", "/health"), "hindsight/65-health-open-with-auth-on")


@needs_recordings
def test_mem0_answers_as_recorded() -> None:
    """Issue 6: replayed by a strict fake server."""
    stand = Mem0()
    add = {
        "messages": [{"role": "user", "content": "Retries are capped at five."}],
        "user_id": "proj-falcon",
        "infer": False,
        "metadata": {"document_id": "doc-retries"},
    }
    check(stand, asked("GET", "/auth/setup-status"), "mem0/02-setup-status")
    check(stand, asked("GET", "/health"), "mem0/03-no-health-endpoint")
    check(stand, asked("POST", "/memories", add), "mem0/11-add-infer-false", ("results", 0))
    check(stand, asked("POST", "/memories", add), "mem0/12-add-infer-false-duplicate")
    assert len(stand.rows) == 2, "the same text twice is there twice, as recorded"
    filters: dict[str, Any] = {"user_id": "proj-falcon", "document_id": "doc-retries"}
    search = {"query": "retries", "filters": filters, "threshold": 0.0}
    check(stand, asked("POST", "/search", search), "mem0/19-search-metadata-filter", ("results", 0))
    no_scope = {"query": "retries", "filters": {"AND": [filters]}}
    check(stand, asked("POST", "/search", no_scope), "mem0/20-search-filters-AND")
    listing = asked("GET", "/memories?user_id=proj-falcon&top_k=50")
    check(stand, listing, "mem0/24-list-user", ("results", 1))
    one = next(iter(stand.rows))
    check(stand, asked("DELETE", f"/memories/{one}"), "mem0/34-delete")
    check(stand, asked("DELETE", f"/memories/{one}"), "mem0/35-delete-again")
    by_document = asked("DELETE", "/memories?document_id=doc-arch")
    check(stand, by_document, "mem0/37-delete-by-metadata-not-supported")
    check(stand, asked("DELETE", "/memories?user_id=proj-falcon"), "mem0/38-delete-all-user")
    check(stand, asked("GET", "/memories?user_id=proj-falcon"), "mem0/39-list-after-delete-all")
    del add["user_id"]
    check(stand, asked("POST", "/memories", add), "mem0/14-add-no-identifier")
    stand.is_model_down = True
    add["user_id"] = "u"
    check(stand, asked("POST", "/memories", add), "mem0/62-add-llm-and-embedder-down")
    stand.key = "k"
    check(stand, listing, "mem0/05-auth-missing")


@needs_recordings
def test_cognee_answers_as_recorded() -> None:
    """Issue 6: replayed by a strict fake server."""
    stand = Cognee()
    recall = {"query": "which database", "datasets": ["proj-falcon"], "searchType": "CHUNKS"}
    check(stand, asked("GET", "/health"), "cognee/62-auth-health-open")
    check(stand, asked("POST", "/api/v1/recall", recall), "cognee/23-recall-unknown-dataset")
    add = recorded("cognee/08-add-text-file")["request"]
    lines = [
        f'--b\r\ncontent-disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in add["form"]
    ]
    file = add["files"][0]
    lines.append(
        f'--b\r\ncontent-disposition: form-data; name="data"; filename="{file["filename"]}"\r\n'
        f"content-type: text/plain\r\n\r\n{file['text']}\r\n--b--\r\n"
    )
    request = asked(
        "POST", "/api/v1/add", kind="multipart/form-data; boundary=b", raw="".join(lines).encode()
    )
    check(stand, request, "cognee/08-add-text-file")
    check(stand, request, "cognee/08-add-text-file", ("data_ingestion_info", 0))
    stand.is_held = True
    check(stand, asked("POST", "/api/v1/recall", recall), "cognee/07-recall-empty-dataset", (0,))
    stand.is_held = False
    cognify = {"datasets": ["proj-falcon"], "runInBackground": False}
    check(stand, asked("POST", "/api/v1/cognify", cognify), "cognee/09-cognify", ())
    recall["query"] = "which database does Falcon use"
    check(stand, asked("POST", "/api/v1/recall", recall), "cognee/21-recall-chunks", (0,))
    check(stand, asked("POST", "/api/v1/recall", recall), "cognee/21-recall-chunks", (0, "raw"))
    (dataset,) = stand.datasets.values()
    base = f"/api/v1/datasets/{dataset.id}"
    check(stand, asked("GET", f"{base}/data?limit=9&offset=0"), "cognee/11-dataset-data", (0,))
    check(stand, asked("GET", f"{base}/processing-status"), "cognee/26-processing-status")
    data = next(iter(dataset.files))
    check(stand, asked("DELETE", f"{base}/data/{data}"), "cognee/37-delete-data-item")
    check(stand, asked("DELETE", f"{base}/data/{data}"), "cognee/38-delete-data-item-again")
    check(stand, asked("DELETE", base), "cognee/42-delete-dataset")
    check(stand, asked("DELETE", base), "cognee/43-delete-dataset-again")
    check(stand, asked("GET", "/api/v1/datasets"), "cognee/44-datasets-after")
    stand.key, stand.user = "k", "u"
    check(stand, asked("GET", "/api/v1/datasets"), "cognee/61-auth-default-missing")
    wrong = asked("POST", "/api/v1/auth/login", raw=b"username=u&password=nope")
    check(stand, wrong, "cognee/63-auth-login-wrong")
