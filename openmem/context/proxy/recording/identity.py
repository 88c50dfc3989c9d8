"""Whose request this is: session id, agent, main thread or sub-agent or side request, folder.

Invariant: two requests of one conversation get one id, two conversations never share one.
Trap: much of a request is equal in all sessions of a project (reminders at the head of the first
message) and something differs in each request (the attribution block `system[0]`); an id made
here must lean on neither. And only what the agent itself wrote may name the folder: a tool result
or a prompt that says "working directory" decides nothing.
Source: context-store contract, Session id; requests of Claude Code 2.1.332, Codex 0.171.0 and
OpenCode 1.18.33.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from openmem.context.formats.surroundings import folder_in
from openmem.context.proxy.recording.codex_turn import CODEX_HEADERS, codex_turn
from openmem.context.session import sanitize_sid

_LEGACY_USER_ID = re.compile(r"_session_([0-9A-Za-z-]{8,})$")
_FIRST_HEADERS = ("x-openmem-session-id", "x-claude-code-session-id", "session-id")
_LAST_HEADERS = ("session_id", "x-session-id", "x-opencode-session", "conversation_id")
# OpenCode: a sub-agent is a session of its own, and names the one that it works for.
PARENT_HEADER = "x-parent-session-id"
CHILD_HEADERS = ("x-session-id", "x-opencode-session")
# By these, requests of one session are worked on in order.
LANE_HEADERS = (*_FIRST_HEADERS, PARENT_HEADER, *_LAST_HEADERS)
_ATTRIBUTION = "x-anthropic-billing-header"
_REMINDER = "<system-reminder>"

# What the recorder is told of a request's headers: never a login, never a cookie.
IDENTITY_HEADERS = frozenset(
    name.encode("ascii")
    for name in (
        *LANE_HEADERS,
        *CODEX_HEADERS,
        "x-claude-code-agent-id",
        "x-openmem-agent",
        "user-agent",
    )
)

_AGENTS = (("claude-cli/", "claude-code"), ("opencode/", "opencode"), ("codex", "codex"))


def agent_of(route: str, headers: Mapping[str, str]) -> str:
    """Return the agent's name: the route's, else what the user agent tells, else ""."""
    if route:
        # OpenCode has a route for each provider: `opencode-anthropic`.
        return "opencode" if route.startswith("opencode-") else route
    user_agent = headers.get("user-agent", "").lower()
    for mark, agent in _AGENTS:
        if mark in user_agent:
            return agent
    return ""


def stated_session_id(headers: Mapping[str, str], user_id: object, prompt_cache_key: object) -> str:
    """Return the session id that the client states, sanitised; "" when it states none."""
    for name in (*_FIRST_HEADERS, PARENT_HEADER):
        sid = sanitize_sid(headers.get(name, ""))
        if sid:
            return sid
    for candidate in (_from_user_id(user_id), prompt_cache_key):
        if isinstance(candidate, str):
            sid = sanitize_sid(candidate)
            if sid:
                return sid
    for name in _LAST_HEADERS:
        sid = sanitize_sid(headers.get(name, ""))
        if sid:
            return sid
    return ""


def _from_user_id(user_id: object) -> str:
    """Return the session id inside `metadata.user_id`: JSON text, or the older underscored form."""
    if not isinstance(user_id, str):
        return ""
    if user_id.lstrip().startswith("{"):
        try:
            document = json.loads(user_id)
        except ValueError:
            document = None  # not JSON after all; the older form may still fit
        if isinstance(document, dict) and isinstance(document.get("session_id"), str):
            return str(document["session_id"])
    match = _LEGACY_USER_ID.search(user_id)
    return match.group(1) if match else ""


def without_attribution(system: Sequence[str]) -> list[str]:
    """Return the system texts without the attribution block, which differs in each request."""
    return [text for text in system if not text.lstrip().startswith(_ATTRIBUTION)]


def is_reminder(text: str) -> bool:
    return text.lstrip().startswith(_REMINDER)


def made_session_id(system: Sequence[str], first_user: Mapping[str, Any] | None) -> str:
    """Return an id for a conversation that states none: `fp-` and 16 hex.

    Made of the system prompt and of the first user message without its reminders; the last text
    of that message, which is the prompt, always counts, a reminder or not.
    """
    digest = hashlib.sha256()
    for text in without_attribution(system):
        digest.update(b"s" + _bytes(text) + b"\0")
    blocks = content_blocks(first_user)
    last_text = max((n for n, block in enumerate(blocks) if _text_of(block)), default=-1)
    for number, block in enumerate(blocks):
        text = _text_of(block)
        if text and is_reminder(text) and number != last_text:
            continue
        if text:
            digest.update(b"t" + _bytes(text) + b"\0")
        else:
            plain = {key: value for key, value in block.items() if key != "cache_control"}
            digest.update(b"b" + _bytes(json.dumps(plain, sort_keys=True, default=str)) + b"\0")
    return f"fp-{digest.hexdigest()[:16]}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def content_blocks(message: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return a message's content blocks; a string counts as one text block."""
    content = message.get("content") if message else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return []


