"""The policy as a person reads it: defaults, rules, and the answer for one folder."""

from __future__ import annotations

from openmem.base.paths import display
from openmem.base.policy import KINDS, USES, Decision, Policy
from openmem.base.workspace import Workspace
from openmem.cli.console import tilde, visible, wrapped
from openmem.cli.render.table import columns

KIND_NAMES = {
    "git": "git repositories",
    "other": "other folders",
    "unregistered": "no folder known",
}


def word(allowed: bool | None) -> str:
    """Return yes, no, or a dash where nothing is stated."""
    return "–" if allowed is None else "yes" if allowed else "no"


def policy_words(policy: Policy) -> str:
    """Return what is stored, in a few words."""
    if policy.problem:
        return "nothing is stored (no policy that can be used)"
    short = {"git": "git repos", "other": "other folders", "unregistered": "unknown folders"}
    kinds = [short[kind] for kind in KINDS if policy.defaults.get(kind, {}).get("store")]
    rules = f"{len(policy.rules)} rules" if len(policy.rules) != 1 else "1 rule"
    return ", ".join([*kinds, *([rules] if policy.rules else [])]) or "nothing is stored"


def policy_lines(policy: Policy, path: str, home: str, width: int) -> list[str]:
    """Return the whole policy."""
    if policy.problem:
        return wrapped(
            f"Nothing is stored, recalled or retained: {tilde(policy.problem, home)}.", width
        )
    rows = [["", *USES, ""]]
    for kind in KINDS:
        uses = policy.defaults.get(kind, {})
        rows.append([KIND_NAMES[kind], *(word(uses.get(use, False)) for use in USES), ""])
    for rule in policy.rules:
        name = display(rule.path, home) if rule.path else f"remote {rule.remote}"
        rows.append([visible(name), *(word(rule.states(use)) for use in USES), visible(rule.why)])
    lines = [f"policy {display(path, home)}", "", *columns(rows)]
    for grant in policy.grants:
        lines.append(f"{display(grant.path, home)} may read bank {visible(grant.bank)}")
    for link in policy.links:
        name = display(link.path, home) if link.path else f"remote {link.remote}"
        lines.append(f"{visible(name)} uses bank {visible(link.bank)}")
    return [*lines, "", "Why, for one folder:  openmem policy explain PATH"]


def explain_lines(
    workspace: Workspace | None, bank: str, decision: Decision, home: str, width: int
) -> list[str]:
    """Return what may be done in one folder, and why."""
    if workspace is None:
        head = "A session whose folder is not known:"
    else:
        kind = "a git repository" if workspace.git_root else "not in a git repository"
        head = f"{display(workspace.folder, home)} is {kind}, bank {bank}."
    lines = [*wrapped(visible(head), width), ""]
    for use in USES:
        answer = f"  {use:7}  {word(decision.allows(use)):3}  "
        reason = visible(tilde(decision.reasons[use], home))
        told = wrapped(reason, width - len(answer)) or [""]
        lines += [answer + told[0], *(" " * len(answer) + rest for rest in told[1:])]
    return lines
