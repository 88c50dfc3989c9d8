"""What a hook says to the agent and to the person.

Invariant: the text of a session is a function of its id alone. Claude Code adds the text of a
resumed session only when its bytes differ from last time, so a date, a count or a state in it
would grow the conversation and break the provider's cache on every resume.
Trap: only tools that exist are named; an agent calls what it is told of.
Source: facts of Claude Code 2.1.332, hooks (docs/reference/claude-code.md).
"""

from __future__ import annotations

import json

LIMIT_CHARACTERS = 600
SEARCH_TOOLS = ("smart_compact_search", "smart_compact_get", "smart_compact_sql")
TRIM_COMMAND = "/smart-compact"

_START = (
    "openmem stores this session word for word on this machine (session id {sid}). "
    "What is no longer in your context (compacted, trimmed, cleared, or of an earlier session of "
    "this project) can be found: {0} takes words (query) or a regex (pattern), {1} gives a "
    "message whole, {2} counts and queries. Search before you answer that something was never "
    "given or cannot be found."
)

TRIM_REQUESTED = "openmem: a trim of this session is requested."
SAY_SO = "Say so in one sentence; if more was asked, do it."
TRIM_UNROUTED = (
    "openmem: this session does not go through the openmem proxy, so there is nothing to trim. "
    "See: openmem status"
)

_EVENT_NAMES = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}


def session_start_text(sid: str) -> str:
    """Return what a session is told at its start; under 600 characters for any id."""
    return _START.format(*SEARCH_TOOLS, sid=sid)


def reminder(text: str) -> str:
    """Return a text as a program's word, for an agent that puts it into the person's message."""
    return f"<system-reminder>\n{text}\n</system-reminder>"


def context_output(event: str, text: str) -> str:
    """Return stdout that puts `text` before the model; "" for no text."""
    if not text:
        return ""
    inner = {"hookEventName": _EVENT_NAMES[event], "additionalContext": text}
    return json.dumps({"hookSpecificOutput": inner})


def block_output(reason: str) -> str:
    """Return stdout that answers a prompt in place of the model: no request is made."""
    return json.dumps({"decision": "block", "reason": reason})


def with_warning(output: str, port: int) -> str:
    """Return stdout with a warning that the person sees and the model does not."""
    value = json.loads(output) if output else {}
    value["systemMessage"] = (
        f"openmem: the proxy on 127.0.0.1:{port} does not answer and could not be started yet. "
        "To go on without it: openmem proxy stop --now"
    )
    return json.dumps(value)
