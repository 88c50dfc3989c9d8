"""What an event of a session leads to: policy, registration, and what the agent is told.

Idea: one function for both ways in, the worker's control socket and the stand-alone hook, so that
they cannot differ. Invariant: a workspace that may not be stored leaves no flag, no trace, and
gets no output.
Trap: the same event may come twice (two installations, a project's own entry), or late; doing it
again must change nothing.
Source: design sections 4, 6 and 7; users' reports 7, 15 and 47.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from openmem.base.light import dataclass
from openmem.base.paths import Paths
from openmem.context.session import request_trim, sanitize_sid
from openmem.hook import texts
from openmem.hook.delivery import RECALLED, write_delivery
from openmem.hook.notes import note
from openmem.hook.payload import decode, moment_of
from openmem.hook.remembering import hand_over, recall_text
from openmem.hook.session import Session, registered

EVENTS = ("session-start", "prompt", "stop")
TOOL = "tool"  # before a call that changes a file: looks, and leaves no trace
_CLAUDE, _CODEX, _CURSOR, _OPENCODE = "claude-code", "codex", "cursor", "opencode"
AGENTS = (_CLAUDE, _CODEX, _CURSOR, _OPENCODE)
# They add what a start says once more on every resume, or store it as a part of the session.
_TOLD_FOR_GOOD = (_CODEX, _OPENCODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """What the hook prints; "" prints nothing, which every agent takes as assent."""

    stdout: str = ""


Recall = Callable[[str, Session], str]
Retain = Callable[[Session], None]


def answer(event: str, agent: str, stdin: bytes, paths: Paths, environ: Mapping[str, str]) -> str:
    """Return the output for the bytes on stdin; "" when they are not an event of a session."""
    payload = decode(stdin)
    if payload is None:
        note(paths, event, agent, "stdin is not a JSON object")
        return ""
    return handle(event, agent, payload, paths, environ).stdout


def handle(
    event: str,
    agent: str,
    payload: Mapping[str, object],
    paths: Paths,
    environ: Mapping[str, str],
    *,
    recall: Recall | None = None,
    retain: Retain | None = None,
) -> HookReply:
    """Return the reply to an event; registers the session on the way. Never raises OSError.

    `environ`: what the client forwards (`CLAUDE_*`, `CODEX_HOME`, `OPENMEM_HOOK_PORT`, "0" when
    the agent's requests do not come to us, `OPENMEM_HOOK_PARENT`). `recall` gives text for the
    model at an event, `retain` keeps a finished turn; left out, the memory half does both.
    """
    if event not in (*EVENTS, TOOL) or agent not in AGENTS:
        note(paths, event, agent, "unknown event or agent")
        return HookReply()
    if agent == _CLAUDE and "cursor_version" in payload:
        return HookReply()  # Cursor runs Claude Code's hooks too; its own are wired beside them
    if agent == _CURSOR:
        from openmem.hook import cursor

        payload = cursor.common(payload)
    moment = moment_of(payload, environ)
    sid = sanitize_sid(moment.session_id)
    if not sid:
        note(paths, event, agent, "no session id")
        return HookReply()
    if event == TOOL:
        from openmem.hook.guard import refusal, refusal_output  # no other event pays for it

        return HookReply(stdout=refusal_output(refusal(payload, sid)))
    if moment.agent_id:
        return HookReply()  # a sub-agent's event belongs to the session that is known already
    try:
        session = registered(event, agent, sid, moment, paths, environ)
        if session is None:
            return HookReply()
        reply = _reply(
            event,
            session,
            paths,
            environ,
            recall or (lambda at, told: recall_text(at, told, paths)),
            retain or (lambda ended: hand_over(ended, paths, environ)),
        )
        has_recalled = RECALLED in reply.stdout
        write_delivery(paths, agent, event, sid, has_recalled=has_recalled)
    except OSError as error:
        note(paths, event, agent, f"cannot write: {os.strerror(error.errno or 0)}")
        return HookReply()
    return reply


def _reply(
    event: str,
    session: Session,
    paths: Paths,
    environ: Mapping[str, str],
    recall: Recall,
    retain: Retain,
) -> HookReply:
    is_routed = environ.get("OPENMEM_HOOK_PORT", "0") != "0" and session.decision.store
    if event == "stop":
        if session.decision.retain:
            retain(session)
        return HookReply()  # anything printed here can send the agent into another round
    pieces = []
    if session.agent == _CURSOR and event == "prompt":
        # Nothing can be told here, and the turn's other half comes with the reply.
        if session.decision.retain:
            retain(session)
        return HookReply(stdout=_output(session.agent, event, ""))
    if event == "prompt":
        words = session.moment.prompt.split(None, 1)
        if words[:1] == [texts.TRIM_COMMAND]:
            if is_routed:
                request_trim(paths, session.sid)
            if len(words) == 1:
                said = texts.TRIM_REQUESTED if is_routed else texts.TRIM_UNROUTED
                if (
                    session.agent == _OPENCODE
                ):  # where nothing can stand in place of a model's reply
                    said = f"{said} {texts.SAY_SO}"
                    return HookReply(stdout=_output(session.agent, event, said))
                return HookReply(stdout=texts.block_output(said))
    elif is_routed and _has_tools(session.agent, environ) and not _was_told(session):
        pieces.append(texts.session_start_text(session.sid))
    if session.decision.recall:
        pieces.append(recall(event, session))
    text = "\n\n".join(p for p in pieces if p)
    return HookReply(stdout=_output(session.agent, event, text))


def _output(agent: str, event: str, text: str) -> str:
    """Return stdout that puts a text before the model, in the agent's own form."""
    if agent == _CURSOR:
        from openmem.hook import cursor

        return cursor.output(event, text)
    if agent == _OPENCODE and text:
        text = texts.reminder(text)
    return texts.context_output(event, text)


def _was_told(session: Session) -> bool:
    """Return whether the session holds our text already, and its agent would add it once more.

    Claude Code leaves out what it was told before; Codex adds it again on every resume, and
    OpenCode keeps it as a part of the session.
    """
    is_resumed = session.moment.source == "resume" and session.is_known
    return session.agent in _TOLD_FOR_GOOD and is_resumed


def _has_tools(agent: str, environ: Mapping[str, str]) -> bool:
    """Return whether the agent is told of our MCP server; a session is not sent after tools that
    it does not have. Searched as bytes: the file is the agent's own and may be large."""
    if agent == _CODEX:
        from openmem.hook import codex  # only what runs for Codex pays for it

        return codex.has_tools(environ)
    if agent == _OPENCODE:
        from openmem.hook import opencode

        return opencode.has_tools(environ)
    if agent == _CURSOR:
        from openmem.hook import cursor

        return cursor.has_tools(environ)
    home = environ.get("HOME", "")
    folder = environ.get("CLAUDE_CONFIG_DIR", "") or home
    try:
        with open(os.path.join(folder, ".claude.json"), "rb") as file:
            return b'"openmem"' in file.read(16 << 20)
    except OSError:
        return False  # no such file: no MCP server of ours
