"""`openmem memory` export, import: memories as a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import FAILED, Failed, Usage
from openmem.cli.command import command, run_of
from openmem.cli.commands.memory import memory
from openmem.cli.envelope import Result
from openmem.cli.memories import imported, opened, scope_here
from openmem.cli.options import Bank, DryRun, Json

if TYPE_CHECKING:
    from openmem.memory.model import Memory


def add_to(app: typer.Typer) -> None:
    """The commands stand in the group `memory`, which its own module adds."""


@command(
    memory,
    "export",
    short="Write memories to a file.",
    effect="read-only",
    effect_words="read-only; with --out it writes one new file, mode 600.",
    example="openmem memory export --out memories.jsonl",
)
def export(
    context: typer.Context,
    bank: Bank = "",
    all_banks: Annotated[bool, typer.Option("--all-banks", help="Every bank.")] = False,
    form: Annotated[str, typer.Option("--format", help="jsonl or json.")] = "jsonl",
    passages: Annotated[bool, typer.Option("--passages", help="Also kept turns.")] = False,
    out: Annotated[
        str, typer.Option("--out", help="A new file; standard output when left out.")
    ] = "",
    json: Json = False,
) -> Result:
    """Write the statements of this folder's project in PMM version 1, as JSON lines or one file."""
    from openmem.memory.portability import document, exported, json_lines

    run = run_of(context)
    scope = scope_here(run)
    if form not in ("jsonl", "json"):
        raise Usage(f"--format is {form!r}, expected jsonl or json.")
    if bank and all_banks:
        raise Usage("give --bank or --all-banks, not both.")
    with opened(run, scope) as memories:
        banks = [name for name, *_ in memories.ledger.banks()] if all_banks else [bank]
        found: Iterator[Memory] = chain.from_iterable(
            exported(memories, scope, bank=one, with_passages=passages) for one in banks
        )
        held = list(found)
    name = "" if all_banks else bank or scope.bank
    text = document(held, name) + "\n" if form == "json" else _joined(json_lines(held))
    data: dict[str, Any] = {"bank": name, "memories": len(held), "out": out, "format": form}
    if not out:
        data["text"] = text
        return Result(data=data, lines=tuple(text.removesuffix("\n").split("\n")) if text else ())
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Failed(f"{out} exists already; it is left as it is.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    return Result(data=data, lines=(f"Wrote {len(held)} memories to {out}.",))


def _joined(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@command(
    memory,
    "import",
    short="Take memories in from a file.",
    effect="changes files",
    effect_words="adds what is new; what was forgotten here stays forgotten.",
    example="openmem memory import memories.jsonl --dry-run",
)
def import_(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="PMM 1, JSON lines or one document; - reads it.")],
    bank: Bank = "",
    own_banks: Annotated[
        bool, typer.Option("--own-banks", help="Into the banks that the records name.")
    ] = False,
    pending: Annotated[
        bool, typer.Option("--pending", help="All wait for review, whatever the file states.")
    ] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> Result:
    """Take in what a file holds: what is new, masked. A bad line is named; the others come in."""
    from openmem.cli.render.memory import imported_lines
    from openmem.memory.importing import import_records

    run = run_of(context)
    scope = scope_here(run)
    try:
        data = sys.stdin.buffer.read() if file == "-" else _read(file)
    except FileNotFoundError:
        raise Usage(f"there is no file {file}.") from None
    scope.bank_to_write(bank)  # a denied folder leaves no file behind
    with opened(run, scope, "dry" if dry_run else "write") as memories:
        outcome = imported(
            import_records(
                memories,
                scope,
                data,
                key=memories.key,
                bank=bank,
                own_banks=own_banks,
                as_pending=pending,
                dry_run=dry_run,
            )
        )
    lines = imported_lines(outcome, is_dry=dry_run)
    problems = tuple(
        Failed(f"line {entry['line']}: {entry['why']}.", code="bad-record")
        for entry in outcome["errors"]
    )
    read = ("added", "known", "forgotten", "replaced")
    is_useless = bool(problems) and not any(outcome[name] for name in read)
    return Result(
        data={**outcome, "dry_run": dry_run},
        lines=tuple(lines),
        problems=problems if run.is_json else (),
        exit_status=FAILED if is_useless else 0,
    )


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
