"""`openmem memory`: what is remembered, by hand; the same facade that hooks and tools use."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.counts import counted
from openmem.base.errors import FAILED, Failed, OpenmemError, Usage
from openmem.cli.command import Run, command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.flow import agree_for_good
from openmem.cli.memories import config_here, moved_note, opened, record, scope_here
from openmem.cli.options import Bank, DryRun, Json, Quiet, YesForGood

if TYPE_CHECKING:
    from openmem.memory.facade import Forgotten
    from openmem.memory.model import Kind, LedgerEntry, Memory, Trust
    from openmem.memory.scope import Scope

memory = group("memory", "What is remembered, by hand: add, find, correct, forget, review.")

_CHANGES = "changes what is remembered; `openmem memory history` says by whom and when."
Id = Annotated[str, typer.Argument(help="A memory; the start of its id will do.")]
Limit = Annotated[int, typer.Option("--limit", help="At most so many.", min=1, max=10_000)]
KindOf = Annotated[
    str, typer.Option("--kind", help="statement or passage (a kept turn).", show_default=False)
]
AsOf = Annotated[
    str, typer.Option("--as-of", help="What held then: 2026-11-30, or a time.", show_default=False)
]
ValidFrom = Annotated[
    str, typer.Option("--valid-from", help="When it begins to hold.", show_default=False)
]
ValidTo = Annotated[
    str, typer.Option("--valid-to", help="When it ceases to hold.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    app.add_typer(memory)


def kind_of(word: str) -> Kind | None:
    """Return the kind a word names, None for none. Usage."""
    if word and word not in ("statement", "passage"):
        raise Usage(f"--kind is {word!r}, expected statement or passage.")
    return "passage" if word == "passage" else "statement" if word else None


@command(
    memory,
    "add",
    short="Remember a statement.",
    effect="changes files",
    effect_words=_CHANGES,
    example='openmem memory add "Deploys need the VPN."',
)
def add(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="One sentence, clear by itself; - reads it.")],
    bank: Bank = "",
    valid_from: ValidFrom = "",
    valid_to: ValidTo = "",
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Remember one statement about this folder's project. Yours is accepted at once."""
    run = run_of(context)
    run.console.is_quiet = quiet
    scope = scope_here(run)
    text = sys.stdin.read() if text == "-" else text
    scope.bank_to_write(bank)  # a denied folder leaves no file behind
    if dry_run:
        with opened(run, scope, "dry") as memories:
            draft, masked = memories.drafted(
                scope, text, bank=bank, valid_from=valid_from, valid_to=valid_to
            )
            same = memories.ledger.find_same(draft.bank, draft.text)
            if same:
                raise Failed(f"it is remembered already, as {same}.", code="duplicate")
            if memories.ledger.is_tombstoned(draft.bank, draft.text):
                raise Failed("this was forgotten here and is not taken in.", code="forgotten")
        data = {"dry_run": True, "content": draft.text, "bank": draft.bank, "trust": draft.trust}
        lines = (f"Would remember in {draft.bank}: {draft.text}",)
        return Result(data=data, lines=lines, notes=_masks(masked))
    with opened(run, scope, "write") as memories:
        added = memories.add(scope, text, bank=bank, valid_from=valid_from, valid_to=valid_to)
        untold = memories.provider.name if memories.is_untold(added.memory.id) else ""
    lines = (f"Remembered as {added.memory.id}, {added.memory.trust}.",)
    return Result(
        data={**record(added.memory), "masked": list(added.masked), "is_told": not untold},
        lines=lines,
        notes=(*_masks(added.masked), *_untold(untold)),
    )


def _untold(provider: str) -> tuple[str, ...]:
    return (f"{provider} is told with the next memory; it did not answer.",) if provider else ()


