"""mem0's REST surface over its real library: run by that library's own interpreter.

`python mem0_over_library.py PORT FOLDER MODEL_ADDRESS KEY`. Idea: mem0's server is in no registry,
its library is; the server adds routes, a key and error codes, which are played here as they were
recorded, and everything that stores, searches and removes is the library's own, with its own
vector store on disk. It must import nothing of ours: it runs in another environment.
"""

from __future__ import annotations

import hmac
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

os.environ.update({"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "x", "POSTHOG_DISABLED": "1"})
PORT, FOLDER, MODEL, KEY = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
os.environ["MEM0_DIR"] = f"{FOLDER}/mem0"
SCOPES = ("user_id", "agent_id", "run_id")
LOCK = threading.Lock()  # the vector store on disk takes one at a time


def made(dimensions: int, collection: str) -> Any:
    """Return a Memory of the library."""
    from mem0 import Memory  # type: ignore[import-not-found,unused-ignore]

    api = {"api_key": "x", "openai_base_url": MODEL}
    store = {
        "path": f"{FOLDER}/vectors-{collection}",
        "collection_name": collection,
        "embedding_model_dims": dimensions,
        "on_disk": True,
    }
    embedder = {**api, "model": "text-embedding-3-small", "embedding_dims": dimensions}
    return Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "llm": {"provider": "openai", "config": {**api, "model": "gpt-4o-mini"}},
            "embedder": {"provider": "openai", "config": embedder},
            "history_db_path": f"{FOLDER}/history.db",
        }
    )


MEMORY = [made(int(os.environ.get("DIMENSIONS", "384")), "memories")]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        parts = urlsplit(self.path)
        query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
        path = [unquote(part) for part in parts.path.split("/") if part]
        try:
            with LOCK:
                status, answer = self._answer(path, query, body)
        except ValueError as error:
            status, answer = (404 if "not found" in str(error) else 400), {"detail": str(error)}
        except Exception as error:
            status = 502
            answer = {"detail": "Upstream provider error", "code": type(error).__name__}
        data = json.dumps(answer, default=str).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _do

    def _answer(self, path: list[str], query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path == ["auth", "setup-status"]:
            return 200, {"needsSetup": False}
        given = self.headers.get("x-api-key")
        if given is None:
            return 401, {"detail": "Authentication required. Provide a Bearer token or X-API-Key."}
        if not hmac.compare_digest(given.encode(), KEY.encode()):
            return 401, {"detail": "Invalid API key."}
        memory = MEMORY[0]
        scope = {name: query[name] for name in SCOPES if name in query}
        match (self.command, path):
            case ("POST", ["memories"]):
                messages = body.pop("messages")
                if not any(body.get(name) for name in SCOPES):
                    return 400, {"detail": "At least one identifier is required."}
                return 200, memory.add(messages, **body)
            case ("GET", ["memories"]):
                return 200, memory.get_all(filters=scope, top_k=int(query.get("top_k", 100)))
            case ("DELETE", ["memories"]):
                memory.delete_all(**scope)
                return 200, {"message": "All relevant memories deleted"}
            case ("DELETE", ["memories", one]):
                memory.delete(one)
                return 200, {"message": "Memory deleted successfully"}
            case ("POST", ["search"]):
                return 200, memory.search(body.pop("query"), **body)
            case ("POST", ["configure"]):
                store = body["vector_store"]["config"]
                MEMORY[0] = made(store["embedding_model_dims"], store["collection_name"])
                return 200, {"message": "Configuration set successfully"}
        return 404, {"detail": "Not Found"}

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
