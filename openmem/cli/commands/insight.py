"""`openmem context` advise, report, trim: what a session cost, would have cost, and a wish."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.errors import Failed, NotFound, Usage
from openmem.cli.command import Run, command, run_of
from openmem.cli.commands.context import context as group
from openmem.cli.commands.context import session_id_of
from openmem.cli.envelope import Result
from openmem.cli.options import Json

if TYPE_CHECKING:
    from openmem.context.advise import Advice, Setting
    from openmem.context.report.course import Course
    from openmem.context.report.replay import Total

PriceFile = Annotated[
    str,
    typer.Option(
        "--price-file",
        help="Dollars per million tokens; instead of the setting context.price_file.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """The commands stand in the group `context`, which its own module adds."""


@command(
    group,
    "advise",
    short="Say which trim threshold would have been cheapest.",
    effect="read-only",
    example="openmem context advise",
)
def advise_(
    context: typer.Context,
    session: Annotated[
        str, typer.Option("--session", help="One session only; the start of its id will do.")
    ] = "",
    transcript: Annotated[
        list[str] | None,
        typer.Option(
            "--transcript",
            help="A session file of Claude Code, Codex or OpenCode (an export) instead of stored "
            "sessions; may be repeated.",
        ),
    ] = None,
    price_file: PriceFile = "",
    json: Json = False,
) -> Result:
    """Replay recorded sessions under several trim settings and say what each would have cost.

    A replay of sizes: it knows nothing of quality, nor of the searches that a trim leads to.
    """
    from openmem.cli.render.insight import advice_lines, note_lines
    from openmem.context.advise import advise
    from openmem.context.prices import prices_of

    run = run_of(context)
    if session and transcript:
        raise Usage("--session and --transcript exclude each other.")
    prices = prices_of(run.paths, price_file)
    courses, problems = _courses(run, session, transcript or [])
    courses = [course for course in courses if course.calls]
    if not courses:
        raise NotFound(
            "no recorded request tells its size yet.",
            hint="Work in a wired agent first, or name a transcript: --transcript FILE.",
        )
    soft, hard, fraction, origin = _in_force(run, courses)
    advice = advise(courses, prices, soft=soft, hard=hard, fraction=fraction)
    lines = advice_lines(advice, width=run.console.width, in_force=origin)
    notes = [
        "Sizes only: searches for what is gone, and what the model would have said otherwise, are "
        "not in it."
    ]
    if advice.estimated:
        notes.append(
            f"{advice.estimated:,} requests were trimmed; what they lacked is put back by estimate."
        )
    if prices.know_money and advice.keep.dollars is None:
        notes.append("A model that was used has no price in the price file, so no sum is shown.")
    return Result(
        data=_advice_data(advice),
        lines=tuple(lines),
        notes=note_lines(notes, run.console.width),
        problems=tuple(problems),
    )


def _courses(run: Run, session: str, transcripts: list[str]) -> tuple[list[Course], list[Any]]:
    """Return the threads to look at, and the faults of files that could not be read."""
    from openmem.base.errors import StoreUnavailable
    from openmem.context.report.course import courses_of
    from openmem.context.store.catalog import entries
    from openmem.context.store.reader import open_entry, open_session

    if transcripts:
        from openmem.agents.usage.files import courses_in

        return [course for path in transcripts for course in courses_in(path)], []
    if session:
        with open_session(run.paths, session_id_of(run, session)) as reader:
            return courses_of(reader), []
    found: list[Course] = []
    problems = []
    for entry in entries(run.paths):
        try:
            with open_entry(entry) as reader:
                found += courses_of(reader)
        except StoreUnavailable as error:
            problems.append(error)
    return found, problems


def _in_force(run: Run, courses: list[Course]) -> tuple[int, int, float, str]:
    """Return soft and hard threshold and fraction now, for the last model used, and who says so."""
    from openmem.base.config import load_config
    from openmem.context.models import load_models
    from openmem.context.trim.limits import TrimSettings, thresholds_of, window_of

    config = load_config(run.paths.config_file, run.paths.environ)
    fraction = float(config.get("trim.to_fraction"))
    settings = TrimSettings(
        soft_tokens=config.number("trim.soft_tokens"),
        hard_tokens=config.number("trim.hard_tokens"),
        fraction=fraction,
    )
    windows = {name: model.window for name, model in load_models().items()}
    newest = max((course.calls[-1] for course in courses), key=lambda call: call.at)
    limits = thresholds_of(window_of(newest.model, windows, 0), 0, settings, proven=False)
    is_set = config.number("trim.soft_tokens") or config.values["trim.to_fraction"].source != (
        "default"
    )
    return limits.soft, limits.hard, fraction, "(set)" if is_set else "(default)"


def _advice_data(advice: Advice) -> dict[str, Any]:
    best = advice.best
    return {
        "sessions": advice.sessions,
        "threads": advice.threads,
        "requests": advice.calls,
        "window": advice.window,
        "estimated_requests": advice.estimated,
        "keep_everything": {**_total_data(advice.keep), "fits": advice.keeps_within},
        "native_compaction": {**_total_data(advice.compact), "share": advice.compact_share},
        "settings": [_setting_data(setting) for setting in advice.grid],
        "in_force": _setting_data(advice.current),
        "recommended": _setting_data(best) if best else None,
        "why": advice.why,
    }


def _setting_data(setting: Setting) -> dict[str, Any]:
    return {
        "soft_tokens": setting.soft,
        "to_fraction": setting.fraction,
        "share": round(setting.share, 4),
        **_total_data(setting.total),
    }


def _total_data(total: Total) -> dict[str, Any]:
    return {
        "cost_units": round(total.units, 1),
        "dollars": total.dollars,
        "peak_tokens": total.peak,
        "trims": total.cuts,
        "input_tokens": total.tokens,
    }


@command(
    group,
    "report",
    short="Draw a session's course.",
    effect="read-only",
    effect_words="read-only; with --html it writes that one file.",
    example="openmem context report --html report.html",
)
def report(
    context: typer.Context,
    session: Annotated[
        str,
        typer.Option(
            "--session", help="The session; the start of its id will do; else the last used one."
        ),
    ] = "",
    html: Annotated[
        str, typer.Option("--html", help="Write a page with pictures here instead of text.")
    ] = "",
    price_file: PriceFile = "",
    json: Json = False,
) -> Result:
    """Show a session's requests in order: prompt size, cache, trims and what broke the prefix."""
    from openmem.base.clock import now_text
    from openmem.cli.render.insight import timeline_lines
    from openmem.context.models import load_models
    from openmem.context.overview import summary_of
    from openmem.context.prices import prices_of
    from openmem.context.report.course import courses_of
    from openmem.context.report.page import page
    from openmem.context.report.timeline import strand_of, totals
    from openmem.context.store.reader import open_session

    run = run_of(context)
    sid = session_id_of(run, session) if session else _newest(run)
    prices = prices_of(run.paths, price_file)
    windows = {name: model.window for name, model in load_models().items()}
    with open_session(run.paths, sid) as reader:
        summary = summary_of(reader)
        courses = courses_of(reader)
    strands = [strand_of(course, prices, windows) for course in courses if course.kind != "side"]
    times = [one.at for strand in strands for one in strand.calls]
    about = {
        "session_id": sid,
        "agent": summary.agent,
        "cwd": summary.cwd,
        "first_at": _time_text(min(times, default=0.0)),
        "last_at": _time_text(max(times, default=0.0)),
    }
    data = {**about, "totals": totals(strands), "threads": [one.as_json() for one in strands]}
    if html:
        text = page(about, strands, made_at=now_text(), has_prices=prices.know_money)
        _write(html, text)
        lines = (f"{html}: {len(strands)} threads, {len(times)} requests of session {sid}.",)
        return Result(data={**data, "html": os.path.abspath(html)}, lines=lines)
    head = f"{sid}  {summary.agent}  {summary.cwd}".rstrip()
    shown = timeline_lines(strands, head=head, width=run.console.width)
    shown += ["", f"Picture:  openmem context report --session {sid[:8]} --html FILE"]
    return Result(data=data, lines=tuple(shown))


