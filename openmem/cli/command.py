"""How a command is declared: a sentence, an example, an effect; and what its body is given.

A body imports what it runs, does one thing and returns a `Result`; printing, the envelope and
exit codes belong to `app.run`. Every command says in its help whether it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from openmem.base.paths import Paths

if TYPE_CHECKING:
    from openmem.cli.console import Console

Effect = Literal["read-only", "changes files", "runs until stopped", "run by agents"]
Body = TypeVar("Body", bound=Callable[..., Any])

EFFECTS: dict[Effect, str] = {
    "read-only": "read-only.",
    "changes files": "changes files through a plan: --dry-run shows it, `openmem undo` reverts it.",
    "runs until stopped": "starts or stops a process; changes no settings of yours.",
    "run by agents": "run by agents, not by hand.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the command line. `argv`: without the program's name."""

    argv: tuple[str, ...]
    console: Console
    paths: Paths
    is_json: bool


def run_of(context: typer.Context) -> Run:
    """Return what `app.run` handed to the command."""
    run = context.find_root().obj
    assert isinstance(run, Run)
    return run


def group(name: str, sentence: str) -> typer.Typer:
    """Return a group of commands; alone it prints its help."""
    return typer.Typer(
        name=name,
        help=sentence,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
    )


def command(
    app: typer.Typer,
    name: str,
    *,
    effect: Effect,
    example: str,
    short: str,
    effect_words: str = "",
) -> Callable[[Body], Body]:
    """Declare a command. Its docstring is the sentence of its help, `short` its line in lists."""

    def register(body: Body) -> Body:
        sentence = cleandoc(body.__doc__ or "")
        text = f"{sentence}\n\nEffect: {effect_words or EFFECTS[effect]}\n\nExample: {example}"
        app.command(name, help=text, short_help=short)(body)
        return body

    return register
