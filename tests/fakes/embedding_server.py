"""An OpenAI-compatible `/embeddings` endpoint whose numbers follow from words, not from a model.

Each text becomes counts of a few meanings: words of one meaning give near vectors, so that a search
by meaning has a right answer without any weights. Faults are asked for by attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.wire import Reply, Request

MEANINGS = (
    ("car", "vehicle", "automobile", "truck", "engine"),
    ("database", "sqlite", "postgres", "index", "query"),
    ("password", "login", "credential", "secret"),
    ("weather", "rain", "storm", "sunny"),
    ("bread", "flour", "oven", "bake"),
)
DIM = len(MEANINGS) + 1


def vector_of(text: str) -> list[float]:
    """Return how often a text says each meaning, and a little of everything else."""
    lowered = text.lower()
    counts = [float(sum(lowered.count(word) for word in words)) for words in MEANINGS]
    return [*counts, 0.1]


@dataclass(slots=True)
class Embedder:
    """Answers as the handler of an `HttpServer`. `calls`: the texts of each call that came whole.

    `status`: of every answer. `refuses`: a text for which a call that holds it fails. `spoil`:
    changes the answer's document before it is sent.
    """

    calls: list[list[str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    status: int = 200
    refuses: Callable[[str], bool] = lambda text: False
    spoil: Callable[[dict[str, Any]], Any] = lambda document: document
    hold: Callable[[list[str]], None] = lambda texts: None

    def handle(self, request: Request, reply: Reply) -> None:
        texts = json.loads(request.body)["input"]
        self.calls.append(texts)
        self.targets.append(request.target)
        self.headers.append({name.lower(): value for name, value in request.headers})
        self.hold(texts)
        if self.status != 200 or any(self.refuses(text) for text in texts):
            reply.whole(self.status if self.status != 200 else 500, [], b"no")
            return
        data = [
            {"object": "embedding", "index": number, "embedding": vector_of(text)}
            for number, text in enumerate(texts)
        ]
        document = self.spoil({"object": "list", "data": data[::-1], "model": "fake"})
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        reply.whole(200, [("content-type", "application/json")], body)
