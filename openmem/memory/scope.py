"""From a folder to a bank, and who may do what there.

Idea: one function, `scope_of`, for reads and writes; the bank follows from the workspace and the
links of the policy. Invariant: an agent reads its own bank and those that a grant names, and writes
to its own only; a person may read any bank of this machine. Fails closed.
Source: design, section 8; users' reports 30 and 31.
"""

from __future__ import annotations

from openmem.base.errors import PolicyDenied, Usage
from openmem.base.light import dataclass
from openmem.base.paths import Paths
from openmem.base.policy import (
    Decision,
    Policy,
    bank_of,
    check_bank,
    decide,
    load_policy,
    may_read_bank,
)
from openmem.base.workspace import Workspace, workspace_of
from openmem.memory.model import Actor

_ONLY_THE_PERSON = "Only the person can change that: openmem policy allow PATH."


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where somebody stands and who it is. `session_id`: of the agent that asks, "" for none."""

    actor: Actor
    workspace: Workspace
    policy: Policy
    decision: Decision
    bank: str
    session_id: str = ""

    @property
    def is_person(self) -> bool:
        return self.actor.kind == "person"

    def bank_to_read(self, named: str = "") -> str:
        """Return the bank to read. PolicyDenied, Usage."""
        bank = _checked(named) if named else self.bank
        if self.is_person:
            return bank
        if not self.decision.recall:
            raise self._denied("recall", "recalled")
        if bank != self.bank and not may_read_bank(self.policy, self.workspace, bank):
            raise PolicyDenied(
                f"bank {bank} belongs to another workspace, which this one may not read.",
                hint="Leave the bank out: it follows from the workspace.",
                code="wrong-bank",
            )
        return bank

    def bank_to_write(self, named: str = "") -> str:
        """Return the bank to write to. PolicyDenied, Usage.

        A person who names a bank may write to it; without a name the workspace must allow it.
        """
        bank = _checked(named) if named else self.bank
        if self.is_person and named:
            return bank
        if not self.decision.retain:
            raise self._denied("retain", "kept")
        if bank != self.bank:
            raise PolicyDenied(
                f"bank {bank} belongs to another workspace; this one writes to {self.bank} only.",
                code="wrong-bank",
            )
        return bank

    def _denied(self, use: str, done: str) -> PolicyDenied:
        return PolicyDenied(
            f"nothing may be {done} in {self.workspace.folder} ({self.decision.reasons[use]}).",
            hint=_ONLY_THE_PERSON,
        )


def scope_of(folder: str, paths: Paths, actor: Actor, *, session_id: str = "") -> Scope:
    """Return the scope of a folder as policy and links are now."""
    workspace = workspace_of(folder)
    policy = load_policy(paths.policy_file, paths.home)
    return Scope(
        actor=actor,
        workspace=workspace,
        policy=policy,
        decision=decide(policy, workspace),
        bank=bank_of(policy, workspace),
        session_id=session_id,
    )


def _checked(name: str) -> str:
    try:
        return check_bank(name, "bank")
    except ValueError as error:
        raise Usage(f"{error}.") from None
