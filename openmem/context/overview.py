"""All sessions at a glance: how large, how often trimmed, what the cache did.

Idea: the writer keeps sums in each session's file, so that one page a file is read.
Invariant: reads only; a file that cannot be read is one line, and hides no other.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from openmem.base.clock import utc_text
from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.context.store.catalog import entries
from openmem.context.store.reader import SessionReader, damaged, open_entry
from openmem.context.store.schema import COUNTERS, THREAD_KINDS, VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """One thread of a session: `kind` main, sub-agent or side; the rest as `SessionSummary`."""

    thread: str
    kind: str
    agent_id: str
    model: str
    rows: int
    prompt_tokens: int
    trims: int
    busts: int
    cache_read_tokens: int
    cache_creation_tokens: int
    input_tokens: int
    output_tokens: int
    last_at: str
    bust_reasons: tuple[tuple[str, int], ...] = ()
    removed_tokens: int = 0
    removed_messages: int = 0
    cleared_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """One session. `bytes`: of stored text. `prompt_tokens`: of the main thread's last request.

    The other tokens are sums over all requests, as the provider reported them; `input_tokens`
    leaves out what was read from or written to its cache. `bust_reasons`: reason → how often.
    `removed_tokens`, `removed_messages`: what all trims took out together, the tokens by the
    writer's estimate. `cleared_tokens`: what the provider left out of one request by itself.
    `model`: of the main thread. `last_at`: UTC text. Empty for what a file does not say.
    """

    session_id: str
    agent: str
    cwd: str
    bank: str
    rows: int
    bytes: int
    prompt_tokens: int
    trims: int
    busts: int
    cache_read_tokens: int
    cache_creation_tokens: int
    input_tokens: int
    output_tokens: int
    fail_opens: int
    last_at: str
    workspace: str = ""
    model: str = ""
    version: int = VERSION
    threads: tuple[ThreadSummary, ...] = ()
    bust_reasons: tuple[tuple[str, int], ...] = ()
    removed_tokens: int = 0
    removed_messages: int = 0
    cleared_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Sessions, the last used first, and one sentence for each that could not be read."""

    sessions: tuple[SessionSummary, ...]
    skipped: tuple[str, ...] = ()


def overview(paths: Paths) -> Overview:
    """Return what there is."""
    found: list[SessionSummary] = []
    skipped: list[str] = []
    for entry in entries(paths):
        try:
            with open_entry(entry) as reader:
                found.append(summary_of(reader))
        except StoreUnavailable as error:
            skipped.append(error.message)
    found.sort(key=lambda summary: summary.last_at, reverse=True)
    return Overview(sessions=tuple(found), skipped=tuple(skipped))


def sessions(paths: Paths) -> list[SessionSummary]:
    """Return the sessions of `overview`."""
    return list(overview(paths).sessions)


def summary_of(reader: SessionReader) -> SessionSummary:
    """Return an open session's summary. StoreUnavailable when its file is damaged."""
    try:
        return _summary(reader) if reader.version == VERSION else _earlier_summary(reader)
    except sqlite3.Error as error:
        raise damaged(reader.entry, error) from error


def _summary(reader: SessionReader) -> SessionSummary:
    execute = reader.connection.execute
    agent, cwd, bank, fail_opens, last_at, *sums = execute(
        f"SELECT agent, cwd, bank, fail_opens, last_at, {', '.join(COUNTERS)} FROM session"
    ).fetchone()
    counts = dict(zip(COUNTERS, sums, strict=True))
    removed = _removed(reader) if counts["trims"] else {}
    reasons = _reasons(reader) if counts["busts"] else {}
    was_cleared = any(reason == "clearing" for of in reasons.values() for reason, _ in of)
    cleared = _cleared(reader) if was_cleared else {}
    threads = tuple(
        ThreadSummary(
            thread=bytes(fingerprint).hex(),
            kind=THREAD_KINDS[kind],
            agent_id=agent_id,
            model=model,
            last_at=utc_text(used_at),
            bust_reasons=tuple(reasons.get(bytes(fingerprint).hex(), ())),
            cleared_tokens=cleared.get(bytes(fingerprint).hex(), 0),
            **_gone(removed, bytes(fingerprint).hex()),
            **{
                name: value for name, value in zip(COUNTERS, values, strict=True) if name != "bytes"
            },
        )
        for fingerprint, kind, agent_id, model, used_at, *values in execute(
            f"SELECT fingerprint, kind, agent_id, model, last_at, {', '.join(COUNTERS)}"
            " FROM thread ORDER BY last_at DESC, id DESC"
        )
    )
    entry = reader.entry
    return SessionSummary(
        session_id=reader.session_id,
        agent=agent or entry.agent,
        cwd=cwd or entry.cwd,
        bank=bank or entry.bank,
        workspace=entry.workspace,
        fail_opens=fail_opens,
        last_at=utc_text(last_at),
        model=next((thread.model for thread in threads if thread.kind == "main"), ""),
        threads=threads,
        bust_reasons=_summed(reasons),
        removed_tokens=sum(tokens for tokens, _ in removed.values()),
        removed_messages=sum(messages for _, messages in removed.values()),
        cleared_tokens=sum(cleared.values()),
        **counts,
    )


