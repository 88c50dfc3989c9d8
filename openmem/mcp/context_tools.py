"""The tools over the session stores, as an agent sees them; `answers` does the work.

Names and the arguments `query`, `pattern`, `session_id` are those of the earlier system, whose
pointers may still stand in a transcript.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.context.sandbox.schema_help import SCHEMA_HELP
from openmem.mcp.tools import Argument, Arguments, Content, Meta, ToolSpec

SEARCH = (
    "Search the recorded sessions of this project, this one first, including turns removed from "
    "your context. Give query (words; rows with more of them come first) or pattern. Matching "
    "lines are given whole. Assistant answers and results of these tools are left out by default."
)
GET = (
    "Full text of a row by <session_id>:<seq>, as a pointer or result names it, or an image by id."
)
STATUS = "Recorded sessions of this project: ids, size, tokens, trims, cache."

_SESSION_ID = Argument("session_id", type="string")


def context_tools(environ: Mapping[str, str]) -> tuple[ToolSpec, ...]:
    """Return the tools of one server process."""

    def search(arguments: Arguments, meta: Meta) -> Content:
        from openmem.mcp.search_answer import answer_search

        return answer_search(environ, arguments, meta)

    def get(arguments: Arguments, meta: Meta) -> Content:
        from openmem.mcp.get_answer import answer_get

        return answer_get(environ, arguments, meta)

    def sql(arguments: Arguments, meta: Meta) -> Content:
        from openmem.mcp.sql_answer import answer_sql

        return answer_sql(environ, arguments, meta)

    def status(arguments: Arguments, meta: Meta) -> Content:
        from openmem.mcp.status_answer import answer_status

        return answer_status(environ, arguments, meta)

    return (
        ToolSpec("smart_compact_search", SEARCH, SEARCH_ARGUMENTS, search),
        ToolSpec(
            "smart_compact_get",
            GET,
            (Argument("id", type="string"), Argument("offset", type="integer", minimum=0)),
            get,
            required=("id",),
        ),
        ToolSpec(
            "smart_compact_sql",
            SCHEMA_HELP,
            (_SESSION_ID, Argument("sql", type="string")),
            sql,
            required=("session_id", "sql"),
        ),
        ToolSpec("context_status", STATUS, (), status),
    )


SEARCH_ARGUMENTS = (
    Argument("query", type="string"),
    Argument("pattern", type="string", description="Python regex, tested per line"),
    Argument("session_id", type="string", description="Only this session"),
    Argument(
        "role",
        is_list_too=True,
        type="string",
        enum=["user", "tool", "assistant", "all"],
        description="Default user and tool",
    ),
    Argument("in_context", type="boolean", description="false: only removed rows"),
    Argument(
        "context", type="integer", minimum=0, maximum=5, description="Neighbouring rows shown"
    ),
    Argument("limit", type="integer", minimum=1, maximum=50, description="Rows, default 8"),
    Argument("include_echo", type="boolean", description="Also results of these tools"),
    Argument(
        "count",
        type="boolean",
        description="Only count matching lines, by what the pattern captures",
    ),
)
