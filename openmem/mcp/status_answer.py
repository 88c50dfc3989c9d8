"""The answer of `context_status`: which sessions of this project there are, and how they fare."""

from __future__ import annotations

from collections.abc import Mapping

from openmem.base.counts import counted
from openmem.base.errors import StoreUnavailable
from openmem.base.policy import decide
from openmem.context.overview import SessionSummary, summary_of
from openmem.context.store.reader import open_entry
from openmem.mcp.reach import reach_of
from openmem.mcp.tools import Arguments, Meta

SESSIONS_SHOWN = 20
_COLUMNS = (
    "session_id",
    "agent",
    "rows",
    "bytes",
    "prompt_tokens",
    "trims",
    "busts",
    "cache_hit",
    "fail_opens",
    "last_at",
)


def answer_status(environ: Mapping[str, str], _arguments: Arguments, meta: Meta) -> str:
    """Return one line of where, then a table of sessions, the running one first."""
    reach = reach_of(environ, meta)
    reach.require_recall()
    entries = reach.own_entries()
    reason = decide(reach.policy, reach.workspace).reasons["recall"]
    lines = [
        f"project {reach.bank} · {counted(len(entries), 'session')} stored · recall: yes ({reason})"
    ]
    if reach.own_session:
        is_stored = any(entry.session_id == reach.own_session for entry in entries)
        lines.append(f"this session: {reach.own_session}{'' if is_stored else ' (not stored)'}")
    if not entries:
        lines.append("Nothing of this project is stored yet; `openmem proxy status` says why not.")
    notes: list[str] = []
    table: list[str] = []
    for entry in entries[:SESSIONS_SHOWN]:
        try:
            with open_entry(entry) as reader:
                table.append(_row(summary_of(reader)))
        except StoreUnavailable as error:
            notes.append(f"[skipped: {error.message}]")
    if table:
        lines += ["\t".join(_COLUMNS), *table]
    if len(entries) > SESSIONS_SHOWN:
        notes.append(f"[{len(entries) - SESSIONS_SHOWN} older sessions not shown]")
    return "\n".join([*lines, *notes])


def _row(session: SessionSummary) -> str:
    prompt = session.cache_read_tokens + session.cache_creation_tokens + session.input_tokens
    hit = f"{round(100 * session.cache_read_tokens / prompt)}%" if prompt else "-"
    values = (
        session.session_id,
        session.agent or "-",
        session.rows,
        session.bytes,
        session.prompt_tokens,
        session.trims,
        session.busts,
        hit,
        session.fail_opens,
        session.last_at or "-",
    )
    return "\t".join(str(value) for value in values)
