"""`openmem context forget`: rows, sessions, projects, words, for good."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.counts import counted
from openmem.base.errors import FAILED, NotFound, Usage
from openmem.base.installation import ensure_key
from openmem.cli.command import Run, command, run_of
from openmem.cli.commands.context import context as group
from openmem.cli.commands.context import session_id_of
from openmem.cli.envelope import Result
from openmem.cli.flow import agree_for_good, typed
from openmem.cli.options import DryRun, Json, Session, YesForGood

if TYPE_CHECKING:
    from openmem.context.care.files import SessionFiles
    from openmem.context.care.receipt import ForgetReceipt
    from openmem.context.care.select import Selection

_SHORTEST = 4
_LONGEST_BYTES = 1 << 20
_QUESTION = "Forget this for good?"


def add_to(app: typer.Typer) -> None:
    """The command stands in the group `context`, which its own module adds."""


@command(
    group,
    "forget",
    short="Forget rows, sessions or words for good.",
    effect="changes files",
    effect_words="changes the session stores for good; --dry-run shows what would go.",
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
    yes: YesForGood = False,
    json: Json = False,
) -> Result:
    """Remove what was said from every file of the store, so that it does not come back.

    A resent history does not bring it back: a mark without content stands in its place. A row that
    says the same elsewhere goes, too. A session is forgotten as that conversation: another one that
    reads the same file is kept.
    """
    run = run_of(context)
    if sum(map(bool, (session, project, pattern, secret))) != 1:
        raise Usage(
            "name one of --session (with or without --row), --project, --pattern, --secret."
        )
    if row and not session:
        raise Usage("--row needs --session.")
    if project or (session and not row):
        sids = [session_id_of(run, session)] if session else _sessions_of(run, project)
        return _forget_sessions(run, sids, dry_run=dry_run, yes=yes)
    if session:
        return _forget_rows(run, session, row or [], dry_run=dry_run, yes=yes)
    if pattern:
        return _forget_pattern(run, pattern, dry_run=dry_run, yes=yes)
    return _forget_word(run, _word_of(secret), dry_run=dry_run, yes=yes)


def _forget_sessions(run: Run, sids: list[str], *, dry_run: bool, yes: bool) -> Result:
    from openmem.cli.render.care import session_line, staying_lines
    from openmem.context.care.files import session_files
    from openmem.context.care.forget import forget_sessions
    from openmem.context.care.forks import forks_of

    home, width = run.paths.home, run.console.width
    files = {group.session_id: group for group in session_files(run.paths)}
    facts = [_facts_of(run, sid, files.get(sid)) for sid in sids]
    lines = [f"openmem will forget {counted(len(sids), 'session')} for good.", ""]
    lines += [session_line(each, home, width) for each in facts]
    forks = [
        f"session {sid}, {counted(count, 'row')} of the same conversation; "
        f"`openmem context forget --session {sid}` removes it"
        for sid, count in forks_of(run.paths, sids)
    ]
    if forks:
        lines += ["", "It stays in:", *staying_lines(forks, home, width)]
    if dry_run:
        return _shown(run, {"sessions": sids, "left": forks}, lines)
    agree_for_good(run, lines, yes=yes, question=_QUESTION)
    return _told(run, forget_sessions(run.paths, ensure_key(run.paths), sids), forks)


def _forget_rows(run: Run, session: str, rows: list[int], *, dry_run: bool, yes: bool) -> Result:
    from openmem.context.care.forget import forget_rows
    from openmem.context.care.select import select_rows
    from openmem.context.store.catalog import entry_of

    entry = entry_of(run.paths, session_id_of(run, session))
    assert entry is not None
    selection = select_rows(run.paths, entry, rows)
    if not selection:
        return Result(
            data={"rows": {}, "copies": [], "dry_run": dry_run},
            lines=("Nothing to do: forgotten already.",),
        )
    if not _is_any(selection):
        raise _nothing(selection)
    lines, data = _plan(run, selection, [], [])
    if dry_run:
        return _shown(run, data, lines)
    agree_for_good(run, lines, yes=yes, question=_QUESTION)
    return _told(run, forget_rows(run.paths, ensure_key(run.paths), selection))


def _forget_pattern(run: Run, pattern: str, *, dry_run: bool, yes: bool) -> Result:
    from openmem.context.care.forget import forget_rows
    from openmem.context.care.places import copies_matching, others_matching
    from openmem.context.care.select import rule_of, select_pattern

    rule = rule_of(pattern)
    selection = select_pattern(run.paths, pattern)
    copies = _copies_of(run, selection, copies_matching(run.paths, rule))
    if not (_is_any(selection) or copies):
        raise _nothing(selection)
    left = [other.sentence for other in others_matching(run.paths, rule)]
    lines, data = _plan(run, selection, copies, left)
    if dry_run:
        return _shown(run, data, lines)
    agree_for_good(run, lines, yes=yes, question=_QUESTION)
    receipt = forget_rows(run.paths, ensure_key(run.paths), selection, copies)
    left = [other.sentence for other in others_matching(run.paths, rule)]
    return _told(run, receipt, left)


def _forget_word(run: Run, word: str, *, dry_run: bool, yes: bool) -> Result:
    from openmem.base.installation import read_key
    from openmem.context.care.forget import forget_word
    from openmem.context.care.places import copies_holding, others_holding
    from openmem.context.care.select import masked_before, select_literal
    from openmem.context.store.catalog import entries

    key = read_key(run.paths)
    if key is None:  # lost, or nothing was ever stored: then looking makes none
        key = ensure_key(run.paths) if entries(run.paths) and not dry_run else bytes(32)
    selection = select_literal(run.paths, word, key)
    copies = _copies_of(run, selection, copies_holding(run.paths, word))
    if not (_is_any(selection) or copies):
        masked = 0 if selection else masked_before(run.paths, word, key)
        raise _nothing(selection, masked=masked)
    left = [other.sentence for other in others_holding(run.paths, word)]
    lines, data = _plan(run, selection, copies, left)
    if dry_run:
        return _shown(run, data, lines)
    agree_for_good(run, lines, yes=yes, question=_QUESTION)
    return _told(run, forget_word(run.paths, key, word, selection))


def _is_any(selection: Selection) -> bool:
    """Return whether any of it can be taken out: an earlier system's files are only read."""
    return any(not choice.entry.is_legacy for choice in selection.selected)


