"""A model and embeddings of OpenAI's form on loopback: answers that fit the schema asked for.

Idea: a server that draws facts out asks for JSON by a schema; the smallest value that fits is
given, with the text it was asked about wherever a text is wanted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.fakes.embeddings import vector

_DEEPEST = 8


def fitting(schema: dict[str, Any], definitions: dict[str, Any], text: str, depth: int = 0) -> Any:
    """Return the smallest value that fits a JSON schema; texts are `text`."""
    if depth > _DEEPEST:
        return None
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return fitting(definitions.get(name, {}), definitions, text, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            choices = schema[key]
            if any(one.get("type") == "null" for one in choices):
                return None
            return fitting(choices[0], definitions, text, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "object":
        properties = schema.get("properties", {})
        needed = schema.get("required", list(properties))
        return {
            name: fitting(properties[name], definitions, text, depth + 1)
            for name in properties
            if name in needed
        }
    simple: dict[str, Any] = {"array": [], "number": 0, "integer": 0, "boolean": False}
    return simple.get(str(kind), None if kind == "null" else text)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = self._vectors(body) if self.path.endswith("/embeddings") else self._said(body)
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _vectors(self, body: dict[str, Any]) -> dict[str, Any]:
        given = body["input"]
        texts = [given] if isinstance(given, str) else given
        rows = [
            {"object": "embedding", "index": n, "embedding": vector(str(text))}
            for n, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "model": body["model"], "data": rows, "usage": usage}

    def _said(self, body: dict[str, Any]) -> dict[str, Any]:
        last = str(body["messages"][-1].get("content") or "")[:200]
        form = body.get("response_format") or {}
        schema = (form.get("json_schema") or {}).get("schema")
        tools = body.get("tools") or []
        message: dict[str, Any] = {"role": "assistant", "content": "ok"}
        if schema:
            definitions = schema.get("$defs", {})
            message["content"] = json.dumps(fitting(schema, definitions, last))
        elif tools:
            call = tools[0]["function"]
            value = fitting(call["parameters"], call["parameters"].get("$defs", {}), last)
            function = {"name": call["name"], "arguments": json.dumps(value)}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        elif form.get("type") == "json_object":
            message["content"] = "{}"
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [choice],
            "usage": usage,
        }

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def model() -> Iterator[str]:
    """Serve; yields the base address, with `/v1`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
