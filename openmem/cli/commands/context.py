"""`openmem context`: the stored sessions, read directly; no service has to run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import InvalidConfig, NotFound, OpenmemError, StoreUnavailable, Usage
from openmem.cli.command import Run, command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Json

if TYPE_CHECKING:
    from openmem.context.overview import SessionSummary
    from openmem.context.search.query import Page
    from openmem.context.store.reader import SessionReader, StoredRow

context = group("context", "Search the stored sessions, and care for them.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(context)


@command(
    context,
    "status",
    short="List the stored sessions.",
    effect="read-only",
    example="openmem context status",
)
def status(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", help="Sessions to list; 0 is all.")] = 20,
    json: Json = False,
) -> Result:
    """List the stored sessions, the newest first, with tokens, trims and cache use.

    GONE is what trims removed; BUSTS is why the provider's cache lost its prefix.
    """
    from openmem.base.counts import counted, size_text
    from openmem.base.policy import load_policy
    from openmem.cli.render.context import status_lines
    from openmem.cli.render.policy import policy_words
    from openmem.cli.render.proxy import proxy_line
    from openmem.context.baseline import baseline
    from openmem.context.models import load_models
    from openmem.context.overview import overview
    from openmem.context.prices import load_prices, prices_of
    from openmem.host import lifecycle

    run = run_of(context)
    found = overview(run.paths)
    proxy = lifecycle.status(run.paths)
    policy = load_policy(run.paths.policy_file, run.paths.home)
    windows = {name: model.window for name, model in load_models().items()}
    listed = [_status_data(run, summary, windows) for summary in found.sessions]
    problems = _skipped(found.skipped)
    try:
        prices = prices_of(run.paths)
    except InvalidConfig as error:  # what is stored can be listed without prices
        prices, problems = load_prices(), (*problems, error)
    midnight = _midnight(time.time())
    today = asdict(baseline(run.paths, list(found.sessions), prices, midnight))
    size = size_text(sum(entry["bytes"] for entry in listed))
    head = (
        f"{proxy_line(proxy, time.time())} · store {size} in {counted(len(listed), 'session')} · "
    )
    head += f"policy: {policy_words(policy)}"
    data = {
        "sessions": listed,
        "today": today,
        "proxy": proxy.to_json(),
        "policy": {
            "problem": policy.problem,
            "defaults": {kind: dict(uses) for kind, uses in policy.defaults.items()},
            "rules": len(policy.rules),
        },
    }
    shown = listed if limit <= 0 else listed[:limit]
    lines = status_lines(
        shown,
        head=head,
        hidden=len(listed) - len(shown),
        now_seconds=time.time(),
        width=run.console.width,
        today=today,
        passed=proxy.counters.get("denied_passed_through", 0),
    )
    return Result(data=data, lines=tuple(lines), problems=problems)


def _status_data(run: Run, summary: SessionSummary, windows: Mapping[str, int]) -> dict[str, Any]:
    """Return a session's values with the limit of each thread's model."""
    from openmem.context.trim.limits import window_of
    from openmem.context.trim.state import load_trims

    learnt = {
        state.model: state.limit
        for state in load_trims(run.paths, summary.session_id).threads.values()
        if state.limit
    }

    def limit(model: str) -> int:
        return window_of(model, windows, learnt.get(model, 0)) if model else 0

    data = asdict(summary)
    for thread in data["threads"]:
        thread["limit_tokens"] = limit(thread["model"])
    return {**data, "limit_tokens": limit(summary.model)}


def _midnight(now: float) -> float:
    """Return when this day began where the person is."""
    local = time.localtime(now)
    return time.mktime((local.tm_year, local.tm_mon, local.tm_mday, 0, 0, 0, 0, 0, -1))


Role = Annotated[
    list[str] | None,
    typer.Option("--role", help="user, tool, assistant or system; may be repeated; all for all."),
]
InContext = Annotated[
    bool | None,
    typer.Option(
        "--in-context/--trimmed",
        help="Only rows that are still sent to the model, or only removed ones.",
        show_default=False,
    ),
]


@command(
    context,
    "search",
    short="Search what was said.",
    effect="read-only",
    example='openmem context search "signing key" --context 1',
)
def search_(
    context: typer.Context,
    query: Annotated[
        str | None, typer.Argument(help="Words to look for.", show_default=False)
    ] = None,
    pattern: Annotated[
        str, typer.Option("--pattern", help="A regular expression instead of words.")
    ] = "",
    role: Role = None,
    session: Annotated[
        str, typer.Option("--session", help="One session only; the start of its id will do.")
    ] = "",
    all_workspaces: Annotated[
        bool, typer.Option("--all-workspaces", help="Not only sessions of this folder's project.")
    ] = False,
    in_context: InContext = None,
    neighbours: Annotated[
        int, typer.Option("--context", help="Rows to show before and after each hit, 0 to 5.")
    ] = 0,
    limit: Annotated[int, typer.Option("--limit", help="Hits to show, 1 to 200.")] = 8,
    include_echo: Annotated[
        bool, typer.Option("--include-echo", help="Also rows that repeat openmem's own answers.")
    ] = False,
    count: Annotated[
        bool,
        typer.Option("--count", help="Count lines, by what --pattern captures; show no rows."),
    ] = False,
    hybrid: Annotated[
        bool | None,
        typer.Option(
            "--hybrid/--by-words",
            help="Rank by words and vectors together, or by words alone; setting vectors.rank.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> Result:
    """Search the stored sessions of this folder's project, or of all."""
    from openmem.base.config import load_config
    from openmem.base.counts import counted
    from openmem.base.policy import bank_of, load_policy
    from openmem.base.vectors.settings import vector_settings
    from openmem.base.workspace import workspace_of
    from openmem.cli.render.context import count_lines, hit_lines
    from openmem.context.search.engine import search
    from openmem.context.search.query import Query, Scope

    run = run_of(context)
    if not query and not pattern:
        raise Usage("give words to look for, or --pattern.")
    vectors = vector_settings(load_config(run.paths.config_file, run.paths.environ))
    if hybrid and not vectors.is_on:
        raise Usage(
            "no model makes vectors here, so there is nothing to rank by but words.",
            hint="`openmem config set vectors.model NAME` names one.",
        )
    roles = tuple(role or ("user", "tool"))
    asked = Query(
        text=query or "",
        pattern=pattern,
        roles=() if "all" in roles else roles,
        in_context=in_context,
        context=neighbours,
        limit=limit,
        session_id=session_id_of(run, session) if session else "",
        include_echo=include_echo,
        group=count and bool(pattern),
        is_hybrid=vectors.ranks if hybrid is None else hybrid,
    ).checked()
    scope = Scope(all_workspaces=True)
    if not session and not all_workspaces:
        policy = load_policy(run.paths.policy_file, run.paths.home)
        key = bank_of(policy, workspace_of(os.getcwd()))
        scope = Scope(workspace_key=key, policy=policy)
    page = search(run.paths, asked, scope, vectors)
    data = _page_data(page)
    if count:
        data["hits"] = []
        lines = count_lines(data)
    else:
        lines = hit_lines(data, now_seconds=time.time(), width=run.console.width)
    notes: list[str] = []
    if not page.total_matches and not scope.all_workspaces:
        notes.append("Only this folder's project was searched; everywhere:  --all-workspaces")
    if page.vectors and page.vectors.problem:
        notes.append(f"Ranked by words alone: {page.vectors.problem}.")
    elif page.vectors and page.vectors.pending:
        rows = counted(page.vectors.pending, "row")
        notes.append(f"{rows} without a vector so far.")
    if page.timed_out:
        notes.append("The time was up before everything was searched; narrow it with --session.")
    return Result(
        data=data, lines=tuple(lines), notes=tuple(notes), problems=_skipped(page.skipped)
    )