def _nothing(selection: Selection, *, masked: int = 0) -> NotFound:
    if selection.selected:
        sids = [choice.entry.session_id for choice in selection.selected]
        return NotFound(
            f"only {', '.join(sids)} holds it, which an earlier system wrote: no row can be taken "
            "out of it; nothing was changed.",
            hint=f"`openmem context forget --session {sids[0]}` removes the whole session.",
        )
    unread = f" Not looked into: {' '.join(selection.unread)}" if selection.unread else ""
    if masked:
        held = f"{counted(masked, 'row')} held it, masked before: nothing is left of it"
        return NotFound(f"{held}; nothing was changed.{unread}")
    return NotFound(f"nothing stored matches; nothing was changed.{unread}")


def _copies_of(run: Run, selection: Selection, found: list[str]) -> list[str]:
    """Return the exports and damaged files that go, too."""
    from openmem.context.care.files import copies

    sids = [choice.entry.session_id for choice in selection.selected if not choice.entry.is_legacy]
    return sorted({*found, *(path for sid in sids for path in copies(run.paths, sid))})


def _plan(
    run: Run, selection: Selection, copies: list[str], left: list[str]
) -> tuple[list[str], dict[str, Any]]:
    """Return what will go, as lines and as data."""
    from openmem.cli.console import tilde
    from openmem.cli.render.care import chosen_lines, staying_lines

    going = [choice for choice in selection.selected if not choice.entry.is_legacy]
    rows = sum(len(choice.rows) for choice in going)
    parts = [
        f"{counted(rows, 'row')} in {counted(len(going), 'session')}" if rows else "",
        counted(len(copies), "copy", "copies") if copies else "",
    ]
    width = run.console.width
    what = " and ".join(part for part in parts if part) or "nothing"
    lines = [f"openmem will forget {what} for good.", ""]
    lines += chosen_lines(
        selection.selected, home=run.paths.home, now_seconds=time.time(), width=width
    )
    lines += [f"  - {tilde(path, run.paths.home)}, a copy" for path in copies]
    staying = [*(f"{why} Not looked into." for why in selection.unread), *left]
    if staying:
        lines += ["", "It stays in:", *staying_lines(staying, run.paths.home, width)]
    data = {
        "rows": {choice.entry.session_id: list(choice.seqs) for choice in selection.selected},
        "copies": copies,
        "left": staying,
    }
    return lines, data


