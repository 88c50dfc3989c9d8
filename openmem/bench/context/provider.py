"""The simulated provider: tokens, prompt cache, window and signed thinking; the model is scripted.

Everything a run is judged by is written down here, of the requests as they arrive: that is what a
provider would bill and what a model would see.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import msgspec

from openmem.base.frame import POINTER_OPEN
from openmem.bench.context.cache import Piece, PromptCache, Used
from openmem.bench.context.clearing import (
    NOTHING_APPLIED,
    Applied,
    Reading,
    applied,
    as_seen,
    cleared,
)
from openmem.bench.context.model import NOTICE
from openmem.bench.context.tokens import tokens_of

SECONDS_A_REQUEST = 8.0
Reply = Callable[[Mapping[str, Any]], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request as it arrived. `number`: the client's own; `thread`: "" for the main one.

    `head`, `kept`, `before`: tokens of tools, system and first message (up to a pointer, which a
    trim inside the first turn puts there); of what this prompt keeps of the thread's last one; of
    that last one. `in_loop`: it carries tool results or a notice, no prompt.
    `refusal`: what was answered in place of a reply. `cleared`: tool results that the provider
    left out by itself.
    """

    number: int
    thread: str
    used: Used
    head: int
    head_changed: bool
    kept: int
    before: int
    messages: int
    in_loop: bool
    output: int
    refusal: str = ""
    seconds: float = 0.0
    cleared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A reply's blocks, what its prompt cost, and what was cleared of it."""

    blocks: list[dict[str, Any]]
    used: Used
    applied: Applied = NOTHING_APPLIED


class Refused(Exception):
    """A 400, with its text."""


