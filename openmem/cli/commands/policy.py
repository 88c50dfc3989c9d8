"""`openmem policy`: who may be stored, recalled, retained."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from openmem.cli.command import command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Json

policy = group("policy", "Say who may be stored, recalled, retained.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(policy)


@command(policy, "show", effect="read-only", example="openmem policy show")
def show(context: typer.Context, json: Json = False) -> Result:
    """Show the defaults and rules of the policy."""
    from openmem.base.policy import load_policy
    from openmem.cli.render.policy import policy_lines

    run = run_of(context)
    path, home = run.paths.policy_file, run.paths.home
    loaded = load_policy(path, home)
    data = {
        "path": path,
        "problem": loaded.problem,
        "defaults": {kind: dict(uses) for kind, uses in loaded.defaults.items()},
        "rules": [
            {"path": rule.path, "remote": rule.remote, **dict(rule.uses), "why": rule.why}
            for rule in loaded.rules
        ],
        "grants": [{"path": grant.path, "bank": grant.bank} for grant in loaded.grants],
    }
    return Result(data=data, lines=tuple(policy_lines(loaded, path, home, run.console.width)))


@command(policy, "explain", effect="read-only", example="openmem policy explain ~/src/site")
def explain(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="A folder; the current one if left out.")] = ".",
    json: Json = False,
) -> Result:
    """Say what may be done in a folder, and which rule decides."""
    from openmem.base.policy import USES, decide, load_policy
    from openmem.base.workspace import workspace_of
    from openmem.cli.render.policy import explain_lines

    run = run_of(context)
    workspace = workspace_of(os.path.expanduser(path))
    decision = decide(load_policy(run.paths.policy_file, run.paths.home), workspace)
    data = {
        "folder": workspace.folder,
        "git_root": workspace.git_root,
        "remotes": list(workspace.remotes),
        "bank": workspace.bank,
        "decisions": {
            use: {"allowed": decision.allows(use), "why": decision.reasons[use]} for use in USES
        },
    }
    lines = explain_lines(workspace, decision, run.paths.home, run.console.width)
    return Result(data=data, lines=tuple(lines))
