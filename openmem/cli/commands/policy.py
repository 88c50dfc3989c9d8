"""`openmem policy`: who may be stored, recalled, retained."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from openmem.base.errors import Usage
from openmem.cli.command import Run, command, group, run_of
from openmem.cli.envelope import Result
from openmem.cli.options import Diff, DryRun, Json, Quiet, Yes

policy = group("policy", "Say who may be stored, recalled, retained.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(policy)


@command(policy, "show", short="Show all of it.", effect="read-only", example="openmem policy show")
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
        "links": [
            {"path": link.path, "remote": link.remote, "bank": link.bank} for link in loaded.links
        ],
    }
    return Result(data=data, lines=tuple(policy_lines(loaded, path, home, run.console.width)))


@command(
    policy,
    "explain",
    short="Say why for one folder.",
    effect="read-only",
    example="openmem policy explain ~/src/site",
)
def explain(
    context: typer.Context,
    path: Annotated[str, typer.Argument(help="A folder; the current one if left out.")] = ".",
    json: Json = False,
) -> Result:
    """Say what may be done in a folder, and which rule decides."""
    from openmem.base.policy import USES, bank_of, decide, load_policy
    from openmem.base.workspace import workspace_of
    from openmem.cli.render.policy import explain_lines

    run = run_of(context)
    workspace = workspace_of(os.path.expanduser(path))
    loaded = load_policy(run.paths.policy_file, run.paths.home)
    decision, bank = decide(loaded, workspace), bank_of(loaded, workspace)
    data = {
        "folder": workspace.folder,
        "git_root": workspace.git_root,
        "remotes": list(workspace.remotes),
        "bank": bank,
        "decisions": {
            use: {"allowed": decision.allows(use), "why": decision.reasons[use]} for use in USES
        },
    }
    lines = explain_lines(workspace, bank, decision, run.paths.home, run.console.width)
    return Result(data=data, lines=tuple(lines))


Folder = Annotated[
    str | None, typer.Argument(help="A folder, with all below it.", show_default=False)
]
Remote = Annotated[
    str | None, typer.Option("--remote", help="Remotes instead: host/path, * stands for any.")
]
Use = Annotated[
    list[str] | None,
    typer.Option("--use", help="store, recall or retain; may be repeated. Left out: all three."),
]
Why = Annotated[str, typer.Option("--why", help="A reason, kept in the file.")]


@command(
    policy,
    "allow",
    short="Let a folder be stored.",
    effect="changes files",
    example="openmem policy allow ~/notes",
)
def allow(
    context: typer.Context,
    path: Folder = None,
    remote: Remote = None,
    use: Use = None,
    why: Why = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Let sessions of a folder or of remotes be stored, recalled and retained."""
    run = run_of(context)
    run.console.is_quiet = quiet
    return _rule(run, path, remote, use, why, allowed=True, dry_run=dry_run, diff=diff)


@command(
    policy,
    "deny",
    short="Keep a folder from being stored.",
    effect="changes files",
    example="openmem policy deny ~/work/client --why client",
)
def deny(
    context: typer.Context,
    path: Folder = None,
    remote: Remote = None,
    use: Use = None,
    why: Why = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    diff: Diff = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Result:
    """Keep sessions of a folder or of remotes from being stored, recalled and retained."""
    run = run_of(context)
    run.console.is_quiet = quiet
    return _rule(run, path, remote, use, why, allowed=False, dry_run=dry_run, diff=diff)


def _rule(
    run: Run,
    path: str | None,
    remote: str | None,
    uses: list[str] | None,
    why: str,
    *,
    allowed: bool,
    dry_run: bool,
    diff: bool,
) -> Result:
    from openmem.base.policy import USES
    from openmem.cli.flow import Telling, Wish, carry_out
    from openmem.plan.action import Plan
    from openmem.plan.system import RealSystem
    from openmem.setup.own_files import plan_rule

    if (path is None) == (remote is None):
        raise Usage("give a folder, or --remote and a pattern.")
    for use in uses or ():
        if use not in USES:
            raise Usage(f"--use {use}: expected one of {', '.join(USES)}.")
    folder = os.path.realpath(os.path.expanduser(path)) if path is not None else None
    system = RealSystem(run.paths.environ)
    actions = plan_rule(
        system,
        run.paths,
        path=folder,
        remote=remote,
        uses=dict.fromkeys(uses or USES, allowed),
        reason=why,
    )
    warnings: tuple[str, ...] = ()
    if folder is not None and not os.path.isdir(folder):
        warnings = (f"{folder} does not exist; the rule holds once it does.",)
    wish = Wish(
        label="policy allow" if allowed else "policy deny",
        is_dry=dry_run,
        is_agreed=True,  # the command says what it does; there is nothing to ask
        shows_diff=diff,
    )
    told = (f"Check:  openmem policy explain {path}",) if path else ("Check:  openmem policy show",)
    plan = Plan(actions=tuple(actions), warnings=warnings)
    return carry_out(run, system, plan, wish, Telling(done=told))
