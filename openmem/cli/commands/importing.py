"""`openmem context import`: the sessions that agents kept on disk, into the store."""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import FAILED, Failed, NotFound, PolicyDenied, Usage
from openmem.cli.command import Run, command, run_of
from openmem.cli.commands.context import context as group
from openmem.cli.envelope import Result
from openmem.cli.options import DryRun, Json

if TYPE_CHECKING:
    from openmem.index.sessions.places import Formats
    from openmem.index.sessions.report import Report

_DAY_SECONDS = 86_400
_AGE = re.compile(r"(\d{1,5})([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def add_to(app: typer.Typer) -> None:
    """The command stands in the group `context`, which its own module adds."""


@command(
    group,
    "import",
    short="Bring in the sessions that agents kept.",
    effect="changes files",
    effect_words="adds rows to the session stores; --dry-run reads and writes nothing.",
    example="openmem context import --since 90d --dry-run",
)
def import_(
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders; left out, where agents keep them.", metavar="PATH"),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Only this agent's sessions; may be repeated."),
    ] = None,
    since: Annotated[
        str,
        typer.Option("--since", help="Only sessions last used since then: 2026-09-01, 90d, 6m."),
    ] = "",
    dry_run: DryRun = False,
    json: Json = False,
) -> Result:
    """Read the sessions that agents keep on disk, and store what is not stored yet.

    The policy holds here too: what may not be stored is left where it is. Running it again adds
    only what is new.
    """
    from openmem.base.installation import ensure_key, read_key
    from openmem.cli.progress import Bar
    from openmem.index.sessions.gate import Gate
    from openmem.index.sessions.importing import Means
    from openmem.index.sessions.parallel import import_all
    from openmem.index.sessions.places import kept_by_agents, named
    from openmem.index.sessions.report import Report

    run = run_of(context)
    formats = _formats()
    agents = _known(agent or [], formats)
    begins = _seconds_of(since, time.time())
    problem = Gate(run.paths).problem
    if problem:
        raise PolicyDenied(f"nothing may be stored: {problem}.")
    report = Report()
    if paths:
        sources, report.unread = named(formats, paths, agents)
    else:
        sources = kept_by_agents(formats, run.paths.environ, run.paths.home, agents)
    # Without a key of this installation nothing is stored that could be known again.
    key = (read_key(run.paths) or bytes(32)) if dry_run else ensure_key(run.paths)
    with Bar(run.console) as bar:
        means = Means(
            paths=run.paths,
            key=key,
            readers=formats.readers,
            is_dry=dry_run,
            since=begins,
            progress=bar,
        )
        import_all(means, sources, report, processes=os.cpu_count() or 1)
    return _result(run, report, formats, dry_run=dry_run)


def _formats() -> Formats:
    from openmem.agents.transcripts.files import file_source, head_of
    from openmem.agents.transcripts.registry import READERS, reader_for, unread_format
    from openmem.index.sessions.places import Formats

    return Formats(
        readers=READERS,
        head_of=head_of,
        file_source=file_source,
        reader_for=reader_for,
        unread_format=unread_format,
    )


def _known(names: list[str], formats: Formats) -> tuple[str, ...]:
    from openmem.agents.base import AGENTS

    for name in names:
        if name in formats.readers:
            continue
        hint = f"Known: {', '.join(formats.readers)}."
        if name in AGENTS:
            raise NotFound(f"sessions that {AGENTS[name].title} keeps cannot be read.", hint=hint)
        raise Usage(f"there is no agent {name!r}.", hint=hint)
    return tuple(names)


def _seconds_of(text: str, now: float) -> float:
    """Return the POSIX time that `--since` names, 0 when it is left out. Usage."""
    if not text:
        return 0.0
    age = _AGE.fullmatch(text)
    if age:
        return now - int(age[1]) * _DAYS[age[2]] * _DAY_SECONDS
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise Usage(
            f"--since is {text!r}, expected a day or an age.", hint="2026-09-01, 90d, 6m."
        ) from None


def _result(run: Run, report: Report, formats: Formats, *, dry_run: bool) -> Result:
    from openmem.base.config import load_config
    from openmem.cli.console import tilde
    from openmem.cli.render.importing import import_lines

    data: dict[str, Any] = {**asdict(report), "dry_run": dry_run}
    data["sessions"] = [asdict(session) for session in report.sessions.values()]
    data["added"], data["known"] = report.added, report.known
    data["seconds"] = round(report.seconds, 3)
    titles = {name: reader.title for name, reader in formats.readers.items()}
    lines = [
        tilde(line, run.paths.home) for line in import_lines(data, titles, width=run.console.width)
    ]
    notes: list[str] = []
    if report.denied:
        notes.append("What the policy lets be stored:  openmem policy show")
    if dry_run:
        notes.append("Nothing is stored yet.")
    elif report.added:
        days = load_config(run.paths.config_file, run.paths.environ).number("context.ttl_days")
        if days:
            notes.append(f"Kept for {days} days from now, or as context.ttl_days says.")
        notes.append("Search them:  openmem context search WORDS")
    problems = tuple(
        Failed(f"{entry.path}: {entry.why}", code="unread")
        for entry in report.unread
        if entry.is_fault
    )
    if problems:
        notes.insert(0, "What could not be read or stored is tried again by the next import.")
    is_useless = bool(problems) and not report.sessions and not report.unchanged
    return Result(
        data=data,
        lines=tuple(lines),
        notes=tuple(notes),
        exit_status=FAILED if is_useless else 0,
        # A person has them in the lines, each with its file, and not twice.
        problems=problems if run.is_json else (),
    )
