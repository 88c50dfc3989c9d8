"""Memories as a person reads them: lists, one whole, what was done, and the review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmem.base.clock import seconds_of
from openmem.base.counts import counted, size_text
from openmem.cli.console import visible, wrapped
from openmem.cli.render.care import age_words
from openmem.cli.render.context import age_since, short_id
from openmem.cli.render.table import clipped, columns

KEYS = "accept a · reject r · edit e · replaces the near one p · skip s · quit q"


def memory_lines(
    memories: Sequence[Mapping[str, Any]], *, head: str, now_seconds: float, width: int
) -> list[str]:
    """Return a list: id, standing, age, and as much of the text as a line holds."""
    lines = [head]
    if memories:
        lines.append("")
    rows = [
        [memory["id"], standing(memory), age_since(memory["recorded_at"], now_seconds)]
        for memory in memories
    ]
    for start, memory in zip(columns(rows), memories, strict=True):
        text = visible(" ".join(str(memory["content"]).split()))
        room = width - len(start) - 2
        if room >= 24:
            lines.append(f"{start}  {clipped(text, room)}")
        else:
            lines += [start, f"    {clipped(text, width - 4)}"]
    return lines


def standing(memory: Mapping[str, Any]) -> str:
    """Return what became of a memory, in a word."""
    if memory["state"] != "active":
        return str(memory["state"])
    return "said" if memory["kind"] == "passage" else str(memory["trust"])


def one_lines(memory: Mapping[str, Any], *, now_seconds: float, width: int) -> list[str]:
    """Return one memory whole: what it says, how it stands, where it is from."""
    lines = [f"{memory['id']}  {standing(memory)}  bank {visible(str(memory['bank']))}", ""]
    text = str(memory["content"]) or "(its text was erased)"
    for line in visible(text).split("\n"):
        lines += wrapped(line, width, "  ") or [""]
    lines.append("")
    lines.append(f"  {origin(memory, now_seconds)}")
    for name, word in (("valid_from", "holds from"), ("valid_to", "until")):
        if memory[name]:
            lines.append(f"  {word} {memory[name]}")
    for name, word in (("supersedes", "replaces"), ("superseded_by", "replaced by")):
        if memory[name]:
            lines.append(f"  {word} {memory[name]}")
    return lines


def origin(memory: Mapping[str, Any], now_seconds: float) -> str:
    """Return who said it, where and when."""
    provenance = memory["provenance"]
    who = str(provenance["actor"]).partition(":")[2] or str(provenance["actor"])
    parts = [f"from {visible(who)}"]
    if provenance["session"]:
        row = f" row {provenance['row']}" if provenance["row"] else ""
        parts.append(f"session {visible(short_id(provenance['session']))}{row}")
    parts.append(age_words(memory["recorded_at"], now_seconds))
    return ", ".join(parts)


def review_lines(
    memory: Mapping[str, Any],
    *,
    place: str,
    said: str,
    near: Mapping[str, Any] | None,
    now_seconds: float,
    width: int,
) -> list[str]:
    """Return one statement of the queue, with where it was said and what stands near it."""
    indent = " " * (len(place) + 1)
    text = wrapped(f'"{visible(str(memory["content"]))}"', width - len(indent))
    lines = [f"{place} {text[0]}", *(indent + rest for rest in text[1:])]
    lines.append(f"{indent}{origin(memory, now_seconds)}")
    if memory["valid_from"] or memory["valid_to"]:
        lines.append(
            f"{indent}holds from {memory['valid_from'] or 'now'} to {memory['valid_to'] or '…'}"
        )
    if said:
        short = clipped(visible(" ".join(said.split())), width - len(indent) - 10)
        lines.append(f'{indent}said: "…{short}…"')
    if memory["supersedes"]:
        lines.append(f"{indent}is to replace {memory['supersedes']}")
    if near is not None:
        age = f"({near['trust']} {age_words(near['recorded_at'], now_seconds)})"
        room = width - len(indent) - len(age) - 22
        short = clipped(visible(" ".join(str(near["content"]).split())), max(room, 20))
        lines.append(f'{indent}near: "{short}" {age}   conflict?')
    return lines


def history_lines(entries: Sequence[Mapping[str, Any]], *, width: int) -> list[str]:
    """Return what was done, oldest first."""
    if not entries:
        return ["Nothing was recorded."]
    rows = [["AT", "WHAT", "MEMORY", "BY", "OVER"]]
    rows += [
        [e["at"], e["verb"], e["memory_id"] or "-", visible(e["actor"]), e["provider"]]
        for e in entries
    ]
    return [clipped(line, width) for line in columns(rows)]


def bank_lines(banks: Sequence[Mapping[str, Any]], *, now_seconds: float, width: int) -> list[str]:
    """Return the banks of this machine, this folder's marked."""
    if not banks:
        return ["No bank holds anything yet."]
    rows = [["", "BANK", "MEMORIES", "PENDING", "LAST"]]
    rows += [
        [
            "*" if bank["is_here"] else "",
            visible(str(bank["bank"])),
            str(bank["memories"]),
            str(bank["pending"]),
            age_since(bank["last_at"], now_seconds),
        ]
        for bank in banks
    ]
    return [clipped(line, width) for line in columns(rows, right=(2, 3, 4))]


def status_lines(status: Mapping[str, Any], *, daily_tokens: int, width: int) -> list[str]:
    """Return how memory fares in one bank."""
    ready = "ready" if status["is_ready"] else "not ready"
    counts = (
        f"{counted(status['statements'], 'statement')} ({status['pending']} pending review, "
        f"{status['rejected']} rejected), {counted(status['passages'], 'kept turn')}"
    )
    lines = [
        f"bank {visible(str(status['bank']))} · provider {status['provider']}, {ready} · "
        f"{size_text(status['size_bytes'])}",
        counts,
        f"{status['forgotten']} forgotten for good",
    ]
    if status["vectors"] >= 0:
        lines.append(vectors_text(status["vectors"], status["vectors_pending"]))
    waiting = status["waiting"] + status["provider_waiting"]
    if waiting:
        lines.append(f"{waiting} still to be told to the provider")
    if status["calls_today"]:
        lines.append(
            f"spent today: {status['tokens_today']:,} of {daily_tokens:,} tokens in "
            f"{counted(status['calls_today'], 'call')}"
        )
    if status["problem"]:
        lines += ["", *wrapped(f"problem: {status['problem']}", width)]
    if status["pending"]:
        lines += ["", "Look at what agents added:  openmem memory review"]
    return lines


def vectors_text(filled: int, pending: int) -> str:
    """Return how many memories have a vector."""
    return f"{counted(filled, 'vector')}, {pending} to be made"


def imported_lines(outcome: Mapping[str, Any], *, is_dry: bool) -> list[str]:
    """Return what an import did, or would do."""
    trusts = ", ".join(f"{count} {trust}" for trust, count in sorted(outcome["by_trust"].items()))
    verb = "Would add" if is_dry else "Added"
    lines = [f"{verb} {outcome['added']}" + (f" ({trusts})" if trusts else "") + "."]
    for name, word in (
        ("known", "known here already"),
        ("forgotten", "forgotten here, so not taken"),
        ("replaced", "of them replaced by others"),
        ("masked", "secrets masked"),
    ):
        if outcome[name]:
            lines.append(f"{outcome[name]} {word}.")
    lines += [f"line {entry['line']}: {visible(entry['why'])}" for entry in outcome["errors"]]
    return lines


def seconds_text(at: str) -> float:
    """Return the POSIX time of a time of ours, 0 for none."""
    return seconds_of(at) if at else 0.0
