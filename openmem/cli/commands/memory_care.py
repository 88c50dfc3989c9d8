"""`openmem memory` review, verify, reindex, status, reflect: care of what is remembered."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from openmem.base.counts import counted
from openmem.base.errors import FAILED, PolicyDenied, Usage
from openmem.cli.command import Run, command, run_of
from openmem.cli.commands.memory import memory
from openmem.cli.envelope import Result
from openmem.cli.flow import typed
from openmem.cli.memories import (
    config_here,
    moved_note,
    opened,
    record,
    scope_here,
)
from openmem.cli.options import Bank, Json
from openmem.cli.render.memory import vectors_text

if TYPE_CHECKING:
    from openmem.memory.facade import Memories
    from openmem.memory.model import Memory
    from openmem.memory.scope import Scope


def add_to(app: typer.Typer) -> None:
    """The commands stand in the group `memory`, which its own module adds."""


@command(
    memory,
    "review",
    short="Accept or reject what agents added.",
    effect="changes files",
    effect_words="accepts, rejects or replaces statements; `openmem memory history` lists it.",
    example="openmem memory review",
)
def review(
    context: typer.Context,
    bank: Bank = "",
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="Accept this one; may be repeated.")
    ] = None,
    reject: Annotated[
        list[str] | None, typer.Option("--reject", help="Reject this one; may be repeated.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the queue and stop.")] = False,
    json: Json = False,
) -> Result:
    """Go through the statements that wait, oldest first: where each came from, and what is near.

    --reject also takes back a statement that was accepted.
    """
    run = run_of(context)
    scope = scope_here(run)
    if accept or reject:
        return _judged(run, scope, accept or [], reject or [])
    if list_ or run.is_json:
        return _queue(run, scope, bank)
    if not run.console.is_interactive:
        raise Usage(
            f"{typed(run)} asks about each statement and nobody can be asked here.",
            hint="--list shows the queue; --accept ID and --reject ID decide.",
        )
    if not scope.is_person:
        raise PolicyDenied("only a person accepts or rejects.")
    from openmem.cli.reviewing import go_through

    with opened(run, scope) as memories:
        pending = _pending(memories, scope, bank)
        if not pending:
            return Result(lines=("Nothing waits for review.",))
        counts = go_through(run, memories, scope, pending, bank or scope.bank)
    lines = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return Result(data=counts, lines=(f"{lines or 'Nothing changed'}.",))


def _judged(run: Run, scope: Scope, accept: list[str], reject: list[str]) -> Result:
    both = set(accept) & set(reject)
    if both:
        raise Usage(f"{sorted(both)[0]} is both accepted and rejected.")
    with opened(run, scope, "write") as memories:
        chosen = [(memories.mine(scope, one), "accepted") for one in accept]
        chosen += [(memories.mine(scope, one), "rejected") for one in reject]
        done = [
            memories.judge(scope, one.id, "accepted" if trust == "accepted" else "rejected")
            for one, trust in chosen
        ]
    data = {"memories": [record(one) for one in done]}
    return Result(data=data, lines=tuple(f"{one.id} is {one.trust}." for one in done))


def _queue(run: Run, scope: Scope, bank: str) -> Result:
    from openmem.cli.render.memory import memory_lines

    with opened(run, scope) as memories:
        pending = [record(one) for one in _pending(memories, scope, bank)]
    head = f"{len(pending)} pending in bank {bank or scope.bank}"
    lines = memory_lines(pending, head=head, now_seconds=time.time(), width=run.console.width)
    return Result(data={"memories": pending}, lines=tuple(lines))


def _pending(memories: Memories, scope: Scope, bank: str) -> list[Memory]:
    found = memories.listing(scope, bank=bank, trust="pending", limit=10_000)
    return found[::-1]


@command(
    memory,
    "verify",
    short="Check the ledger and the provider.",
    effect="read-only",
    example="openmem memory verify",
)
def verify(context: typer.Context, json: Json = False) -> Result:
    """Recompute every digest of the ledger and compare the provider with it. Exit 1 when off."""
    run = run_of(context)
    scope = scope_here(run)
    problems: list[str] = []
    with opened(run, scope) as memories:
        entries = len(memories.ledger.history())
        problems += memories.ledger.verify()
        banks = [bank for bank, *_ in memories.ledger.banks()]
        for bank in banks:
            problems += [f"bank {bank}: {one}" for one in _apart(memories, bank)]
    counts = f"{counted(len(banks), 'bank')}, {counted(len(problems), 'problem')}"
    lines = [*problems, f"{counted(entries, 'entry', 'entries')}, {counts}."]
    notes = ("Put the provider right:  openmem memory reindex",) if problems else ()
    return Result(
        data={"entries": entries, "banks": banks, "problems": problems},
        lines=tuple(lines),
        notes=notes,
        exit_status=FAILED if problems else 0,
    )


def _apart(memories: Memories, bank: str) -> list[str]:
    """Return what the provider holds too much or too little of a bank."""
    if "listing" not in memories.provider.capabilities:
        return []
    waiting = memories.ledger.waiting(memories.provider.name)
    wanted = {one.id for one in memories.ledger.listing(bank) if one.trust != "rejected"}
    held = set(memories.provider.listing(bank))
    missing, strange = wanted - held - waiting, held - wanted - waiting
    found = [f"the provider misses {one}" for one in sorted(missing)[:20]]
    return found + [
        f"the provider holds {one}, which the ledger does not" for one in sorted(strange)[:20]
    ]


@command(
    memory,
    "reindex",
    short="Give the provider all of it again.",
    effect="changes files",
    effect_words="makes the provider hold what the ledger says, no more and no less.",
    example="openmem memory reindex",
)
def reindex(context: typer.Context, bank: Bank = "", json: Json = False) -> Result:
    """Tell the provider again what the ledger holds of a bank, and take out what it does not."""
    run = run_of(context)
    scope = scope_here(run)
    with opened(run, scope, "write") as memories:
        target = scope.bank_to_read(bank)
        count = memories.reindex(target)
        # Words may leave the machine for a vector: only where this folder, or the person, says so.
        stand = memories.fill_vectors(target) if bank or scope.decision.retain else None
    lines = [f"{target}: {count} memories told again."]
    if stand is not None:
        lines.append(vectors_text(stand.filled, stand.pending))
    if stand is not None and stand.pending:
        lines.append("The endpoint of vectors.url gave no vectors for these.")
    vectors = {"filled": stand.filled, "pending": stand.pending} if stand else None
    return Result(data={"bank": target, "memories": count, "vectors": vectors}, lines=tuple(lines))


@command(
    memory,
    "status",
    short="Say how memory fares.",
    effect="read-only",
    example="openmem memory status",
)
def status(context: typer.Context, bank: Bank = "", json: Json = False) -> Result:
    """Count what is remembered in this folder's bank, what waits, and what was spent today."""
    from openmem.cli.render.memory import status_lines
    from openmem.memory.status import status_of

    run = run_of(context)
    scope = scope_here(run)
    config = config_here(run, scope)
    with opened(run, scope) as memories:
        found = asdict(status_of(memories, scope.bank_to_read(bank)))
    lines = status_lines(
        found, daily_tokens=config.number("memory.daily_tokens"), width=run.console.width
    )
    is_empty = not found["statements"] and not found["passages"]
    return Result(
        data=found, lines=tuple(lines), notes=moved_note(run, scope, bank) if is_empty else ()
    )