def _word_of(secret: str) -> str:
    """Return the secret on standard input."""
    if secret != "-":
        raise Usage(
            "a secret on the command line ends in the shell's history.",
            hint="--secret - reads it from standard input.",
        )
    if sys.stdin.isatty():
        from openmem.setup.ask import unseen

        word = unseen("The secret (not shown):")
    else:
        data = sys.stdin.buffer.read(_LONGEST_BYTES + 1)
        if len(data) > _LONGEST_BYTES:
            raise Usage("standard input is longer than a secret can be.")
        try:
            word = data.decode("utf-8").replace("\r\n", "\n").rstrip("\n")
        except UnicodeDecodeError:
            raise Usage("the secret on standard input is not text in UTF-8.") from None
    if not word.strip():
        raise Usage("there is no secret on standard input.")
    if len(word) < _SHORTEST:
        raise Usage(f"the secret on standard input is shorter than {_SHORTEST} characters.")
    return word


def _sessions_of(run: Run, named: str) -> list[str]:
    """Return the sessions of a project: of a folder, or of one that is gone, or of a bank.

    A folder that is not there is never taken for the project around it.
    """
    from openmem.base.policy import bank_of, load_policy
    from openmem.base.workspace import workspace_of
    from openmem.context.store.catalog import entries

    folder = os.path.abspath(os.path.expanduser(named))
    known = entries(run.paths)
    if os.path.isdir(folder):
        policy = load_policy(run.paths.policy_file, run.paths.home)
        wanted = bank_of(policy, workspace_of(folder))
        found = [
            entry.session_id
            for entry in known
            if wanted in (entry.workspace, entry.bank)
            or (entry.cwd and bank_of(policy, workspace_of(entry.cwd)) == wanted)
        ]
    else:
        found = [
            entry.session_id
            for entry in known
            if named in (entry.workspace, entry.bank)
            or entry.cwd == folder
            or entry.cwd.startswith(f"{folder}/")
        ]
    if not found:
        raise NotFound(f"no stored session belongs to the project of {named}.")
    return found


def _facts_of(run: Run, sid: str, files: SessionFiles | None) -> dict[str, str]:
    """Return what a person knows a session by, as texts; "" for what is not known."""
    from openmem.base.counts import size_text
    from openmem.base.errors import StoreUnavailable
    from openmem.cli.render.context import age_text
    from openmem.context.care.sweep import agent_is_running
    from openmem.context.store.catalog import entry_of
    from openmem.context.store.reader import open_entry

    facts = dict.fromkeys(("agent", "cwd", "rows", "size", "age", "note"), "")
    facts["id"] = sid
    entry = entry_of(run.paths, sid)
    if entry is not None:
        facts["agent"], facts["cwd"] = entry.agent, entry.cwd
        try:
            with open_entry(entry) as reader:
                facts["rows"] = counted(reader.row_count(), "row")
        except StoreUnavailable:
            facts["note"] = "not readable"
    if files is not None:
        facts["size"] = size_text(files.size_bytes)
        age = age_text(max(0.0, time.time() - files.newest_at))
        facts["age"] = "used just now" if age == "now" else f"used {age} ago"
    if agent_is_running(run.paths, sid):
        facts["note"] = "its agent is running"
    return facts


def _shown(run: Run, data: dict[str, Any], lines: list[str]) -> Result:
    done = ["", "Nothing is removed yet.", "", f"Go:  {typed(run)}"]
    return Result(data={**data, "dry_run": True}, lines=(*lines, *done))


def _told(run: Run, receipt: ForgetReceipt, left: list[str] | None = None) -> Result:
    from dataclasses import replace

    from openmem.cli.render.care import receipt_lines

    receipt = replace(receipt, left=(*receipt.left, *(left or ())))
    data = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(receipt).items()}
    lines = receipt_lines(receipt, run.paths.home, run.console.width)
    return Result(data=data, lines=tuple(lines), exit_status=0 if receipt.is_done else FAILED)