def _page_data(page: Page) -> dict[str, Any]:
    hits = []
    for hit in page.hits:
        entry = asdict(hit)
        entry["before"] = list(entry["before"])
        entry["after"] = list(entry["after"])
        hits.append(entry)
    return {
        "hits": hits,
        "total_matches": page.total_matches,
        "line_matches": page.line_matches,
        "groups": [{"captured": list(values), "lines": n} for values, n in page.groups],
        "group_count": page.group_count,
        "mode": page.mode,
        "vectors": asdict(page.vectors) if page.vectors else None,
        "timed_out": page.timed_out,
        "sessions_searched": page.sessions_searched,
        "skipped": list(page.skipped),
    }


@command(
    context,
    "show",
    short="Show a session's rows, or one whole.",
    effect="read-only",
    example="openmem context show 7f3a0c44 --row 412",
)
def show(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="A session; the start of its id will do.")],
    row: Annotated[
        int | None, typer.Option("--row", help="Print this row whole.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Rows to list; 0 is all.")] = 50,
    json: Json = False,
) -> Result:
    """Show the last rows of a session, or one row with its whole text."""
    from openmem.context.store.reader import open_session

    run = run_of(context)
    sid = session_id_of(run, session)
    with open_session(run.paths, sid) as reader:
        return _one_row(run, reader, row) if row is not None else _rows(run, reader, limit)