def _masks(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return (f"Masked before it was kept: {', '.join(sorted(set(kinds)))}.",) if kinds else ()


@command(
    memory,
    "search",
    short="Find memories by words.",
    effect="read-only",
    example='openmem memory search "staging database"',
)
def search(
    context: typer.Context,
    words: Annotated[str, typer.Argument(help="What to look for.")],
    bank: Bank = "",
    kind: KindOf = "",
    as_of: AsOf = "",
    limit: Limit = 8,
    json: Json = False,
) -> Result:
    """Find statements and kept turns of this folder's project, best matches first."""
    run = run_of(context)
    scope = scope_here(run)
    wanted = kind_of(kind)
    with opened(run, scope) as memories:
        found = memories.search(
            scope, words, bank=bank, limit=limit, as_of=as_of, kinds=(wanted,) if wanted else ()
        )
    return _listed(run, scope, [one.memory for one in found], bank, "found")


@command(
    memory,
    "recall",
    short="Say what an agent would be told.",
    effect="read-only",
    example='openmem memory recall "how do I deploy?"',
)
def recall(
    context: typer.Context,
    prompt: Annotated[
        str, typer.Argument(help="A prompt; the start of a session when left out.")
    ] = "",
    bank: Bank = "",
    as_of: AsOf = "",
    json: Json = False,
) -> Result:
    """Show the text that a session of this folder is told, at its start or at a prompt.

    With --as-of: what held then, or what clearly fits the prompt of it.
    """
    from openmem.memory.recall import at_prompt, at_start

    run = run_of(context)
    scope = scope_here(run)
    config = config_here(run, scope)
    if as_of or bank:
        with opened(run, scope) as memories:
            if not prompt:
                known = memories.known(scope, bank=bank, as_of=as_of)
                return _listed(run, scope, known, bank, "known")
            found = memories.search(scope, prompt, bank=bank, as_of=as_of, has_floor=True)
        return _listed(run, scope, [one.memory for one in found], bank, "clearly fit")
    with opened(run, scope) as memories:
        told = (
            at_prompt(memories, scope, prompt, hits=config.number("memory.prompt_hits"))
            if prompt
            else at_start(memories, scope, tokens=config.number("memory.start_tokens"))
        )
    data = {"text": told.text, "ids": [memory_id for memory_id, _ in told.shown]}
    lines = tuple(told.text.split("\n")) if told.text else ("An agent would be told nothing.",)
    return Result(data=data, lines=lines)


@command(
    memory,
    "list",
    short="List what is remembered.",
    effect="read-only",
    example="openmem memory list --trust pending",
)
def list_(
    context: typer.Context,
    bank: Bank = "",
    kind: KindOf = "statement",
    trust: Annotated[
        str, typer.Option("--trust", help="pending, accepted or rejected.", show_default=False)
    ] = "",
    all_: Annotated[
        bool, typer.Option("--all", help="Also what was replaced, forgotten or has aged out.")
    ] = False,
    limit: Limit = 50,
    json: Json = False,
) -> Result:
    """List the statements of this folder's project, newest first."""
    run = run_of(context)
    scope = scope_here(run)
    chosen: Trust | None = None
    if trust:
        if trust not in ("pending", "accepted", "rejected"):
            raise Usage(f"--trust is {trust!r}, expected pending, accepted or rejected.")
        chosen = trust  # type: ignore[assignment]  # one of the three words
    with opened(run, scope) as memories:
        found = memories.listing(
            scope, bank=bank, kind=kind_of(kind), trust=chosen, include_gone=all_, limit=limit
        )
    return _listed(run, scope, found, bank, "listed")


def _listed(run: Run, scope: Scope, found: list[Memory], bank: str, what: str) -> Result:
    from openmem.cli.render.memory import memory_lines

    data = [record(one) for one in found]
    memories = counted(len(found), "memory", "memories")
    head = f"{memories} {what} in bank {bank or scope.bank}"
    lines = memory_lines(data, head=head, now_seconds=time.time(), width=run.console.width)
    notes: tuple[str, ...] = ("", "One whole:  openmem memory show ID")
    if not found:
        notes = moved_note(run, scope, bank)
    return Result(data={"memories": data}, lines=tuple(lines), notes=notes)


@command(
    memory,
    "show",
    short="Show one memory whole.",
    effect="read-only",
    example="openmem memory show m-3f2a",
)
def show(context: typer.Context, memory_id: Id, json: Json = False) -> Result:
    """Show a memory: its text, how it stands, who said it and when."""
    from openmem.cli.render.memory import one_lines

    run = run_of(context)
    scope = scope_here(run)
    with opened(run, scope) as memories:
        one = record(memories.show(scope, memory_id))
    lines = one_lines(one, now_seconds=time.time(), width=run.console.width)
    return Result(data=one, lines=tuple(lines))


@command(
    memory,
    "correct",
    short="Replace a statement, or date it.",
    effect="changes files",
    effect_words=_CHANGES,
    example='openmem memory correct m-3f2a "Deploys run from CI only."',
)
def correct(
    context: typer.Context,
    memory_id: Id,
    text: Annotated[
        str, typer.Argument(help="The new statement, whole; left out to change times only.")
    ] = "",
    valid_from: ValidFrom = "",
    valid_to: ValidTo = "",
    dry_run: DryRun = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Replace a statement by another; the old one is kept, linked, and no longer recalled."""
    run = run_of(context)
    run.console.is_quiet = quiet
    scope = scope_here(run)
    if not text and not (valid_from or valid_to):
        raise Usage("give the new statement, or --valid-from or --valid-to.")
    with opened(run, scope, "dry" if dry_run else "write") as memories:
        old = memories.mine(scope, memory_id)
        if dry_run:
            words = f"by: {text}" if text else "its times"
            data = {"dry_run": True, "id": old.id, "content": text}
            return Result(data=data, lines=(f"Would replace {old.id} {words}",))
        new = old
        masked: tuple[str, ...] = ()
        if text:
            added = memories.correct(scope, old.id, text)
            new, masked = added.memory, added.masked
        if valid_from or valid_to:
            new = memories.date(scope, new.id, valid_from, valid_to)
    said = f"{new.id} replaces {old.id}." if text else f"{new.id} is dated."
    return Result(data=record(new), lines=(said,), notes=_masks(masked))


@command(
    memory,
    "forget",
    short="Forget memories for good.",
    effect="changes files",
    effect_words="erases what is named, for good; --dry-run shows what would go.",
    example="openmem memory forget m-3f2a",
)
def forget(
    context: typer.Context,
    memory_ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Memories; starts of ids will do.")
    ],
    with_turns: Annotated[
        bool, typer.Option("--with-turns", help="Also kept turns that hold the same words.")
    ] = False,
    dry_run: DryRun = False,
    yes: YesForGood = False,
    json: Json = False,
) -> Result:
    """Erase memories from every file of ours; they are not taken in again by any way.

    What was recorded of the session itself stays: openmem context forget.
    """
    run = run_of(context)
    scope = scope_here(run)
    with opened(run, scope, "dry" if dry_run else "write") as memories:
        chosen = [memories.mine(scope, one, include_gone=True) for one in memory_ids]
        lines = [f"  - {one.id}  {_short(run, one)}" for one in chosen]
        if dry_run:
            ids = [one.id for one in chosen]
            return Result(
                data={"ids": ids, "dry_run": True}, lines=(*lines, "Nothing is forgotten yet.")
            )
        agree_for_good(run, lines, yes=yes, question="Forget these for good?")
        done = [memories.forget(scope, one.id) for one in chosen]
        also = [one for gone in done for one in gone.also_in]
        if with_turns:
            for memory_id in dict.fromkeys(also):
                try:
                    done.append(memories.forget(scope, memory_id))
                except OpenmemError as error:
                    if error.code != "forgotten":
                        raise
            also = []
    return _forgotten(done, also)


def _forgotten(done: list[Forgotten], also: list[str]) -> Result:
    pending = sorted({what for one in done for what in one.pending})
    data = {
        "forgotten": [one.memory.id for one in done],
        "also_in": also,
        "pending": pending,
    }
    lines = [f"Forgotten: {', '.join(data['forgotten'])}. A mark without content keeps it so."]
    if also:
        lines.append(
            f"The same words stand in {len(also)} kept turns:  openmem memory forget "
            + " ".join(also[:6])
        )
    if pending:
        lines.append(
            f"Pending: {' and '.join(pending)}. The next change of memory or the next turn of a "
            "session finishes it; until then bytes of it are left."
        )
    return Result(data=data, lines=tuple(lines), exit_status=FAILED if pending else 0)


def _short(run: Run, one: Memory) -> str:
    from openmem.cli.console import visible
    from openmem.cli.render.table import clipped

    return clipped(visible(" ".join(one.text.split())), run.console.width - 26)


@command(
    memory,
    "history",
    short="Say what was done, by whom, when.",
    effect="read-only",
    example="openmem memory history m-3f2a",
)
def history(
    context: typer.Context,
    memory_id: Annotated[
        str, typer.Argument(help="One memory; the whole bank when left out.")
    ] = "",
    bank: Bank = "",
    limit: Limit = 50,
    json: Json = False,
) -> Result:
    """List what was done to one memory or in this folder's bank; entries hold no content."""
    from openmem.cli.render.memory import history_lines

    run = run_of(context)
    scope = scope_here(run)
    with opened(run, scope) as memories:
        entries = memories.history(scope, memory_id, bank=bank, limit=limit)
    data = [_entry(entry) for entry in entries]
    lines = history_lines(data, width=run.console.width)
    return Result(data={"entries": data}, lines=tuple(lines))


def _entry(entry: LedgerEntry) -> dict[str, Any]:
    import json

    return {
        "number": entry.number,
        "at": entry.at,
        "verb": entry.verb,
        "memory_id": entry.memory_id,
        "bank": entry.bank,
        "actor": entry.actor,
        "provider": entry.provider,
        "detail": {k: v for k, v in json.loads(entry.detail).items() if k != "normal"},
        "digest": entry.digest,
    }