def _newest(run: Run) -> str:
    from openmem.context.overview import overview

    sessions = overview(run.paths).sessions
    if not sessions:
        raise NotFound("no session is kept yet.", hint="Start a wired agent in a git repository.")
    return sessions[0].session_id


def _time_text(at: float) -> str:
    from openmem.base.clock import utc_text

    return utc_text(at) if at else ""


def _write(path: str, text: str) -> None:
    from openmem.base.io import write_atomic

    try:
        write_atomic(os.path.abspath(path), text.encode("utf-8"))
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}.") from None


@command(
    group,
    "trim",
    short="Trim a session at its next request.",
    effect="changes files",
    effect_words="leaves a note for the proxy, which trims at the session's next request.",
    example="openmem context trim 7f3a --keep 5",
)
def trim(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="A session; the start of its id will do.")],
    keep: Annotated[
        int,
        typer.Option(
            "--keep", help="Newest turns to keep; 0 leaves that to the settings.", min=0, max=9999
        ),
    ] = 0,
    json: Json = False,
) -> Result:
    """Ask for a trim of a session, whatever its size. What leaves the request stays stored."""
    from openmem.base.config import load_config
    from openmem.context.session import request_trim
    from openmem.host import lifecycle

    run = run_of(context)
    sid = session_id_of(run, session)
    request_trim(run.paths, sid, keep_turns=keep)
    kept = f", keeping the newest {keep} turns" if keep > 1 else ""
    kept = ", keeping the newest turn" if keep == 1 else kept
    notes = []
    is_on = load_config(run.paths.config_file, run.paths.environ).flag("trim.enabled")
    if not is_on:
        notes.append("Trimming is switched off (trim.enabled), so nothing will happen.")
    elif not lifecycle.status(run.paths).running:
        notes.append("The proxy does not run; the wish waits. Start it: openmem proxy start")
    return Result(
        data={"session_id": sid, "keep": keep, "proxy_trims": is_on},
        lines=(f"{sid} is trimmed at its next request{kept}.",),
        notes=tuple(notes),
    )