@command(
    memory,
    "reflect",
    short="Answer a question from memory.",
    effect="read-only",
    effect_words="read-only; asks a model only where one is named and memory.reflect is on.",
    example='openmem memory reflect "what do deploys need?"',
)
def reflect(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What to answer.")],
    bank: Bank = "",
    json: Json = False,
) -> Result:
    """Answer from what is remembered; without a model the memories are the answer."""
    from openmem.cli.console import visible
    from openmem.cli.render.memory import memory_lines
    from openmem.memory.model_route import route_of
    from openmem.memory.reflect import reflect as think
    from openmem.memory.spend import Budget

    run = run_of(context)
    scope = scope_here(run)
    config = config_here(run, scope)
    with opened(run, scope) as memories:
        reflection = think(
            memories,
            scope,
            question,
            bank=bank,
            route=route_of(config, run.paths.environ),
            budget=Budget(run.paths, config.number("memory.daily_tokens")),
        )
    found = [record(one.memory) for one in reflection.found]
    data = {
        "text": reflection.text,
        "why": reflection.why,
        "tokens": reflection.tokens,
        "memories": found,
    }
    if reflection.text:
        return Result(data=data, lines=tuple(visible(reflection.text).split("\n")))
    head = f"Recalled, not put together: {reflection.why}"
    lines = memory_lines(found, head=head, now_seconds=time.time(), width=run.console.width)
    return Result(data=data, lines=tuple(lines))
