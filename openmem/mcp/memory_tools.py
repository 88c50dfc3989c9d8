"""The memory tools as an agent sees them; `memory_answers` does the work.

Two lists: `core` is what an agent needs in a session, `full` is all of it. No tool drops a bank,
and none takes a bank that policy does not grant to the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openmem.mcp.tools import Argument, Arguments, Content, Meta, ToolSpec

CORE = ("memory_search", "memory_add", "memory_correct", "memory_forget")

READS = {"readOnlyHint": True}
ADDS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True}
CHANGES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False}
REMOVES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}

_BANK = Argument("bank", type="string", description="Another bank, if policy grants it")
_QUERY = Argument("query", type="string")
_LIMIT = Argument("limit", type="integer", minimum=1, maximum=50, description="Default 8")
_AS_OF = Argument("as_of", type="string", description="What held then: 2026-11-30")
_ID = Argument("id", type="string")
_TEXT = Argument("text", type="string")
_FROM = Argument("valid_from", type="string", description="Day or time, if it is not now")
_TO = Argument("valid_to", type="string", description="Day or time it ends, if known")
_KIND = Argument(
    "kind",
    type="string",
    enum=["statement", "passage"],
    description="statement: remembered; passage: said in a session. Default both",
)


def memory_tools(environ: Mapping[str, str], which: str) -> tuple[ToolSpec, ...]:
    """Return the memory tools of one server process. `which`: core or full."""

    def answer(name: str) -> Callable[[Arguments, Meta], Content]:
        def run(arguments: Arguments, meta: Meta) -> Content:
            from openmem.mcp.memory_answers import ANSWERS, at_desk

            with at_desk(environ, meta) as desk:
                return ANSWERS[name](desk, arguments)

        return run

    return tuple(
        ToolSpec(name, text, arguments, answer(name), required=required, annotations=hints)
        for name, text, arguments, required, hints in _TOOLS
        if which == "full" or name in CORE
    )


_Row = tuple[str, str, tuple[Argument, ...], tuple[str, ...], Mapping[str, bool]]
_TOOLS: tuple[_Row, ...] = (
    (
        "memory_search",
        "Search what earlier sessions of this project remembered or said. Best matches first.",
        (_QUERY, _KIND, _LIMIT, _AS_OF, _BANK),
        ("query",),
        READS,
    ),
    (
        "memory_add",
        "Remember one lasting fact, decision or preference of this project, in one sentence that "
        "is clear by itself. Not for secrets or for what the code shows. A person reviews it.",
        (_TEXT, _FROM, _TO),
        ("text",),
        ADDS,
    ),
    (
        "memory_correct",
        "Replace a remembered statement that is wrong or out of date.",
        (_ID, Argument("text", type="string", description="The new statement, whole")),
        ("id", "text"),
        CHANGES,
    ),
    (
        "memory_forget",
        "Erase one memory of this project for good. Ask the person first; to update one, use "
        "memory_correct.",
        (_ID,),
        ("id",),
        REMOVES,
    ),
    (
        "memory_recall",
        "What is known about this project, or about a question: only what is clearly relevant.",
        (_QUERY, _LIMIT, _AS_OF, _BANK),
        (),
        READS,
    ),
    (
        "memory_reflect",
        "An answer to a question from what is remembered; without a model route, the memories.",
        (_QUERY, _BANK),
        ("query",),
        READS,
    ),
    (
        "memory_list",
        "Remembered statements of this project, newest first.",
        (
            Argument("trust", type="string", enum=["pending", "accepted"]),
            _KIND,
            _LIMIT,
            _BANK,
        ),
        (),
        READS,
    ),
    (
        "memory_history",
        "What was done to one memory, or in this project: when, by whom; no content.",
        (_ID, _LIMIT),
        (),
        READS,
    ),
    (
        "memory_status",
        "How memory fares: counts, what waits, the provider, spend.",
        (),
        (),
        READS,
    ),
    (
        "memory_provider_info",
        "Which provider holds the memories and what it can do.",
        (),
        (),
        READS,
    ),
    (
        "memory_project_scope",
        "Which bank this workspace reads and writes, and why.",
        (),
        (),
        READS,
    ),
    (
        "memory_export",
        "Memories of this project as PMM 1 records, one JSON object a line.",
        (Argument("offset", type="integer", minimum=0), _LIMIT, _BANK),
        (),
        READS,
    ),
    (
        "memory_import",
        "Take in PMM 1 records, one JSON object a line. They wait for a person's review.",
        (
            Argument("records", type="string"),
            Argument("dry_run", type="boolean", description="Only say what would happen"),
        ),
        ("records",),
        ADDS,
    ),
    (
        "memory_consolidate",
        "Let the provider digest what it took in, where it does so on request.",
        (),
        (),
        CHANGES,
    ),
)
