"""One call to `POST <url>/embeddings`, on the standard library.

What comes back is another program's word: as many vectors as texts, all of one length, all finite,
or the call failed. No text and no key is ever part of an error.
"""

from __future__ import annotations

import http.client
import json
import math
import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from openmem.base.vectors.settings import VectorSettings, read_key

_MOST_BYTES = 64 << 20
_MOST_NUMBERS = 16_384


class EmbeddingFailed(Exception):
    """The endpoint gave no vectors. `kind`: one word for logs: refused, timeout, status-500, …"""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the embedding endpoint failed: {kind}")
        self.kind = kind


def embed(
    settings: VectorSettings,
    texts: Sequence[str],
    environ: Mapping[str, str],
    *,
    timeout_seconds: float,
) -> list[list[float]]:
    """Return one vector a text, in order. EmbeddingFailed; InvalidConfig when the key is not there.

    Redirects are not followed and no proxy is asked: the words go where the person said.
    """
    body = json.dumps({"model": settings.model, "input": list(texts)}).encode("ascii")
    headers = {"content-type": "application/json", "user-agent": "openmem"}
    key = read_key(settings.key, environ)
    if key:
        headers["authorization"] = f"Bearer {key}"
    try:
        return _vectors(_post(settings.url, body, headers, timeout_seconds), len(texts))
    except TimeoutError:
        raise EmbeddingFailed("timeout") from None
    except (OSError, http.client.HTTPException) as error:
        raise EmbeddingFailed(type(error).__name__) from None


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout_seconds: float) -> bytes:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EmbeddingFailed("bad-url")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname,
            parts.port,
            timeout=timeout_seconds,
            context=ssl.create_default_context(),
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_seconds)
    try:
        target = f"{parts.path.rstrip('/')}/embeddings"
        connection.request("POST", target, body=body, headers=dict(headers))
        answer = connection.getresponse()
        data = answer.read(_MOST_BYTES + 1)
    finally:
        connection.close()
    if answer.status != 200:
        raise EmbeddingFailed(f"status-{answer.status}")
    if len(data) > _MOST_BYTES:
        raise EmbeddingFailed("too-large")
    return data


def _vectors(data: bytes, count: int) -> list[list[float]]:
    try:
        listed = json.loads(data)["data"]
        ordered = sorted(listed, key=lambda item: int(item["index"]))
        vectors = [[float(number) for number in item["embedding"]] for item in ordered]
        indexes = [int(item["index"]) for item in ordered]
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise EmbeddingFailed("not-understood") from None
    lengths = {len(vector) for vector in vectors}
    if indexes != list(range(count)) or len(lengths) != 1:
        raise EmbeddingFailed("wrong-count")
    if not 1 <= lengths.pop() <= _MOST_NUMBERS:
        raise EmbeddingFailed("wrong-length")
    if not all(math.isfinite(number) for vector in vectors for number in vector):
        raise EmbeddingFailed("not-finite")
    return vectors
