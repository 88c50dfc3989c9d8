"""`openmem context` verify, sql, sweep, pin, scan-secrets, export: care of the stores."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from openmem.base.counts import counted
from openmem.base.errors import FAILED, Failed, StoreUnavailable, Usage
from openmem.base.installation import ensure_key, read_key
from openmem.base.io import naming
from openmem.cli.command import Run, command, run_of
from openmem.cli.commands.context import context as group
from openmem.cli.commands.context import session_id_of
from openmem.cli.envelope import Result
from openmem.cli.flow import agree_for_good, typed
from openmem.cli.options import DryRun, Json, Session, YesForGood

_CHANGES = "changes the session stores for good; --dry-run shows what would go."
_PATIENCE_SECONDS = 2.0


def add_to(app: typer.Typer) -> None:
    """The commands stand in the group `context`, which its own module adds."""


@command(
    group,
    "verify",
    short="Check stored sessions against themselves.",
    effect="read-only",
    example="openmem context verify",
)
def verify(
    context: typer.Context,
    session: Annotated[
        str | None, typer.Argument(help="One session; all when left out.", show_default=False)
    ] = None,
    json: Json = False,
) -> Result:
    """Recompute digests, links and sums of the stored sessions. Exit 1 when something is off."""
    from openmem.base.errors import OpenmemError
    from openmem.context.store.catalog import entries
    from openmem.context.store.verify import verify as check

    run = run_of(context)
    sids = (
        [session_id_of(run, session)]
        if session
        else [entry.session_id for entry in entries(run.paths)]
    )
    problems: list[dict[str, Any]] = []
    for sid in sids:
        try:
            found = [{"seq": p.seq, "what": p.what} for p in check(run.paths, sid)]
        except OpenmemError as error:
            found = [{"seq": 0, "what": error.message}]
        problems += [{"session_id": sid, **entry} for entry in found]
    lines = [
        f"{p['session_id']}" + (f" #{p['seq']}" if p["seq"] else "") + f": {p['what']}"
        for p in problems
    ]
    lines.append(f"{counted(len(sids), 'session')} checked, {counted(len(problems), 'problem')}.")
    return Result(
        data={"sessions": len(sids), "problems": problems},
        lines=tuple(lines),
        exit_status=FAILED if problems else 0,
    )


@command(
    group,
    "sql",
    short="Ask one session with SQL.",
    effect="read-only",
    example='openmem context sql 7f3a "SELECT role, count(*) FROM lines GROUP BY role"',
)
def sql(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="A session; the start of its id will do.")],
    statement: Annotated[str, typer.Argument(help="One SELECT or WITH … SELECT.")],
    json: Json = False,
) -> Result:
    """Run one SELECT on a session: relations messages, lines, events, threads; 200 rows at most."""
    from openmem.context.sandbox.sql import run_sql
    from openmem.context.store.catalog import entry_of

    run = run_of(context)
    entry = entry_of(run.paths, session_id_of(run, session))
    assert entry is not None
    table = run_sql(entry.path, statement)
    return Result(
        data={
            "columns": list(table.columns),
            "rows": [list(row) for row in table.rows],
            "truncated": table.is_truncated,
        },
        lines=_stored_lines(run, table.text()),
    )


def _stored_lines(run: Run, text: str) -> tuple[str, ...]:
    """Return stored text as lines of data: exact in a pipe, harmless on a terminal."""
    from openmem.cli.console import visible

    return tuple((visible(text) if run.console.stdout.isatty() else text).split("\n"))


@command(
    group,
    "sweep",
    short="Remove sessions past their time.",
    effect="changes files",
    effect_words=_CHANGES,
    example="openmem context sweep --dry-run",
)
def sweep(
    context: typer.Context,
    days: Annotated[
        int | None,
        typer.Option("--days", help="Instead of the setting context.ttl_days.", min=1),
    ] = None,
    dry_run: DryRun = False,
    yes: YesForGood = False,
    json: Json = False,
) -> Result:
    """Remove sessions nobody used for so many days, and payloads that no session names.

    Pinned sessions and those in use stay.
    """
    from openmem.base.config import load_config
    from openmem.base.counts import size_text
    from openmem.cli.render.care import PENDING
    from openmem.context.care.pending import finish_pending
    from openmem.context.care.sweep import due
    from openmem.context.care.sweep import sweep as act

    run = run_of(context)
    notes: list[str] = []
    if not dry_run and (held := finish_pending(run.paths)):
        notes.append(f"Not overwritten yet: {PENDING} in {', '.join(held)}.")
    config = load_config(run.paths.config_file, run.paths.environ)
    ttl = days if days is not None else config.number("context.ttl_days")
    planned = due(run.paths, ttl, now=time.time())
    notes += planned.notes
    lines = [
        f"  - {entry.session_id}  {counted(entry.age_days, 'day')}, {size_text(entry.size_bytes)}"
        f"{_folder_of(run, entry.session_id)}"
        for entry in planned.sessions
    ]
    if planned.blobs:
        size = size_text(planned.blob_bytes)
        lines.append(f"  - {counted(len(planned.blobs), 'payload')} that no session names, {size}")
    lines += [f"  = {sid}  stays: {why}" for sid, why in planned.kept]
    data = {
        "ttl_days": ttl,
        "sessions": [
            {"session_id": e.session_id, "age_days": e.age_days, "bytes": e.size_bytes}
            for e in planned.sessions
        ],
        "blobs": len(planned.blobs),
        "kept": [{"session_id": sid, "why": why} for sid, why in planned.kept],
        "removed": 0,
    }
    if not planned.sessions and not planned.blobs:
        never = () if ttl else ("Sessions are kept for ever (context.ttl_days is 0).",)
        return Result(data=data, lines=("Nothing to do.", *lines, *never), notes=tuple(notes))
    what = f"openmem will remove what nobody used for {counted(ttl, 'day')}, for good."
    lines = [what, "", *lines, ""]
    if dry_run:
        lines += ["Nothing is removed yet.", "", f"Go:  {typed(run)}"]
        return Result(data=data, lines=tuple(lines), notes=tuple(notes))
    agree_for_good(run, lines[:-1], yes=yes, question="Remove these for good?")
    removed = data["removed"] = act(run.paths, planned, now=time.time())
    return Result(
        data=data,
        lines=(*lines, f"Removed {counted(removed, 'file')}."),
        notes=tuple(notes),
    )


def _folder_of(run: Run, sid: str) -> str:
    from openmem.cli.console import tilde
    from openmem.context.session import read_registration

    registration = read_registration(run.paths, sid)
    return f", {tilde(registration.cwd, run.paths.home)}" if registration else ""


@command(
    group,
    "pin",
    short="Keep a session from being swept.",
    effect="changes files",
    effect_words="marks a session; `--off` takes the mark away.",
    example="openmem context pin 7f3a",
)
def pin(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="A session; the start of its id will do.")],
    off: Annotated[bool, typer.Option("--off", help="Take the pin away.")] = False,
    json: Json = False,
) -> Result:
    """Pin a session, so that no sweep removes it."""
    from openmem.context.care.files import remove_files
    from openmem.context.care.sweep import pin_file

    run = run_of(context)
    sid = session_id_of(run, session)
    path = pin_file(run.paths, sid)
    data = {"session_id": sid, "pinned": not off}
    if os.path.exists(path) != off:
        word = "not pinned" if off else "pinned already"
        return Result(data=data, lines=(f"Nothing to do: {sid} is {word}.",))
    if off:
        remove_files([path])
        return Result(data=data, lines=(f"{sid} is no longer pinned.",))
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return Result(data=data, lines=(f"{sid} is pinned: no sweep removes it.",))


@command(
    group,
    "scan-secrets",
    short="Look for secrets in what is stored.",
    effect="read-only",
    effect_words="read-only; with --fix it masks what it found, for good.",
    example="openmem context scan-secrets",
)
def scan_secrets(
    context: typer.Context,
    session: Session = "",
    fix: Annotated[bool, typer.Option("--fix", help="Mask what is found, in place.")] = False,
    yes: YesForGood = False,
    json: Json = False,
) -> Result:
    """Look for secrets in the stored sessions; exit 1 when there is one.

    Prints where and of which kind, never a value.
    """
    from openmem.cli.console import tilde
    from openmem.cli.render.care import PENDING
    from openmem.context.care.scan import mask_stored, scan

    run = run_of(context)
    sid = session_id_of(run, session) if session else ""
    scanned = scan(run.paths, sid=sid, progress=_progress(run))
    found, in_files = scanned.found, scanned.in_files
    lines = [
        f"{f.session_id} #{f.seq} line {f.line}: {f.rule}"
        + (" (earlier system; forget the session to remove it)" if f.is_legacy else "")
        for f in found
    ]
    lines += [
        f"{tilde(f.path, run.paths.home)}: {f.count} {f.rule} (a copy; remove it by hand)"
        for f in in_files
    ]
    count = len(found) + sum(f.count for f in in_files)
    lines.append(f"{counted(count, 'secret')} found." if count else "No secret found.")
    data: dict[str, Any] = {
        "found": [asdict(f) for f in found],
        "in_files": [asdict(f) for f in in_files],
        "masked": 0,
        "pending": [],
    }
    problems = tuple(StoreUnavailable(why) for why in scanned.unread)
    maskable = [f for f in found if not f.is_legacy]
    if not fix or not maskable:
        notes = ("Mask them:  openmem context scan-secrets --fix",) if maskable else ()
        status = FAILED if count else 0
        return Result(
            data=data, lines=tuple(lines), notes=notes, exit_status=status, problems=problems
        )
    agree_for_good(run, lines, yes=yes, question="Mask these for good?")
    masked = mask_stored(run.paths, ensure_key(run.paths), maskable)
    data["masked"], data["pending"] = masked.secrets, list(masked.pending)
    lines.append(f"Masked {counted(masked.secrets, 'secret')} in {counted(masked.rows, 'row')}.")
    if masked.pending:
        lines.append(f"Pending: {PENDING} in {', '.join(masked.pending)}.")
    is_left = bool(masked.pending) or count > len(maskable)
    return Result(
        data=data, lines=tuple(lines), exit_status=FAILED if is_left else 0, problems=problems
    )


def _progress(run: Run) -> Callable[[int, int], None]:
    """Return what tells a person who waits at a terminal; elsewhere nothing is said."""
    last = [time.monotonic()]

    def tell(done: int, of: int) -> None:
        if run.console.is_interactive and time.monotonic() - last[0] > _PATIENCE_SECONDS:
            last[0] = time.monotonic()
            run.console.say(f"{done} of {counted(of, 'session')} …")

    return tell


@command(
    group,
    "export",
    short="Write a session as JSON lines or Markdown.",
    effect="read-only",
    effect_words="read-only; with --out it writes one new file, mode 600.",
    example="openmem context export 7f3a --format markdown --out session.md",
)
def export(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="A session; the start of its id will do.")],
    form: Annotated[str, typer.Option("--format", help="jsonl or markdown.")] = "jsonl",
    out: Annotated[
        str, typer.Option("--out", help="A new file; standard output when left out.")
    ] = "",
    trimmed: Annotated[
        bool, typer.Option("--trimmed", help="Only rows that are no longer sent to the model.")
    ] = False,
    json: Json = False,
) -> Result:
    """Write a session's rows as stored, masked, in order."""
    from openmem.context.care.export import FORMATS, export_lines
    from openmem.context.store.reader import open_session

    run = run_of(context)
    if form not in FORMATS:
        raise Usage(f"--format is {form!r}, expected {' or '.join(FORMATS)}.")
    key = read_key(run.paths) or bytes(32)  # without one only an earlier system stored
    note = "This copy is yours: forgetting does not reach it."
    with open_session(run.paths, session_id_of(run, session)) as reader:
        texts = export_lines(reader, form, key, trimmed_only=trimmed)
        data: dict[str, Any] = {"session_id": reader.session_id, "format": form, "out": out}
        if out:
            _write_new(out, texts)
            return Result(data=data, lines=(f"Wrote {out}.",), notes=(note,))
        text = "".join(texts)
    data["text"] = text
    return Result(data=data, lines=_stored_lines(run, text.removesuffix("\n")))


def _write_new(path: str, texts: Iterable[str]) -> None:
    """Write a new file, whole or not at all. Failed when there is one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Failed(f"{path} exists already; it is left as it is.") from None
    try:
        with naming(path), os.fdopen(descriptor, "wb") as file:
            for text in texts:
                file.write(text.encode("utf-8", "backslashreplace"))
    except BaseException:
        with contextlib.suppress(OSError):  # the first fault is the one to report
            os.unlink(path)
        raise