class Provider:
    """Answers one conversation's requests. `window`: tokens, 0 for no limit; `reading`: how it
    clears tool results when it is asked to. Thread-safe."""

    def __init__(self, reply: Reply, *, window: int, reading: Reading = "batches") -> None:
        self.log: list[Served] = []
        self.faults: list[str] = []
        self._reply, self._window, self._reading = reply, window, reading
        self._cache = PromptCache()
        self._last: dict[str, list[Piece]] = {}
        self._known: dict[bytes, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def serve(self, body: bytes, *, number: int, thread: str) -> Answered:
        """Return the reply and what the prompt cost. Refused when it is not legal."""
        with self._lock:
            begun = time.perf_counter()
            try:
                return self._serve(msgspec.json.decode(body), number, thread)
            finally:
                if self.log and self.log[-1].number == number:
                    self.log[-1] = replace(self.log[-1], seconds=time.perf_counter() - begun)

    def _serve(self, request: Mapping[str, Any], number: int, thread: str) -> Answered:
        what = applied(
            request,
            head_tokens=self._head_tokens(request),
            measure=lambda block: self._measured(block)[1],
            reading=self._reading,
        )
        prompt = self._prompt(request, what)
        total = sum(piece.tokens for piece in prompt.pieces)
        refusal = prompt.problem
        if not refusal and self._window and total > self._window:
            refusal = f"prompt is too long: {total} tokens > {self._window} maximum"
        blocks: list[dict[str, Any]] = []
        if not refusal:
            signature = {"type": "thinking", "thinking": "", "signature": prompt.signature}
            blocks = [signature, *self._reply(as_seen(request, what))]
        last = self._last.get(thread, [])
        now = len(self.log) * SECONDS_A_REQUEST
        used = Used(read=0, written=0, uncached=0)
        if not refusal:
            used = self._cache.serve(prompt.pieces, now)
        common = 0
        for one, other in zip(last, prompt.pieces, strict=False):
            if one.digest != other.digest:
                break
            common += one.tokens
        self.log.append(
            Served(
                number=number,
                thread=thread,
                used=used,
                head=sum(piece.tokens for piece in prompt.pieces[: prompt.head]),
                head_changed=bool(last) and not _begins_alike(last, prompt),
                kept=common,
                before=sum(piece.tokens for piece in last),
                messages=len(request["messages"]),
                in_loop=prompt.in_loop,
                output=sum(tokens_of(str(block)) for block in blocks),
                refusal=refusal,
                cleared=len(what.gone),
            )
        )
        if refusal:
            raise Refused(refusal)
        self._last[thread] = prompt.pieces
        return Answered(blocks=blocks, used=used, applied=what)

    def _head_tokens(self, request: Mapping[str, Any]) -> int:
        head = [*request.get("tools", ()), *request["system"]]
        return sum(self._measured(block)[1] for block in head)

    def _prompt(self, request: Mapping[str, Any], what: Applied) -> _Prompt:
        """Return a request's pieces in the order in which a provider hashes them, as cleared."""
        made = _Prompt()
        for tool in request.get("tools", ()):
            self._add(made, "tool", tool)
        for block in request["system"]:
            if not block["text"].startswith("x-anthropic-billing-header"):
                self._add(made, "system", block)
        for number, message in enumerate(request["messages"]):
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                if not made.head and (number or _is_pointer(block)):
                    made.head = len(made.pieces)
                is_gone = block.get("tool_use_id", "") in what.gone
                self._add(made, f"{number}:{message['role']}", block, is_gone=is_gone)
            if message["role"] != "system":
                made.in_loop = any(
                    block["type"] == "tool_result" or NOTICE in block.get("text", "")
                    for block in blocks
                )
        made.signature = f"{made.bound:016x}"
        return made

    def _add(
        self, made: _Prompt, where: str, block: Mapping[str, Any], *, is_gone: bool = False
    ) -> None:
        """Add a block to the chain of what is cached, and to that which thinking is bound to.

        `is_gone`: the provider left its content out; thinking is bound to what was sent.
        """
        role = where.partition(":")[2] or where
        digest, tokens = self._measured(block)
        if block.get("type") == "thinking":
            if block["signature"] != f"{made.bound:016x}" and not made.problem:
                made.problem = (
                    f"messages.{where.partition(':')[0]}.content.0: Invalid `signature` in "
                    "`thinking` block. The block is bound to a different conversation. Remove the "
                    "block."
                )
        else:
            made.bound = _joined(made.bound, role, digest)
        if is_gone:
            digest, tokens = self._measured(cleared(block))
        made.chain = _joined(made.chain, role, digest)
        made.pieces.append(
            Piece(digest=made.chain, tokens=tokens, is_marked="cache_control" in block)
        )

    def _measured(self, block: Mapping[str, Any]) -> tuple[int, int]:
        """Return a block's digest without its marker, and its tokens; each text counted once."""
        bare = {name: value for name, value in block.items() if name != "cache_control"}
        raw = msgspec.json.encode(bare)
        key = blake2b(raw, digest_size=16).digest()
        found = self._known.get(key)
        if found is None:
            found = (int.from_bytes(key[:8], "big"), _tokens_in(bare))
            self._known[key] = found
        return found


@dataclass(slots=True)
class _Prompt:
    pieces: list[Piece] = field(default_factory=list)
    chain: int = 0
    bound: int = 0
    head: int = 0
    in_loop: bool = False
    problem: str = ""
    signature: str = ""


def _is_pointer(block: Mapping[str, Any]) -> bool:
    return str(block.get("text", "")).startswith(POINTER_OPEN)


def _begins_alike(last: list[Piece], prompt: _Prompt) -> bool:
    """Return whether the last prompt began with this one's head."""
    count = prompt.head or len(prompt.pieces)
    return len(last) >= count and last[count - 1].digest == prompt.pieces[count - 1].digest


def _joined(chain: int, where: str, digest: int) -> int:
    data = chain.to_bytes(8, "big") + where.encode() + digest.to_bytes(8, "big")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def _tokens_in(block: Mapping[str, Any]) -> int:
    if block.get("type") == "text":
        return tokens_of(str(block["text"])) + 3
    if block.get("type") == "thinking":
        return 60  # what was thought is billed, though only its signature travels
    return tokens_of(msgspec.json.encode(block).decode()) + 3
