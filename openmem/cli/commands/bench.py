"""`openmem bench`: what openmem costs, measured beside its floor in the same run."""

from __future__ import annotations

from typing import Annotated

import typer

from openmem.base.errors import CHANGES_PENDING, DONE, Usage
from openmem.cli.command import command, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Json


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "bench",
        short="Measure what openmem costs.",
        effect="read-only",
        effect_words="read-only; works in temporary folders and on loopback.",
        example="openmem bench hook",
    )(bench)


def bench(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="What to measure; left out, the names.", show_default=False),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", help="Samples; 0 is the bench's own number.")
    ] = 0,
    claude: Annotated[
        str, typer.Option("--claude", help="Path of Claude Code, for first-run.")
    ] = "",
    size: Annotated[
        str, typer.Option("--size", help="For context: R520,L640 and the like; R16000, L12800.")
    ] = "",
    arms: Annotated[
        str, typer.Option("--arms", help="For context: some of keep,drop,native,openmem.")
    ] = "",
    variants: Annotated[
        str,
        typer.Option(
            "--variants",
            help="For context: some of plain,echoing,forgetful,resumed,sub-agent,loop.",
        ),
    ] = "",
    window: Annotated[
        int, typer.Option("--window", help="For context: the model's window in tokens.", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="For context: of the task.")] = 42,
    data: Annotated[
        str, typer.Option("--data", help="For recall: the file of LoCoMo's conversations.")
    ] = "",
    transcripts: Annotated[
        str, typer.Option("--transcripts", help="For recall: Claude Code's files, for prompts.")
    ] = "",
    embeddings_url: Annotated[
        str, typer.Option("--embeddings-url", help="For recall-vectors: the endpoint's base.")
    ] = "http://127.0.0.1:11434/v1",
    embeddings: Annotated[
        str, typer.Option("--embeddings", help="For recall-vectors: the model that it serves.")
    ] = "",
    megabytes: Annotated[
        int, typer.Option("--megabytes", help="For import: size of the file; 0: 64.", min=0)
    ] = 0,
    json: Json = False,
) -> Result:
    """Measure one thing beside its floor; exit 3 when a limit is not held."""
    from openmem.bench.catalogue import BENCHES, run
    from openmem.bench.context.bench import wanted_of
    from openmem.cli.render.table import columns

    run_of(context)
    if name is None:
        lines = columns([[one, what] for one, what in BENCHES.items()])
        return Result(data={"benches": dict(BENCHES)}, lines=tuple(lines))
    if name not in BENCHES:
        raise Usage(f"there is no bench {name!r}.", hint=f"Known: {', '.join(sorted(BENCHES))}.")
    wanted = wanted_of(size=size, arms=arms, variants=variants, window=window, seed=seed)
    report = run(
        name,
        repeats=repeats,
        claude=claude,
        wanted=wanted,
        data=data,
        transcripts=transcripts,
        size_mb=megabytes,
        embeddings=(embeddings_url, embeddings),
    )
    return Result(
        data=report.as_json(),
        lines=tuple(report.lines()),
        exit_status=DONE if report.holds else CHANGES_PENDING,
    )
