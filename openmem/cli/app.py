"""The command line: one place where commands are joined, errors become exit codes, and data
becomes text or the JSON envelope.

Nothing heavy is imported before a command's body runs, so `--help` answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from openmem import __version__
from openmem.base.errors import DONE, FAILED, INTERNAL, INTERRUPTED, Failed, OpenmemError, Usage
from openmem.base.paths import Paths
from openmem.cli.command import Run, run_of
from openmem.cli.console import Console, abandon
from openmem.cli.envelope import Result, envelope_of, envelope_of_error, text_of

app = typer.Typer(
    name="openmem",
    help=(
        "Keep what coding agents forget: every message of every session, searchable, "
        "and one memory for every agent.\n\n"
        "Start here: openmem setup. Alone on a terminal, openmem does the same."
    ),
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> Result | None:
    if version:
        raise _Answered(Result(lines=(f"openmem {__version__}",)))
    if context.invoked_subcommand is not None:
        return None
    run = run_of(context)
    if run.console.is_interactive:
        from openmem.cli.commands.setup import wizard

        raise _Answered(wizard(run))
    raise _Answered(Result(lines=tuple(context.get_help().splitlines())))


class _Answered(Exception):
    """The root callback answered by itself; its value would otherwise be lost."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


def _join() -> None:
    """Add every command, in the order in which help lists them."""
    from openmem.cli.commands import (
        agents,
        bank,
        bench,
        care,
        completion,
        config,
        context,
        doctor,
        forget,
        importing,
        insight,
        memory,
        memory_care,
        memory_files,
        plans,
        policy,
        proxy,
        setup,
        stack,
        status,
        uninstall,
        wiring,
    )

    for module in (
        setup,
        plans,
        uninstall,
        wiring,
        status,
        stack,
        context,
        care,
        forget,
        importing,
        insight,
        memory,
        memory_care,
        memory_files,
        bank,
        policy,
        proxy,
        doctor,
        config,
        completion,
        bench,
        agents,
    ):
        module.add_to(app)


_join()


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit status. Prints; never raises but SystemExit."""
    console = Console.of_process()
    if argv[:1] == ["--install-completion"]:  # as other programs call it
        argv = ["completion", *argv[1:]]
    run_ = Run(
        argv=tuple(argv),
        console=console,
        paths=Paths(os.environ),
        is_json="--json" in argv,
    )
    try:
        status = _report(run_, _invoke(run_))
    except BrokenPipeError:
        abandon(console.stdout)
        return DONE  # the reader had enough, as `| head` has
    except OSError as error:
        abandon(console.stdout)
        console.complain(f"standard output: {error.strerror or type(error).__name__}.", "")
        return FAILED
    try:
        console.stdout.flush()
    except OSError:  # told already: a parser that printed its own help met it
        abandon(console.stdout)
        return status or FAILED
    return status


def _invoke(run_: Run) -> Result | OpenmemError:
    try:
        value = app(args=list(run_.argv), prog_name="openmem", standalone_mode=False, obj=run_)
    except _Answered as answered:
        return answered.result
    except OpenmemError as error:
        return error
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, typer.Abort):
        return _Interrupted("interrupted.")
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return Failed(f"{place}{error.strerror or type(error).__name__}.")
    except Exception as error:  # noqa: BLE001  the one place where a fault of ours becomes a report
        return _usage_of(error) or _internal(run_, error)
    if isinstance(value, Result):
        return value
    if value == INTERRUPTED:
        return _Interrupted("interrupted.")
    return Result(exit_status=value if isinstance(value, int) else DONE)


class _Interrupted(OpenmemError):
    code = "interrupted"
    exit_status = INTERRUPTED


class _Internal(OpenmemError):
    code = "internal"
    exit_status = INTERNAL


def _usage_of(error: Exception) -> OpenmemError | None:
    """Return the parser's own complaint as a usage error, None for any other fault.

    Told by shape: where the parser's classes live differs between versions of typer.
    """
    format_message = getattr(error, "format_message", None)
    if format_message is None or not hasattr(error, "exit_code"):
        return None
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "openmem"
    message = str(format_message()).strip()
    children = getattr(getattr(context, "command", None), "commands", None)
    if children and (not message or type(error).__name__ == "NoArgsIsHelpError"):
        message = f"`{path}` needs a command: {', '.join(children)}."
    hint = f"See `{path} --help`."
    if type(error).__name__ == "NoSuchOption" and _takes_words(context):
        hint += " A word that begins with - stands behind --."
    return Usage(_sentence(message), hint=hint)


def _takes_words(context: Any) -> bool:
    parameters = getattr(getattr(context, "command", None), "params", ())
    return any(getattr(each, "param_type_name", "") == "argument" for each in parameters)


def _sentence(message: str) -> str:
    message = message[:1].lower() + message[1:] if message[:2].istitle() else message
    return message if message.endswith((".", "?", "!")) else message + "."


def _internal(run_: Run, error: Exception) -> OpenmemError:
    from openmem.cli.fault import write_report

    path = write_report(run_.paths, error, command_words(run_.argv))
    told = f"The report is {path}; it holds no content of yours." if path else ""
    return _Internal(f"a fault of ours: {type(error).__name__}.", hint=told)


def command_words(argv: Sequence[str]) -> str:
    """Return the words of `argv` that name a command: "context search"; "" when there are none."""
    words: list[str] = []
    node: Any = typer.main.get_command(app)
    for word in argv:
        children = getattr(node, "commands", None)
        if not children:
            break
        if word.startswith("-"):
            continue
        if word not in children:
            break
        words.append(word)
        node = children[word]
    return " ".join(words)


def _report(run_: Run, outcome: Result | OpenmemError) -> int:
    console = run_.console
    if isinstance(outcome, OpenmemError):
        if run_.is_json:
            console.out([text_of(envelope_of_error(command_words(run_.argv), outcome))])
        console.complain(outcome.message, outcome.hint)
        return outcome.exit_status
    if run_.is_json:
        console.out([text_of(envelope_of(command_words(run_.argv), outcome))])
    else:
        console.out(outcome.lines)
        console.say(*outcome.notes)
    for problem in outcome.problems:
        console.complain(problem.message, problem.hint)
    return outcome.exit_status
