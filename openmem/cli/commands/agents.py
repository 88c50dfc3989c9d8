"""`openmem hook` and `openmem mcp`: what agents run. Both are here for help; `__main__` answers
them before the command line is loaded."""

from __future__ import annotations

from typing import Annotated

import typer

from openmem.cli.command import command
from openmem.cli.envelope import Result


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "mcp",
        short="Serve the search tools (run by agents).",
        effect="run by agents",
        example="openmem mcp",
    )(mcp)
    command(
        app,
        "hook",
        short="Answer a session's event (run by agents).",
        effect="run by agents",
        example="openmem hook session-start --agent claude-code",
    )(hook)


def mcp(context: typer.Context) -> Result:
    """Serve the search tools to an agent on standard input and output."""
    from openmem.mcp.__main__ import run

    return Result(exit_status=run())


def hook(
    context: typer.Context,
    event: Annotated[str, typer.Argument(help="session-start, prompt or stop.")],
    agent: Annotated[str, typer.Option("--agent", help="Whose event it is.")] = "claude-code",
) -> Result:
    """Answer one event of an agent's session, its JSON on standard input."""
    from openmem.hook.client import main

    return Result(exit_status=main([event, "--agent", agent]))
