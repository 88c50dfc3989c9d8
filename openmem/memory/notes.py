"""What memory said of a cut turn, kept so that every later request says the same.

Idea: one small file a session: mark → (memory id, line). Statements only: a kept turn may hold a
sentence that is forgotten later. Invariant: what is forgotten, rejected or replaced goes out of it
with the word to the provider; requests then lack the line, which costs one rewrite of the cache.
Trap: these files hold content, unlike `shown/`.
Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Sequence

from openmem.base.frame import framed
from openmem.base.io import ensure_private_dir, locked, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths
from openmem.memory.looking import Looker
from openmem.memory.recall import at_prompt, line_of
from openmem.memory.scope import Scope

NOTE_CHARACTERS = 3_000
_HITS = 5
_KEPT = 40  # notes of one session; sub-agents have cuts of their own
_DAYS = 30

Notes = dict[str, list[tuple[str, str]]]


def folder_of(paths: Paths) -> str:
    return f"{paths.state_dir}/memory/notes"


def note_on(
    memories: Looker,
    scope: Scope,
    said: str,
    *,
    is_held: Callable[[str], bool],
    seconds: float,
) -> list[tuple[str, str]]:
    """Return what memory knows of what was said and the request does not hold: (id, line).

    The floor of a prompt's recall holds here too. PolicyDenied, TimedOut, StoreUnavailable.
    """
    recalled = at_prompt(memories, scope, said, hits=_HITS, seconds=seconds, kinds=("statement",))
    found = memories.ledger.memories([memory_id for memory_id, _ in recalled.shown])
    lines: list[tuple[str, str]] = []
    room = NOTE_CHARACTERS
    for memory_id, mark in recalled.shown:
        if memory_id not in found or is_held(f"({memory_id}"):
            continue
        line = line_of(found[memory_id], mark)
        if len(line) <= room:
            lines.append((memory_id, line))
            room -= len(line)
    return lines


def keep_note(paths: Paths, sid: str, lines: Sequence[tuple[str, str]]) -> str:
    """Keep a note and return its mark. OSError, Failed."""
    folder = ensure_private_dir(folder_of(paths))
    mark = os.urandom(6).hex()
    with locked(f"{folder}/.lock"):
        notes = _read(f"{folder}/{sid}.json")
        notes[mark] = list(lines)
        for old in list(notes)[:-_KEPT]:
            del notes[old]
        _write(f"{folder}/{sid}.json", notes)
    return mark


def note_text(paths: Paths, sid: str, mark: str) -> str:
    """Return a note as it is told, "" when nothing of it is left. OSError."""
    lines = _read(f"{folder_of(paths)}/{sid}.json").get(mark, [])
    return framed([line for _, line in lines])


def take_out(paths: Paths, memory_ids: Collection[str]) -> int:
    """Take memories out of every note; return of how many notes. OSError, Failed."""
    folder = folder_of(paths)
    if not os.path.isdir(folder):
        return 0
    wanted = {memory_id.encode("ascii") for memory_id in memory_ids}
    changed = 0
    with locked(f"{folder}/.lock"):
        for name in os.listdir(folder):
            path = f"{folder}/{name}"
            if name.startswith(".") and name != ".lock":
                os.unlink(path)  # half a file of a process that was killed: nobody else writes now
                continue
            data = read_bytes_or_none(path) if name.endswith(".json") else None
            if not data or not any(memory_id in data for memory_id in wanted):
                continue
            notes = _read(path)
            kept = {
                mark: [(one, line) for one, line in lines if one not in memory_ids]
                for mark, lines in notes.items()
            }
            _write(path, kept)
            changed += 1
    return changed


def sweep_notes(paths: Paths, now: float) -> None:
    """Remove notes of sessions that are long over."""
    folder = folder_of(paths)
    if not os.path.isdir(folder):
        return
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        if name.endswith(".json") and os.stat(path).st_mtime < now - _DAYS * 86_400:
            os.unlink(path)


def _read(path: str) -> Notes:
    try:
        value = json.loads(read_bytes_or_none(path) or b"null")
    except ValueError:
        return {}  # damaged: pointers then stand alone
    if not isinstance(value, dict):
        return {}
    return {
        mark: [(line[0], line[1]) for line in lines if _is_line(line)]
        for mark, lines in value.items()
        if isinstance(lines, list)
    }


def _is_line(value: object) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2
    return is_pair and all(isinstance(part, str) for part in value)  # type: ignore[attr-defined]


def _write(path: str, notes: Notes) -> None:
    write_atomic(path, json.dumps(notes).encode("ascii") + b"\n")
