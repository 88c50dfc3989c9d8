"""An embeddings endpoint of OpenAI's form: words hashed into numbers, so shared words are near."""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSIONS = 384


def vector(text: str) -> list[float]:
    """Return the unit vector of a text's words."""
    numbers = [0.0] * DIMENSIONS
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        digest = hashlib.sha256(word.encode()).digest()
        numbers[int.from_bytes(digest[:4], "big") % DIMENSIONS] += 1.0 if digest[4] & 1 else -1.0
    length = math.sqrt(sum(number * number for number in numbers))
    return [n / length for n in numbers] if length else [1.0] + [0.0] * (DIMENSIONS - 1)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        given = body["input"]
        texts = [given] if isinstance(given, str) else given
        if body.get("encoding_format") == "base64":
            import base64
            import struct

            rows: list[Any] = [
                base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector(str(t)))).decode()
                for t in texts
            ]
        else:
            rows = [vector(str(text)) for text in texts]
        answer = {
            "object": "list",
            "model": body.get("model", ""),
            "data": [
                {"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)
            ],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def embeddings() -> Iterator[str]:
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
