"""The session that an event belongs to, registered on the way if policy lets it be kept.

Invariant: policy is asked before anything is written; a workspace that may not be stored leaves no
registration. An id that was never registered is registered by whichever event comes first, because
clears, forks and older agents change it without telling.
Source: design, sections 4, 6 and 7; users' reports 7, 15 and 47.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.base.clock import now_text
from openmem.base.light import dataclass
from openmem.base.paths import Paths
from openmem.base.policy import Decision, bank_of, decide, load_policy
from openmem.base.workspace import Workspace, workspace_of
from openmem.context.session import Registration, read_registration, write_registration
from openmem.hook.notes import note
from openmem.hook.payload import Moment


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


def registered(
    event: str,
    agent: str,
    sid: str,
    moment: Moment,
    paths: Paths,
    environ: Mapping[str, str],
) -> Session | None:
    """Return the session, registered; None when its workspace may not be stored or is unknown.

    OSError when the registration cannot be written.
    """
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