def _text_of(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if block.get("type") == "text" and isinstance(text, str) else ""


_SUMMARISER = "context summarization agent"
# What a title, topic or warm-up request says of itself. Matched only on requests without tools.
_SIDE_SYSTEM = re.compile(
    r"title generator"
    rf"|{_SUMMARISER}"
    r"|(?:generate|write|create|come up with|extract)\b[^.\n]{0,60}\btitle\b"
    r"|new conversation topic"
    r"|\bin under 50 characters\b",
    re.I,
)
_SIDE_PROMPT = re.compile(
    r"^\s*(?:quota|warm-?up|generate a (?:short |brief |concise )?title\b[^\n]{0,80})\s*:?\s*$",
    re.I,
)


def is_side_request(
    *,
    has_tools: bool,
    max_tokens: int | None,
    system: Sequence[str],
    messages: Sequence[Mapping[str, Any]],
    headers: Mapping[str, str],
) -> bool:
    """Return whether a request is the agent's own errand: a title, a topic check, a warm-up.

    `messages`: the first few, decoded. Fails towards "no": an errand stored as a thread does no
    harm, a conversation left out does.
    """
    if has_tools or agent_id_of(headers):
        return False
    if headers.get("x-openmem-agent", "") in ("title", "summary", "compaction"):
        return True
    if max_tokens is not None and max_tokens <= 1:
        return True
    if len(messages) > 3:
        return False
    own = without_attribution(system)
    if any(_SIDE_SYSTEM.search(text[:2000]) for text in own):
        return True
    texts = [text for m in messages for b in content_blocks(m) if (text := _text_of(b))]
    prompts = [text for text in texts if not is_reminder(text)]
    return bool(prompts) and _SIDE_PROMPT.match(prompts[0]) is not None


def is_retelling(*, has_tools: bool, system: Sequence[str]) -> bool:
    """Return whether a request holds the conversation over again as one text, to be summed up.

    OpenCode 1.18.33: all that is in it is stored already, row by row.
    """
    return not has_tools and any(_SUMMARISER in text[:2000] for text in system)


def agent_id_of(headers: Mapping[str, str]) -> str:
    """Return the id of the sub-agent that asks, "" for the main conversation."""
    stated = headers.get("x-claude-code-agent-id", "") or codex_turn(headers).thread_id
    if stated or not headers.get(PARENT_HEADER):
        return stated
    return next((headers[name] for name in CHILD_HEADERS if headers.get(name)), "")


def is_sub_agent(headers: Mapping[str, str], system: Sequence[str]) -> bool:
    """Return whether a request belongs to a sub-agent of the session it names."""
    if agent_id_of(headers):
        return True
    return bool(system) and _ATTRIBUTION in system[0] and "cc_is_subagent=true" in system[0]


# The agent's environment text. Claude Code: "# Environment … - Primary working directory: /x", in
# a reminder of the first message or in the first system message; older ones and OpenCode:
# "<env>\n Working directory: /x" in the system prompt, where a line of its own is enough.
_LINE = (
    r"[ \t]*(?:[-*] )?(?:Primary working|Current working|Working) directory: (?P<folder>/[^\n\0]*)"
)
_ENVIRONMENT = re.compile(
    rf"(?:# Environment|in the following environment:|<env>)[^\n]*\n(?:[^\n]*\n){{0,8}}?{_LINE}"
)
_SYSTEM_LINE = re.compile(rf"^{_LINE}", re.M)
_LOOKED_AT_CHARS = 200_000


def stated_folder(system: Sequence[str], messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the folder named in the agent's own environment text, "" when there is none.

    Codex: the text of a message that begins with `<environment_context>`.

    Looks at the system prompt, at system messages and at reminders; `messages`: the first few.
    """
    for text in system:
        found = _folder_in(_SYSTEM_LINE, text)
        if found:
            return found
    for message in messages:
        is_system = message.get("role") == "system"
        for block in content_blocks(message):
            text = _text_of(block)
            found = folder_in(text) if is_system else ""
            if found:
                return found
            if text and (is_system or (message.get("role") == "user" and is_reminder(text))):
                found = _folder_in(_ENVIRONMENT, text)
                if found:
                    return found
    return ""


def _folder_in(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text[:_LOOKED_AT_CHARS])
    if not match:
        return ""
    folder = match.group("folder").rstrip()
    return folder.removesuffix("</system-reminder>").rstrip()


def message_digest(message: Mapping[str, Any]) -> bytes:
    """Return a digest of a message that cache markers and the string form do not change."""
    blocks = [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in content_blocks(message)
    ]
    return hashlib.sha256(_bytes(json.dumps(blocks, sort_keys=True, default=str))).digest()[:16]
