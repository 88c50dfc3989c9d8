"""May this session be stored: its folder, and the policy as it stands now. Fails closed.

The folder is what a hook registered, else what the agent states in its own environment text, else
unknown, and policy decides for sessions without a folder. The policy file is read again whenever
it changed on disk. Source: design, section 6 point 9 and section 8.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass

from openmem.base.clock import now_text
from openmem.base.paths import Paths
from openmem.base.policy import Decision, Policy, decide, load_policy
from openmem.base.workspace import workspace_of
from openmem.context.session import Registration, read_registration

_REMEMBERED_FOLDERS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The gate's answer. `registration`: the hook's; made of the stated folder when there is none.

    `is_stated`: the registration was made here and is not on disk.
    """

    may_store: bool
    reason: str
    registration: Registration | None = None
    is_stated: bool = False


class Gate:
    """Answers for sessions; remembers the folder a session stated in an earlier request."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._policy = Policy(problem="the policy was not read yet")
        self._stamp: tuple[int, int, int] | None = None
        self._folders: OrderedDict[str, str] = OrderedDict()

    def policy(self) -> Policy:
        """Return the policy in force, read again if the file changed."""
        try:
            status = os.stat(self._paths.policy_file)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            stamp = (0, 0, 0)  # load_policy says what is wrong with it
        if stamp != self._stamp:
            self._policy = load_policy(self._paths.policy_file, self._paths.home)
            self._stamp = stamp
        return self._policy

    def admit(self, sid: str, agent: str, stated_folder: str) -> Admission:
        """Return whether a session may be stored. `stated_folder`: "" when the request has none."""
        registration = read_registration(self._paths, sid)
        is_stated = False
        if registration is None or not registration.cwd:
            folder = stated_folder or self._folders.get(sid, "")
            if folder:
                self._remember(sid, folder)
                is_stated = True
                registration = Registration(
                    session_id=sid, agent=agent, cwd=folder, bank="", registered_at=now_text()
                )
        workspace = workspace_of(registration.cwd) if registration and registration.cwd else None
        decision: Decision = decide(self.policy(), workspace)
        return Admission(
            may_store=decision.store,
            reason=decision.reasons["store"],
            registration=registration,
            is_stated=is_stated,
        )

    def _remember(self, sid: str, folder: str) -> None:
        self._folders[sid] = folder
        self._folders.move_to_end(sid)
        while len(self._folders) > _REMEMBERED_FOLDERS:
            self._folders.popitem(last=False)
