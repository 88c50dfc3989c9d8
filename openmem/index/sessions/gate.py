"""May a session be stored: the same policy as for the proxy, asked with the folder it ran in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from openmem.base.paths import Paths
from openmem.base.policy import Policy, bank_of, decide, load_policy
from openmem.base.workspace import Workspace, workspace_of
from openmem.context.session import read_registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer. `cwd`: the folder that was asked about, "" when none is known."""

    may_store: bool
    reason: str
    cwd: str = ""
    bank: str = ""


def policy_state(paths: Paths) -> str:
    """Return what is equal as long as the policy says the same; also for one that is not there."""
    try:
        with open(paths.policy_file, "rb") as file:
            data = file.read()
    except OSError as error:
        data = b"\0" + type(error).__name__.encode("ascii")
    return hashlib.sha256(paths.home.encode("utf-8", "surrogateescape") + b"\0" + data).hexdigest()


class Gate:
    """Answers for sessions; folders are looked at once. Fails closed, as the policy does.

    `state`: of the policy that it answers by, as `policy_state` gives it.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.state = policy_state(paths)  # before the policy is read: an older one is asked again
        self._policy: Policy = load_policy(paths.policy_file, paths.home)
        self._known: dict[str, Workspace] = {}

    @property
    def problem(self) -> str:
        """Why the policy cannot be used, "" when it can."""
        return self._policy.problem

    def admit(self, sid: str, folder: str) -> Admission:
        """Return whether a session may be stored. `folder`: as its transcript tells, or "".

        What the session's hook registered goes before what the transcript tells.
        """
        registration = read_registration(self._paths, sid)
        if registration and registration.cwd:
            folder = registration.cwd
        if not folder.startswith("/") or "\0" in folder:
            folder = ""  # of another machine, or none: nobody can say which repository it is in
        workspace = self._workspace(folder) if folder else None
        decision = decide(self._policy, workspace)
        has_bank = workspace is not None and (decision.recall or decision.retain)
        return Admission(
            may_store=decision.store,
            reason=decision.reasons["store"],
            cwd=folder,
            bank=bank_of(self._policy, workspace) if has_bank and workspace else "",
        )

    def _workspace(self, folder: str) -> Workspace:
        found = self._known.get(folder)
        if found is None:
            found = self._known[folder] = workspace_of(folder)
        return found