def _removed(reader: SessionReader) -> dict[str, tuple[int, int]]:
    """Return what trims took out: thread → (tokens, messages).

    A trim frees tokens on top of the one before, but counts all messages that it leaves out.
    """
    return {
        str(root or ""): (max(0, int(tokens or 0)), int(messages or 0))
        for root, tokens, messages in reader.connection.execute(
            "SELECT thread_root, sum(tokens_before - tokens_after), max(dropped)"
            " FROM events WHERE kind = 'trim' GROUP BY thread_root"
        )
    }


def _cleared(reader: SessionReader) -> dict[str, int]:
    """Return what the provider left out by itself: thread → tokens of one request, at most."""
    return {
        str(root or ""): max(0, int(tokens or 0))
        for root, tokens in reader.connection.execute(
            "SELECT thread_root, max(tokens_before - tokens_after)"
            " FROM events WHERE kind = 'clearing' GROUP BY thread_root"
        )
    }


def _gone(removed: dict[str, tuple[int, int]], thread: str) -> dict[str, int]:
    tokens, messages = removed.get(thread, (0, 0))
    return {"removed_tokens": tokens, "removed_messages": messages}


def _reasons(reader: SessionReader) -> dict[str, list[tuple[str, int]]]:
    """Return why prefixes were lost: thread → (reason, how often), the most frequent first."""
    found: dict[str, list[tuple[str, int]]] = {}
    for root, reason, count in reader.connection.execute(
        "SELECT thread_root, bust, count(*) FROM events WHERE bust <> ''"
        " GROUP BY thread_root, bust ORDER BY 3 DESC, 2"
    ):
        found.setdefault(str(root or ""), []).append((str(reason), int(count)))
    return found


def _summed(reasons: dict[str, list[tuple[str, int]]]) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for of_thread in reasons.values():
        for reason, count in of_thread:
            counts[reason] = counts.get(reason, 0) + count
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _earlier_summary(reader: SessionReader) -> SessionSummary:
    """Add up a file of versions 1 to 3, which keeps no sums."""
    rows, size, last_at = reader.connection.execute(
        "SELECT count(*), coalesce(sum(length(CAST(text AS BLOB))), 0), max(created_at)"
        " FROM messages"
    ).fetchone()
    counts = dict.fromkeys(
        ("cache_read_tokens", "cache_creation_tokens", "input_tokens", "output_tokens"), 0
    )
    trims = fail_opens = prompt = removed = messages = 0
    for event in reader.events():
        if event.kind == "trim":
            trims += 1
            before, after, dropped = (
                value if isinstance(value, int) else 0
                for value in map(event.values.get, ("tokens_before", "tokens_after", "dropped"))
            )
            removed += max(0, before - after)
            messages = max(messages, dropped)
        fail_opens += event.kind == "fail_open"
        last_at = max(str(last_at or ""), event.at)
        for name in counts:
            value = event.values.get(name)
            counts[name] += value if isinstance(value, int) else 0
        if event.kind == "usage":
            parts = [event.values.get(name) for name in counts if name != "output_tokens"]
            prompt = sum(part for part in parts if isinstance(part, int)) or prompt
    entry = reader.entry
    return SessionSummary(
        session_id=reader.session_id,
        agent=entry.agent,
        cwd=entry.cwd,
        bank=entry.bank,
        workspace=entry.workspace,
        rows=rows,
        bytes=size,
        prompt_tokens=prompt,
        trims=trims,
        busts=0,
        fail_opens=fail_opens,
        last_at=last_at or "",
        version=reader.version,
        removed_tokens=removed,
        removed_messages=messages,
        cache_read_tokens=counts["cache_read_tokens"],
        cache_creation_tokens=counts["cache_creation_tokens"],
        input_tokens=counts["input_tokens"],
        output_tokens=counts["output_tokens"],
    )
