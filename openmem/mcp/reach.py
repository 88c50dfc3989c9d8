"""What one call may read: this workspace's sessions, and no others unless policy grants them.

Built anew for each call, because a person may change the policy while the server runs. Fails
closed: no policy, no folder, no bank of a session means no.
Source: design, sections 4 and 8; issue 2, part 7.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.base.errors import NotFound, PolicyDenied, Usage
from openmem.base.paths import Paths
from openmem.base.policy import Policy, bank_of, decide, load_policy, may_read_bank
from openmem.base.workspace import Workspace, workspace_of
from openmem.context.search.query import Scope
from openmem.context.search.scope import ScopeFilter
from openmem.context.session import is_plain_sid, sanitize_sid
from openmem.context.store.catalog import Entry, entry_of
from openmem.context.store.catalog import entries as catalog_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The workspace of the agent that calls, and what policy says of it.

    `own_session`: the session that the agent runs, sanitised; "" when it does not say.
    """

    paths: Paths
    workspace: Workspace
    policy: Policy
    own_session: str = ""

    @property
    def bank(self) -> str:
        """The bank of this workspace, which is also what its sessions share."""
        return bank_of(self.policy, self.workspace)

    @property
    def scope(self) -> Scope:
        """The sessions of this workspace."""
        return Scope(workspace_key=self.bank, policy=self.policy)

    def require_recall(self) -> None:
        """PolicyDenied when nothing may be recalled in this workspace; the message says why."""
        decision = decide(self.policy, self.workspace)
        if decision.recall:
            return
        raise PolicyDenied(
            f"nothing may be recalled in {self.workspace.folder} ({decision.reasons['recall']}).",
            hint="Only the person can change that: openmem policy allow PATH.",
        )

    def require_session(self, raw: str) -> Entry:
        """Return a stored session that may be read.

        Usage when it cannot be an id, NotFound when no such session is stored, PolicyDenied when
        it belongs to a workspace that this one may not read.
        """
        sid = raw.strip(" \t\n\v\f\r")
        if not is_plain_sid(sid):
            raise Usage(f"session_id {raw[:80]!r} is not the id of a session.", hint=_LIST_HINT)
        entry = entry_of(self.paths, sid)
        if entry is None:
            raise NotFound(f"no session {sid} is stored.", hint=_LIST_HINT)
        if not self.may_read(entry):
            raise PolicyDenied(
                f"session {sid} belongs to another workspace, which this one may not read.",
                hint="Leave session_id out to search this project's sessions.",
            )
        return entry

    def may_read(self, entry: Entry) -> bool:
        """Return whether a stored session may be read from this workspace."""
        # What the agent itself was given, it may read again, also when no folder is known for it.
        if entry.session_id == self.own_session:
            return True
        keys = _keys_of(entry, self.policy)
        return any(may_read_bank(self.policy, self.workspace, key) for key in keys)

    def is_own(self, entry: Entry) -> bool:
        """Return whether a stored session belongs to this workspace."""
        return ScopeFilter().holds(entry, self.scope)

    def entries_in_reach(self) -> list[Entry]:
        """Return every stored session that may be read, granted ones included."""
        return [entry for entry in catalog_entries(self.paths) if self.may_read(entry)]

    def own_entries(self) -> list[Entry]:
        """Return the stored sessions of this workspace, the running one first, then the newest."""
        entries = [
            entry
            for entry in catalog_entries(self.paths)
            if entry.session_id == self.own_session or self.is_own(entry)
        ]
        return sorted(entries, key=lambda entry: entry.session_id != self.own_session)


def _keys_of(entry: Entry, policy: Policy) -> set[str]:
    """Return the workspaces a session belongs to: noted, registered, and its folder's of now."""
    now = bank_of(policy, workspace_of(entry.cwd)) if entry.cwd else ""
    return {key for key in (entry.workspace, entry.bank, now) if key}


_LIST_HINT = "context_status lists this project's sessions."


def folder_of(environ: Mapping[str, str]) -> str:
    """Return the folder a call is made for. PolicyDenied when it is gone."""
    folder = environ.get("CLAUDE_PROJECT_DIR", "")
    if os.path.isabs(folder):
        return folder
    try:
        return os.getcwd()
    except OSError:
        raise PolicyDenied(
            "the folder this server was started in is gone, so no workspace is known."
        ) from None


def reach_of(environ: Mapping[str, str], meta: Mapping[str, object]) -> Reach:
    """Return what a call may read. PolicyDenied when the folder of the agent is gone."""
    paths = Paths(environ)
    return Reach(
        paths=paths,
        workspace=workspace_of(folder_of(environ)),
        policy=load_policy(paths.policy_file, paths.home),
        own_session=sanitize_sid(_own_session(environ, meta)),
    )


def _own_session(environ: Mapping[str, str], meta: Mapping[str, object]) -> str:
    """Return the session id that the agent states: Codex with each call, Claude Code at start."""
    turn = meta.get("x-codex-turn-metadata")
    stated = turn.get("session_id") if isinstance(turn, dict) else None
    return stated if isinstance(stated, str) else environ.get("CLAUDE_CODE_SESSION_ID", "")
