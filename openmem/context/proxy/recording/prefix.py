"""How much of a thread's last prompt a new prompt keeps, and if it breaks it, why.

Idea: a provider's cache holds prompts from the front; the first difference ends what it can
reuse. Each message becomes two 64-bit hashes, of its bytes and of its canonical form, so a resent
history costs one hash over the bytes and only messages that differ are decoded.
Invariant: what clients flip by themselves is no difference: `cache_control` comes and goes, a
string is one text block, the attribution block and deferred tools do not count, and blocks behind
the marker of a trailing system message are said once and not resent.
Trap: a client may send a variant (a suggestion, a retry) and go on from the earlier prompt, so a
prompt is compared with the last few, not only with the last.
Source: Claude Code 2.1.332 on newest models, facts of 2026-11-30, section 2.3; caching rules 1.6.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from openmem.context.proxy.recording.identity import content_blocks, without_attribution
from openmem.context.proxy.recording.usage import Usage

_REMEMBERED = 3
TTL_SECONDS = 300.0
LONG_TTL_SECONDS = 3600.0
OPENAI_TTL_SECONDS = 600.0  # "5 to 10 minutes of inactivity", OpenAI's prompt caching guide


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The parts of a request that a provider caches. `tools`, `messages`: raw JSON.

    `system`: its texts; or the first `lead` messages hold it. `settings`: what restarts the cache
    without being text (kind of thinking, effort). `ttl_seconds`: how long the provider keeps what
    this prompt marks.
    """

    model: str
    settings: str
    tools: bytes
    system: Sequence[str]
    messages: Sequence[bytes | msgspec.Raw]
    lead: int = 0
    ttl_seconds: float = TTL_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A prompt that went out, as hashes; about 24 bytes a message."""

    model: str
    settings: str
    tools: int
    tools_raw: int
    tools_bytes: int
    system: int
    system_bytes: int
    raw: array[int]
    canonical: array[int]
    sizes: array[int]
    tail: tuple[int, ...]
    tail_marker: int
    lead: int
    at: float
    ttl_seconds: float
    prompt_tokens: int = 0

    @property
    def total_bytes(self) -> int:
        return self.tools_bytes + self.system_bytes + sum(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What of an earlier prompt is still the front of this one.

    `bust`: "" or the first cause: model, tools, system, settings, messages, idle.
    `before_bytes` is 0 on a thread's first prompt.
    """

    kept_bytes: int = 0
    kept_messages: int = 0
    before_bytes: int = 0
    before_messages: int = 0
    bust: str = ""


class Thread:
    """The last prompts of one thread. Only prompts that the provider took are remembered."""

    def __init__(self) -> None:
        self._known: list[Known] = []

    @property
    def messages(self) -> int:
        """How many messages are remembered."""
        return sum(len(known.raw) for known in self._known)

    def compare(self, prompt: Prompt, now: float) -> tuple[Known, Kept]:
        """Return the prompt as digests, and what of the earlier ones it keeps. `now`: seconds."""
        latest = self._known[-1] if self._known else None
        mine = _known_of(prompt, latest, now)
        best: tuple[tuple[bool, int], Kept] | None = None
        for known in reversed(self._known):
            kept = _kept(known, mine, prompt.messages)
            if not kept.bust and now - known.at > known.ttl_seconds:
                kept = replace(kept, bust="idle")
            rank = (not kept.bust, kept.kept_bytes)
            if best is None or rank > best[0]:
                best = (rank, kept)
        return mine, best[1] if best else Kept()

    def remember(self, known: Known, usage: Usage) -> None:
        """Keep a prompt that the provider took."""
        self._known.append(replace(known, prompt_tokens=usage.prompt_tokens))
        del self._known[:-_REMEMBERED]

    def settled(self, kept: Kept, usage: Usage) -> Kept:
        """Return `kept` corrected by what the provider reported: an idle cache may still hit."""
        if kept.bust != "idle" or not self._known:
            return kept
        read, before = usage.cache_read_tokens, self._known[-1].prompt_tokens
        if read is not None and before and read * 2 >= before:
            return replace(kept, bust="")
        return kept


Raw = bytes | msgspec.Raw


def _digest(data: bytes) -> int:
    return hash(data)  # keyed by the interpreter: compared in this process only