def _one_row(run: Run, reader: SessionReader, seq: int) -> Result:
    from openmem.cli.console import visible
    from openmem.cli.render.context import row_head

    found = reader.row(seq)
    if found is None:
        raise NotFound(
            f"session {reader.session_id} has no row {seq}.",
            hint=f"`openmem context show {reader.session_id[:8]}` lists them.",
        )
    data = _row_data(found)
    text = visible(found.text) if run.console.stdout.isatty() else found.text
    if found.is_forgotten:
        text = "(forgotten)"
    lines = text.removesuffix("\n").split("\n")
    blobs = [f"(payload {blob_id} is kept beside the store)" for blob_id in found.blob_ids]
    return Result(
        data={"session_id": reader.session_id, "row": data},
        lines=(*lines, *blobs),
        notes=(row_head(data),),
    )


def _rows(run: Run, reader: SessionReader, limit: int) -> Result:
    from openmem.base.counts import counted
    from openmem.base.paths import display
    from openmem.cli.render.context import session_lines

    shown = [_row_data(row) for row in reader.last_rows(limit)]
    count, forgotten = reader.row_count(), reader.forgotten_count()
    entry = reader.entry
    head = f"session {reader.session_id}, {entry.agent or 'unknown agent'}, "
    head += f"{display(entry.cwd, run.paths.home) or 'unknown folder'}, "
    head += counted(count, "row")
    if forgotten:
        head += f", {forgotten} forgotten"
    if len(shown) < count:
        head += f"; the last {len(shown)} are shown, --limit 0 shows all"
    lines = session_lines(shown, head=head, width=run.console.width)
    data = {
        "session_id": reader.session_id,
        "agent": entry.agent,
        "cwd": entry.cwd,
        "bank": entry.bank,
        "rows": shown,
        "row_count": count,
        "forgotten_count": forgotten,
    }
    return Result(data=data, lines=tuple(lines))


def _row_data(row: StoredRow) -> dict[str, Any]:
    data = asdict(row)
    data["blob_ids"] = list(row.blob_ids)
    data["is_forgotten"] = row.is_forgotten
    return data


def session_id_of(run: Run, text: str) -> str:
    """Return the id of the one session that `text` begins. NotFound, Usage when there are more."""
    from openmem.context.store.catalog import entries

    known = [entry.session_id for entry in entries(run.paths)]
    if text in known:
        return text
    found = [sid for sid in known if text and sid.startswith(text)]
    if not found:
        raise NotFound(
            f"there is no stored session {text!r}.",
            hint="`openmem context status` lists the sessions.",
        )
    if len(found) > 1:
        raise Usage(f"{text!r} begins {len(found)} sessions: {', '.join(found[:4])}.")
    return found[0]


def _skipped(lines: tuple[str, ...]) -> tuple[OpenmemError, ...]:
    return tuple(StoreUnavailable(line) for line in lines)
