"""`openmem context` verify, sql, sweep, pin, forget, scan-secrets, export: care of the stores."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import FAILED, Failed, NotFound, Usage
from openmem.base.installation import ensure_key
from openmem.cli.command import Run, command, run_of
from openmem.cli.commands.context import context as group
from openmem.cli.commands.context import session_id_of
from openmem.cli.envelope import Result
from openmem.cli.flow import Declined, typed
from openmem.cli.options import DryRun, Json, Yes
from openmem.cli.render.plan import counted

if TYPE_CHECKING:
    from openmem.context.care.forget import ForgetReceipt
    from openmem.context.care.select import Selected

_ROWS_NAMED = 12
_CHANGES = "changes the session stores for good; --dry-run shows what would go."
Session = Annotated[
    str, typer.Option("--session", help="This session; the start of its id will do.")
]


def add_to(app: typer.Typer) -> None:
    """The commands stand in the group `context`, which its own module adds."""


def _agree(run: Run, lines: list[str], *, yes: bool, question: str) -> None:
    """Ask before something goes for good. Usage without a terminal and `--yes`; Declined."""
    if yes:
        return
    if not run.console.is_interactive or run.is_json:
        raise Usage(
            f"{typed(run)} removes what is stored and nobody can be asked here.",
            hint="--yes goes on without asking; --dry-run shows what would go.",
        )
    from openmem.setup.ask import confirm

    run.console.say(*lines, "")
    if not confirm(question, is_final=True):
        raise Declined("nothing was changed.")


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
        lines=tuple(table.text().split("\n")),
    )


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
    yes: Yes = False,
    json: Json = False,
) -> Result:
    """Remove sessions nobody used for so many days, and payloads that no session names.

    Pinned sessions and those in use stay.
    """
    from openmem.base.config import load_config
    from openmem.cli.render.context import size_text
    from openmem.context.care.pending import finish_pending
    from openmem.context.care.sweep import due
    from openmem.context.care.sweep import sweep as act

    run = run_of(context)
    if not dry_run:
        finish_pending(run.paths)
    config = load_config(run.paths.config_file, run.paths.environ)
    ttl = days if days is not None else config.number("context.ttl_days")
    planned = due(run.paths, ttl, now=time.time())
    lines = [
        f"  - {entry.session_id}  {entry.age_days} days, {size_text(entry.size_bytes)}"
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
        return Result(data=data, lines=("Nothing to do.", *lines), notes=planned.notes)
    if dry_run:
        return Result(data=data, lines=(*lines, "Nothing is removed yet."), notes=planned.notes)
    _agree(run, lines, yes=yes, question="Remove these for good?")
    removed = data["removed"] = act(run.paths, planned, now=time.time())
    return Result(
        data=data,
        lines=(*lines, f"Removed {counted(removed, 'file')}."),
        notes=planned.notes,
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
    if off:
        remove_files([path])
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    word = "no longer pinned" if off else "pinned"
    return Result(data={"session_id": sid, "pinned": not off}, lines=(f"{sid} is {word}.",))


@command(
    group,
    "forget",
    short="Forget rows, sessions or words for good.",
    effect="changes files",
    effect_words=_CHANGES,
    example="openmem context forget --session 7f3a --row 412",
)
def forget(
    context: typer.Context,
    session: Session = "",
    row: Annotated[
        list[int] | None,
        typer.Option("--row", help="Only this row of the session; may be repeated."),
    ] = None,
    project: Annotated[
        str, typer.Option("--project", help="Every session of this folder's project.")
    ] = "",
    pattern: Annotated[
        str, typer.Option("--pattern", help="Rows with a line that this expression matches.")
    ] = "",
    secret: Annotated[
        str,
        typer.Option("--secret", help="- reads one secret from standard input; it is masked."),
    ] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> Result:
    """Remove what was said from every file of the store, so that it does not come back.

    A resent history does not bring it back: a mark without content stands in its place.
    """
    from openmem.cli.console import tilde
    from openmem.context.care.forget import forget_rows, forget_sessions, forget_word

    run = run_of(context)
    given = [bool(session), bool(project), bool(pattern), bool(secret)]
    if sum(given) != 1:
        raise Usage(
            "name one of --session (with or without --row), --project, --pattern, --secret."
        )
    if row and not session:
        raise Usage("--row needs --session.")
    key = ensure_key(run.paths)
    if (session and not row) or project:
        sids = [session_id_of(run, session)] if session else _sessions_of(run, project)
        lines = [f"  - session {sid}" for sid in sids]
        if dry_run:
            return _shown({"sessions": sids}, lines)
        _agree(run, lines, yes=yes, question="Forget these for good?")
        return _receipt(forget_sessions(run.paths, sids))
    word = _word_of(secret)
    chosen = _chosen(run, key, session=session, rows=row or [], pattern=pattern, word=word)
    copies = _copies(run, pattern=pattern, word=word, chosen=chosen)
    if not chosen and not copies:
        raise NotFound("nothing stored matches; nothing was changed.")
    lines = [f"  - session {c.entry.session_id}: {_rows_named(c.seqs)}" for c in chosen]
    lines += [f"  - {tilde(path, run.paths.home)}, a copy" for path in copies]
    if dry_run:
        rows = {c.entry.session_id: list(c.seqs) for c in chosen}
        return _shown({"rows": rows, "copies": copies}, lines)
    _agree(run, lines, yes=yes, question="Forget these for good?")
    if word:
        return _receipt(forget_word(run.paths, key, word, chosen))
    return _receipt(forget_rows(run.paths, key, chosen, copies))


def _rows_named(seqs: Sequence[int]) -> str:
    """Return which rows, so that a person can look at them with `context show --row` first."""
    named = ", ".join(map(str, seqs[:_ROWS_NAMED]))
    more = f" and {len(seqs) - _ROWS_NAMED} more" if len(seqs) > _ROWS_NAMED else ""
    return f"{'row' if len(seqs) == 1 else 'rows'} {named}{more}"


def _copies(run: Run, *, pattern: str, word: str, chosen: list[Selected]) -> list[str]:
    """Return the exports and damaged files that go, too."""
    from openmem.context.care.files import copies
    from openmem.context.care.select import copies_holding, copies_matching

    found = [path for c in chosen for path in copies(run.paths, c.entry.session_id)]
    if pattern:
        found += copies_matching(run.paths, pattern)
    if word:
        found += copies_holding(run.paths, word)
    return sorted(set(found))


def _word_of(secret: str) -> str:
    """Return the secret on standard input, "" when none is to be forgotten."""
    if not secret:
        return ""
    if secret != "-":
        raise Usage(
            "a secret on the command line ends in the shell's history.",
            hint="--secret - reads it from standard input.",
        )
    if sys.stdin.isatty():
        from openmem.setup.ask import unseen

        word = unseen("The secret (not shown):")
    else:
        word = sys.stdin.readline().rstrip("\r\n")
    if len(word) < 4:
        raise Usage("the secret on standard input is shorter than 4 characters.")
    return word


def _chosen(
    run: Run, key: bytes, *, session: str, rows: list[int], pattern: str, word: str
) -> list[Selected]:
    from openmem.context.care.select import Selected, select_literal, select_pattern
    from openmem.context.store.catalog import entry_of

    if pattern:
        return select_pattern(run.paths, pattern)
    if word:
        return select_literal(run.paths, word, key)
    entry = entry_of(run.paths, session_id_of(run, session))
    if entry is None:
        return []
    from openmem.context.store.reader import open_entry

    with open_entry(entry) as reader:
        known = tuple(seq for seq in rows if reader.row(seq) is not None)
    return [Selected(entry=entry, seqs=known)] if known else []


def _sessions_of(run: Run, folder: str) -> list[str]:
    from openmem.base.policy import bank_of, load_policy
    from openmem.base.workspace import workspace_of
    from openmem.context.store.catalog import entries

    policy = load_policy(run.paths.policy_file, run.paths.home)
    wanted = bank_of(policy, workspace_of(folder))
    found = [
        entry.session_id
        for entry in entries(run.paths)
        if wanted in (entry.workspace, entry.bank)
        or (entry.cwd and bank_of(policy, workspace_of(entry.cwd)) == wanted)
    ]
    if not found:
        raise NotFound(f"no stored session belongs to the project of {folder}.")
    return found


def _shown(data: dict[str, Any], lines: list[str]) -> Result:
    return Result(data={**data, "dry_run": True}, lines=(*lines, "Nothing is removed yet."))


def _receipt(receipt: ForgetReceipt) -> Result:
    data = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(receipt).items()}
    parts = [
        f"{counted(number, noun)}{rest}"
        for number, noun, rest in (
            (receipt.rows, "row", ""),
            (receipt.lines, "line", ""),
            (receipt.masked, "row", " masked"),
            (receipt.files, "file", ""),
            (receipt.blobs, "payload", ""),
        )
        if number
    ]
    lines = [f"Forgotten: {', '.join(parts) or 'nothing'}."]
    lines.append(f"In sessions: {', '.join(receipt.sessions)}." if receipt.sessions else "")
    if receipt.tombstones:
        marks, keep = counted(receipt.tombstones, "mark"), "s" if receipt.tombstones == 1 else ""
        lines.append(f"{marks} without content keep{keep} it from coming back.")
    lines += [f"Left: {place}." for place in receipt.left]
    if receipt.pending:
        lines.append(
            f"Pending: a reader holds old pages of {', '.join(receipt.pending)}; the freed bytes "
            "are overwritten when it has gone. Until then this is not done."
        )
    status = FAILED if receipt.pending else 0
    return Result(data=data, lines=tuple(line for line in lines if line), exit_status=status)


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
    yes: Yes = False,
    json: Json = False,
) -> Result:
    """Look for secrets in the stored sessions; exit 1 when there is one.

    Prints where and of which kind, never a value.
    """
    from openmem.context.care.scan import mask_stored, scan

    run = run_of(context)
    sid = session_id_of(run, session) if session else ""
    found = list(scan(run.paths, sid=sid))
    lines = [
        f"{f.session_id} #{f.seq} line {f.line}: {f.rule}"
        + (" (earlier system; forget the session to remove it)" if f.is_legacy else "")
        for f in found
    ]
    lines.append(f"{counted(len(found), 'secret')} found." if found else "No secret found.")
    data: dict[str, Any] = {"found": [asdict(f) for f in found], "masked": 0, "pending": []}
    if not fix or not found:
        status = FAILED if found and not fix else 0
        notes = ("Mask them:  openmem context scan-secrets --fix",) if found else ()
        return Result(data=data, lines=tuple(lines), notes=notes, exit_status=status)
    _agree(run, lines, yes=yes, question="Mask these for good?")
    masked = mask_stored(run.paths, ensure_key(run.paths), sid=sid)
    data["masked"], data["pending"] = masked.secrets, list(masked.pending)
    lines.append(f"Masked {masked.secrets} in {counted(masked.rows, 'row')}.")
    if masked.pending:
        lines.append(f"Pending: a reader holds old pages of {', '.join(masked.pending)}.")
    return Result(data=data, lines=tuple(lines), exit_status=FAILED if masked.pending else 0)


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
    with open_session(run.paths, session_id_of(run, session)) as reader:
        text = "".join(export_lines(reader, form, trimmed_only=trimmed))
    data: dict[str, Any] = {"session_id": reader.session_id, "format": form, "out": out}
    if not out:
        data["text"] = text
        return Result(data=data, lines=tuple(text.removesuffix("\n").split("\n")))
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise Failed(f"{out} exists already; it is left as it is.") from None
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    note = "This copy is yours: forgetting does not reach it."
    return Result(data=data, lines=(f"Wrote {out}.",), notes=(note,))
