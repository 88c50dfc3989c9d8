"""What an event of a session leads to: policy, registration, and what the agent is told.

Idea: one function for both ways in, the worker's control socket and the stand-alone hook, so that
they cannot differ. Invariant: policy is asked before anything is written; a workspace that may
not be stored leaves no registration, no flag, no trace, and gets no output. An id that was never
registered is registered by whichever event comes first, because clears, forks and older agents
change it without telling.
Trap: the same event may come twice (two installations, a project's own entry), or late; doing it
again must change nothing.
Source: design sections 4, 6 and 7; users' reports 7, 15 and 47.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from openmem.base.clock import now_text
from openmem.base.light import dataclass
from openmem.base.paths import Paths
from openmem.base.policy import Decision, bank_of, decide, load_policy
from openmem.base.workspace import Workspace, workspace_of
from openmem.context.session import (
    Registration,
    read_registration,
    request_trim,
    sanitize_sid,
    write_registration,
)
from openmem.hook import texts
from openmem.hook.delivery import RECALLED, write_delivery
from openmem.hook.notes import note
from openmem.hook.payload import Moment, decode, moment_of
from openmem.hook.remembering import hand_over, recall_text

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session of which something may be kept, at one event. `decision`: what may be done.

    `is_known`: an earlier event registered it.
    """

    sid: str
    agent: str
    moment: Moment
    workspace: Workspace
    decision: Decision
    is_known: bool = False


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
        session = _register(event, agent, sid, moment, paths, environ)
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


def _register(
    event: str,
    agent: str,
    sid: str,
    moment: Moment,
    paths: Paths,
    environ: Mapping[str, str],
) -> Session | None:
    """Return the session, registered; None when its workspace may not be stored or is unknown."""
    known = read_registration(paths, sid)
    # A session is where it started; a `cd` inside it is not a move. A start says where it is now.
    folder = moment.cwd if event == "session-start" or known is None else known.cwd
    folder = folder or moment.cwd or (known.cwd if known else "")
    if not folder:
        note(paths, event, agent, "no folder")
        return None
    workspace = workspace_of(folder)
    policy = load_policy(paths.policy_file, paths.home)
    decision = decide(policy, workspace)
    may_have_bank = decision.recall or decision.retain
    wanted = Registration(
        session_id=sid,
        agent=agent,
        cwd=folder,
        bank=bank_of(policy, workspace) if may_have_bank else "",
        registered_at=known.registered_at if known else now_text(),
        agent_pid=_agent_pid(environ) or (known.agent_pid if known else 0),
        transcript_path=moment.transcript_path or (known.transcript_path if known else ""),
    )
    # Resumed in a folder that is denied: only its registration can tell the proxy so.
    has_moved_out = known is not None and known.cwd != folder
    if wanted != known and (decision.store or has_moved_out):
        write_registration(paths, wanted)
    if not (decision.store or may_have_bank):
        return None
    return Session(
        sid=sid,
        agent=agent,
        moment=moment,
        workspace=workspace,
        decision=decision,
        is_known=known is not None,
    )


def _agent_pid(environ: Mapping[str, str]) -> int:
    """Return the agent's process id, 0 when it is not known.

    Older agents do not state it; then it is the hook's parent, or, as agents run hooks through a
    shell that is gone in a moment, that shell's parent.
    """
    stated = _pid(environ.get("CLAUDE_PID", ""))
    parent = _pid(environ.get("OPENMEM_HOOK_PARENT", ""))
    if stated or not parent:
        return stated
    try:
        with open(f"/proc/{parent}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read(4096).partition("(")[2].rpartition(")")
    except OSError:
        return 0  # no /proc here: a shell cannot be told from an agent
    return _pid(rest.split()[1]) if name in ("sh", "dash", "bash", "zsh", "ksh") else parent


def _pid(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and 1 < int(text) < 1 << 31 else 0


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
