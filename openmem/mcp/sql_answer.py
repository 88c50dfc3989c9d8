"""The answer of `smart_compact_sql`."""

from __future__ import annotations

from collections.abc import Mapping

from openmem.context.sandbox.sql import run_sql
from openmem.mcp.reach import reach_of
from openmem.mcp.tools import Arguments, Meta


def answer_sql(environ: Mapping[str, str], arguments: Arguments, meta: Meta) -> str:
    """Return the table that one SELECT on one session in reach gives."""
    reach = reach_of(environ, meta)
    reach.require_recall()
    entry = reach.require_session(str(arguments["session_id"]))
    return run_sql(entry.path, str(arguments["sql"])).text()