def _common_length(first: array[int], second: array[int]) -> int:
    """Return how many items two arrays begin with in common."""
    high = min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    return next(at for at in range(high) if first[at] != second[at])


def _decoded(data: Raw) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(bytes(data))  # lone surrogates, NaN: refused by the fast reader only


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, ValueError):
        return json.dumps(value).encode("ascii")


def _bare(value: Any) -> Any:
    """Return a block without cache markers, its own and those of blocks inside it."""
    if not isinstance(value, dict):
        return value
    bare = {key: item for key, item in value.items() if key != "cache_control"}
    inner = bare.get("content")
    if isinstance(inner, list):
        bare["content"] = [_bare(item) for item in inner]
    elif isinstance(inner, str) and bare.get("type") == "tool_result":
        bare["content"] = [{"type": "text", "text": inner}]
    return bare


def _canonical(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    bare = {key: item for key, item in message.items() if key not in ("content", "cache_control")}
    bare["content"] = [_bare(block) for block in content_blocks(message)]
    return bare


def _tools_digest(raw: bytes) -> int:
    tools = _decoded(raw) if raw else None
    if not isinstance(tools, list):
        return 0
    seen = [_bare(tool) for tool in tools]
    # A deferred tool is not part of the prompt until something refers to it.
    return _digest(
        _encoded([t for t in seen if not (isinstance(t, dict) and t.get("defer_loading"))])
    )


def _known_of(prompt: Prompt, latest: Known | None, now: float) -> Known:
    tools_raw = _digest(prompt.tools)
    is_same_tools = latest is not None and latest.tools_raw == tools_raw
    system = "\0".join(without_attribution(prompt.system)).encode("utf-8", "surrogatepass")
    pieces = [bytes(message) for message in prompt.messages]
    raw = array("q", map(hash, pieces))
    sizes = array("q", map(len, pieces))
    same = _common_length(raw, latest.raw) if latest is not None else 0
    canonical = latest.canonical[:same] if latest is not None else array("q")
    canonical.extend(_digest(_encoded(_canonical(_decoded(piece)))) for piece in pieces[same:])
    tail, marker = _tail_of(prompt.messages[-1]) if prompt.messages else ((), -1)
    return Known(
        model=prompt.model,
        settings=prompt.settings,
        tools=latest.tools if latest and is_same_tools else _tools_digest(prompt.tools),
        tools_raw=tools_raw,
        tools_bytes=len(prompt.tools),
        system=_digest(system),
        system_bytes=len(system),
        raw=raw,
        canonical=canonical,
        sizes=sizes,
        tail=tail,
        tail_marker=marker,
        lead=prompt.lead,
        at=now,
        ttl_seconds=prompt.ttl_seconds,
    )


def _tail_of(raw: Raw) -> tuple[tuple[int, ...], int]:
    """Return the digests of a trailing system message's blocks and the place of its marker."""
    message = _decoded(raw)
    if not isinstance(message, dict) or message.get("role") != "system":
        return (), -1
    blocks = content_blocks(message)
    marker = max((n for n, block in enumerate(blocks) if "cache_control" in block), default=-1)
    return tuple(_digest(_encoded(_bare(block))) for block in blocks), marker


def _kept(known: Known, mine: Known, messages: Sequence[Raw]) -> Kept:
    count = len(known.canonical)
    found = Kept(before_bytes=known.total_bytes, before_messages=count)
    if known.model != mine.model:
        return replace(found, bust="model")
    if known.tools != mine.tools:
        return replace(found, bust="tools")
    if known.system != mine.system:
        return replace(found, bust="system", kept_bytes=known.tools_bytes)
    head_bytes = known.tools_bytes + known.system_bytes
    if known.settings != mine.settings:
        return replace(found, bust="settings", kept_bytes=head_bytes)
    same = _common_length(known.canonical, mine.canonical)
    if same == count - 1 < len(messages) and _is_without_nudge(known, messages[same]):
        same = count
    return replace(
        found,
        kept_bytes=head_bytes + sum(known.sizes[:same]),
        kept_messages=same,
        bust="" if same == count else "system" if same < known.lead else "messages",
    )


def _is_without_nudge(known: Known, raw: Raw) -> bool:
    """Return whether a message is the known trailing one without the blocks behind its marker."""
    if known.tail_marker < 0:
        return False
    tail, _ = _tail_of(raw)
    return len(tail) > known.tail_marker and tail == known.tail[: len(tail)]
