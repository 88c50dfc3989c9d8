"""The review on a terminal: one statement at a time, one key and Enter.

Invariant: each answer is carried out before the next statement is shown, so leaving loses nothing.
Trap: a plain prompt on purpose: it works over any terminal, with a screen reader, and in a log.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from openmem.base.errors import OpenmemError
from openmem.cli.command import Run
from openmem.cli.memories import record
from openmem.cli.render.memory import KEYS, review_lines

if TYPE_CHECKING:
    from openmem.memory.facade import Memories
    from openmem.memory.model import Memory
    from openmem.memory.scope import Scope

_WORDS = {"a": "accepted", "r": "rejected", "e": "edited", "p": "replaced", "s": "skipped"}


def go_through(
    run: Run, memories: Memories, scope: Scope, pending: list[Memory], bank: str
) -> dict[str, int]:
    """Ask about each statement; return how many were accepted, rejected and so on."""
    counts = dict.fromkeys(_WORDS.values(), 0)
    run.console.say(f"{len(pending)} pending in bank {bank}", "")
    for number, statement in enumerate(pending, 1):
        near = near_one(memories, scope, statement)
        place = f"[{number}/{len(pending)}]"
        lines = review_lines(
            record(statement),
            place=place,
            said=said_of(run, statement),
            near=record(near) if near else None,
            now_seconds=time.time(),
            width=run.console.width,
        )
        run.console.say(*lines, "", KEYS)
        key = _one(run, memories, scope, statement, near)
        if key == "q":
            break
        counts[_WORDS[key]] += 1
        run.console.say("")
    return counts


def _one(run: Run, memories: Memories, scope: Scope, statement: Memory, near: Memory | None) -> str:
    """Ask until an answer was carried out; return its key. The end of input is q."""
    while True:
        key = _line(run, "> ").lower()[:1]
        try:
            if key in ("q", "s"):
                return key
            if key == "a":
                memories.judge(scope, statement.id, "accepted")
                return key
            if key == "r":
                memories.judge(scope, statement.id, "rejected")
                return key
            if key == "p" and near is not None:
                memories.replace(scope, near.id, statement.id)
                return key
            if key == "e":
                text = _line(run, "new text: ")
                if text:
                    memories.correct(scope, statement.id, text)
                    return key
        except OpenmemError as error:
            run.console.complain(error.message, error.hint)
            continue
        run.console.say("There is nothing near." if key == "p" else KEYS)


def _line(run: Run, prompt: str) -> str:
    run.console.stderr.write(prompt)
    run.console.stderr.flush()
    line = run.console.stdin.readline()
    return line.strip() if line else "q"


def near_one(memories: Memories, scope: Scope, statement: Memory) -> Memory | None:
    """Return the accepted statement that is nearest, None when none is clearly about the same."""
    found = memories.search(
        scope,
        statement.text,
        bank=statement.bank,
        limit=5,
        kinds=("statement",),
        has_floor=True,
    )
    for one in found:
        if one.memory.id != statement.id and one.memory.trust == "accepted":
            return one.memory
    return None


def said_of(run: Run, statement: Memory) -> str:
    """Return what was said where a statement came from, "" when that session is not stored."""
    from openmem.context.search.engine import search
    from openmem.context.search.query import Query, Scope
    from openmem.context.session import is_plain_sid

    sid = statement.source.session_id
    if not sid or not is_plain_sid(sid):
        return ""
    query = Query(text=statement.text[:300], session_id=sid, roles=("user", "assistant"), limit=1)
    try:
        page = search(run.paths, query, Scope(all_workspaces=True))
    except OpenmemError:
        return ""  # the session is gone or locked: the statement can be judged without it
    return page.hits[0].excerpt if page.hits else ""
