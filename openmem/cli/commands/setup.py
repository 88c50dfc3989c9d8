"""`openmem setup`, the wizard, and `openmem plan`, its plan by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openmem.base.counts import listed
from openmem.base.errors import CHANGES_PENDING, DONE, FAILED, INTERRUPTED, OpenmemError
from openmem.cli import options as opt
from openmem.cli.command import Run, command, run_of
from openmem.cli.envelope import Result

if TYPE_CHECKING:
    from openmem.cli.asking import Chosen, Given
    from openmem.plan.journal import Receipt
    from openmem.plan.system import System
    from openmem.setup.proof import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How setup was asked for. `is_tried`: one request and one memory are tried afterwards."""

    is_dry: bool = False
    is_agreed: bool = False
    shows_diff: bool = False
    is_tried: bool = True


def add_to(app: typer.Typer) -> None:
    command(
        app,
        "setup",
        short="Set up policy, proxy and agents.",
        effect="changes files",
        example="openmem setup --dry-run",
    )(setup)
    command(
        app,
        "plan",
        short="Show what setup would do.",
        effect="read-only",
        effect_words="read-only, but for the file that --out names.",
        example="openmem plan --out plan.json",
    )(plan)


def wizard(run: Run) -> Result:
    """Set up with questions; what `openmem` alone does on a terminal."""
    from openmem.cli.asking import Given

    return _set_up(run, Given(flags={}), How())


def setup(
    context: typer.Context,
    provider: opt.Provider = None,
    provider_url: opt.ProviderUrl = None,
    provider_key_file: opt.ProviderKeyFile = None,
    provider_user: opt.ProviderUser = None,
    provider_ca_file: opt.ProviderCaFile = None,
    provider_port: opt.ProviderPort = None,
    model_api: opt.ModelApi = None,
    model_url: opt.ModelUrl = None,
    model: opt.Model = None,
    model_key_env: opt.ModelKeyEnv = None,
    model_key_file: opt.ModelKeyFile = None,
    embeddings_url: opt.EmbeddingsUrl = None,
    embeddings: opt.Embeddings = None,
    embeddings_dimensions: opt.EmbeddingsDimensions = None,
    litellm: opt.Litellm = None,
    infer: opt.Infer = None,
    agent: opt.Agents = None,
    without: opt.Without = None,
    provider_plugin: opt.ProviderPlugin = None,
    hooks: opt.Hooks = None,
    trust_hooks: opt.TrustHooks = None,
    mcp: opt.Mcp = None,
    skill: opt.Skill = None,
    allow_tools: opt.AllowTools = None,
    keep_sessions: opt.KeepSessions = None,
    proxy: opt.Proxy = None,
    port: opt.Port = None,
    upstream: opt.Upstream = None,
    service: opt.Service = None,
    store_git: opt.StoreGit = None,
    store_other: opt.StoreOther = None,
    answers: opt.AnswersFile = None,
    save_answers: opt.SaveAnswers = None,
    smoke_test: Annotated[
        bool, typer.Option("--smoke-test/--no-smoke-test", help="Try one request afterwards.")
    ] = True,
    dry_run: opt.DryRun = False,
    yes: opt.Yes = False,
    diff: opt.Diff = False,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> Result:
    """Set up provider, policy, proxy and agents; asks what the flags leave open."""
    run = run_of(context)
    run.console.is_quiet = quiet
    given = _given(locals(), takes_defaults=yes or dry_run)
    how = How(is_dry=dry_run, is_agreed=yes, shows_diff=diff, is_tried=smoke_test)
    return _set_up(run, given, how, save_answers)


def plan(
    context: typer.Context,
    provider: opt.Provider = None,
    provider_url: opt.ProviderUrl = None,
    provider_key_file: opt.ProviderKeyFile = None,
    provider_user: opt.ProviderUser = None,
    provider_ca_file: opt.ProviderCaFile = None,
    provider_port: opt.ProviderPort = None,
    model_api: opt.ModelApi = None,
    model_url: opt.ModelUrl = None,
    model: opt.Model = None,
    model_key_env: opt.ModelKeyEnv = None,
    model_key_file: opt.ModelKeyFile = None,
    embeddings_url: opt.EmbeddingsUrl = None,
    embeddings: opt.Embeddings = None,
    embeddings_dimensions: opt.EmbeddingsDimensions = None,
    litellm: opt.Litellm = None,
    infer: opt.Infer = None,
    agent: opt.Agents = None,
    without: opt.Without = None,
    provider_plugin: opt.ProviderPlugin = None,
    hooks: opt.Hooks = None,
    trust_hooks: opt.TrustHooks = None,
    mcp: opt.Mcp = None,
    skill: opt.Skill = None,
    allow_tools: opt.AllowTools = None,
    keep_sessions: opt.KeepSessions = None,
    proxy: opt.Proxy = None,
    port: opt.Port = None,
    upstream: opt.Upstream = None,
    service: opt.Service = None,
    store_git: opt.StoreGit = None,
    store_other: opt.StoreOther = None,
    answers: opt.AnswersFile = None,
    save_answers: opt.SaveAnswers = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Save the plan, for `openmem apply FILE`.")
    ] = None,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 3 when there is something to do.")
    ] = False,
    dry_run: opt.DryRun = False,
    diff: opt.Diff = False,
    json: opt.Json = False,
) -> Result:
    """Show what setup would do, with the defaults where the flags say nothing."""
    import os
    import shlex

    from openmem.base.io import write_atomic
    from openmem.cli.asking import choose
    from openmem.cli.flow import Wish, carry_out
    from openmem.plan.saved import plan_to_json
    from openmem.plan.system import RealSystem

    run = run_of(context)
    system = RealSystem(run.paths.environ)
    chosen = choose(run, system, _given(locals(), takes_defaults=True))
    made = chosen.plan(system, run)
    wish = Wish(label="plan", is_dry=True, shows_diff=diff)
    result = carry_out(run, system, made, wish, _telling(run, chosen))
    notes: tuple[str, ...] = ()
    if not dry_run:
        _save(save_answers, chosen)
    if out is not None and not dry_run:
        path = os.path.abspath(os.path.expanduser(out))
        write_atomic(path, plan_to_json(made, system).encode())
        notes = ("", f"Saved. Carry out exactly this:  openmem apply {shlex.quote(out)}")
    is_pending = exit_code and not made.is_empty
    return Result(
        data=result.data,
        lines=result.lines,
        notes=notes,
        exit_status=CHANGES_PENDING if is_pending else DONE,
    )


_FLAGS = (
    "provider",
    "provider_url",
    "provider_key_file",
    "provider_user",
    "provider_ca_file",
    "provider_port",
    "model_api",
    "model_url",
    "model",
    "model_key_env",
    "model_key_file",
    "embeddings_url",
    "embeddings",
    "embeddings_dimensions",
    "litellm",
    "infer",
    "provider_plugin",
    "hooks",
    "trust_hooks",
    "mcp",
    "skill",
    "allow_tools",
    "keep_sessions",
    "proxy",
    "port",
    "upstream",
    "service",
    "store_git",
    "store_other",
)


def _given(words: dict[str, Any], *, takes_defaults: bool) -> Given:
    """Return what the command line says. `words`: the body's parameters by name."""
    from openmem.cli.asking import Given

    return Given(
        flags={name: words[name] for name in _FLAGS},
        agents=words["agent"],
        without=words["without"],
        answers_file=words["answers"],
        takes_defaults=takes_defaults,
    )


def _telling(run: Run, chosen: Chosen) -> Any:
    from openmem.cli.flow import Telling
    from openmem.cli.render.setup import setup_notes

    answers = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in chosen.answered.values.items()
    }
    agents = [
        {
            "name": known.name,
            "title": known.title,
            "is_found": known.detected is not None,
            "version": known.detected.version if known.detected else "",
            "is_wired": known.name in chosen.choice.agents,
        }
        for known in chosen.facts.agents
    ]
    return Telling(
        notes=setup_notes(chosen.facts, chosen.choice, run.paths.home),
        data={"answers": answers, "agents": agents, "port": chosen.choice.port},
        question="Write this?",
    )


def _save(path: str | None, chosen: Chosen) -> None:
    """Write the answers to the file that the person named."""
    import os

    from openmem.base.io import write_atomic
    from openmem.setup.answers import answers_text

    if path is not None:
        place = os.path.abspath(os.path.expanduser(path))
        write_atomic(place, answers_text(chosen.answered).encode())


class Unproven(OpenmemError):
    """A person broke off after everything had been written."""

    code = "interrupted"
    exit_status = INTERRUPTED


def _set_up(run: Run, given: Given, how: How, save_answers: str | None = None) -> Result:
    from openmem.cli.asking import choose
    from openmem.cli.flow import Wish, carry_out
    from openmem.plan.system import RealSystem
    from openmem.stack.preflight import stop_at

    system = RealSystem(run.paths.environ)
    chosen = choose(run, system, given)
    made = chosen.plan(system, run)
    if not how.is_dry and not made.is_empty:
        stop_at(list(chosen.faults))
    wish = Wish(
        label="setup", is_dry=how.is_dry, is_agreed=how.is_agreed, shows_diff=how.shows_diff
    )
    result = carry_out(
        run,
        system,
        made,
        wish,
        _telling(run, chosen),
        # Claude Code may rewrite its own file at any moment: then plan again from what is there.
        carry=lambda _: _apply(run, system, chosen),
    )
    if how.is_dry:
        return result
    _save(save_answers, chosen)
    try:
        proofs = _prove(run, system, chosen, has_changed=not made.is_empty, smoke_test=how.is_tried)
    except KeyboardInterrupt:
        raise Unproven(
            "interrupted while it was being tried out; everything is set up.",
            hint="Checks: openmem doctor. Back: openmem undo",
        ) from None
    return _told(run, chosen, result, proofs)


def _apply(run: Run, system: System, chosen: Chosen) -> Receipt:
    """Fetch what is to run, telling how far it is, then write and start."""
    from openmem.plan.apply import apply_replanning

    server = chosen.choice.server
    if server is not None and server.is_own:
        from openmem.stack.engine import connect
        from openmem.stack.running import fetch

        engine = connect(run.paths.environ)
        try:
            fetch(engine, server.provider, run.console.say)
        finally:
            engine.close()
    return apply_replanning(lambda: chosen.plan(system, run), system, run.paths, label="setup")


def _prove(
    run: Run, system: System, chosen: Chosen, *, has_changed: bool, smoke_test: bool
) -> list[Proof]:
    from openmem.setup import proof
    from openmem.setup.running import bring_up_to_date

    choice, paths = chosen.choice, run.paths
    if choice.has_proxy:
        bring_up_to_date(paths)
    if not has_changed:
        return []
    proofs = [proof.prove_policy(paths)]
    if choice.server is not None and choice.provider != "local":
        from openmem.setup.provider_smoke import prove_provider

        proofs.append(prove_provider(paths, choice.server, run.console.say, is_tried=smoke_test))
    if choice.has_proxy:
        proofs.append(proof.prove_proxy(paths, choice))
    for name in choice.agents:
        proofs.append(proof.prove_agent(system, paths, chosen.facts, choice, name))
    if choice.has_proxy and smoke_test:
        proofs.append(proof.prove_recording(paths))
    return proofs


def _told(run: Run, chosen: Chosen, result: Result, proofs: list[Proof]) -> Result:
    from openmem.cli.render.setup import proof_lines

    data = {
        **result.data,
        "proofs": [
            {"name": p.name, "result": p.outcome, "detail": p.detail, "advice": p.advice}
            for p in proofs
        ],
    }
    is_broken = any(p.outcome == "error" for p in proofs)
    notes: list[str] = []
    if proofs:
        notes = ["", *proof_lines(proofs, run.paths.home, run.console.width), ""]
        if is_broken:
            notes.append("Not everything works. See:  openmem doctor      Back:  openmem undo")
        elif chosen.choice.agents:
            titles = listed(chosen.facts.title_of(name) for name in chosen.choice.agents)
            notes.append(f"Restart {titles}. Then:  openmem context status")
        else:
            notes.append("Look around:  openmem status")
    return Result(
        data=data,
        lines=result.lines,
        notes=tuple(notes),
        exit_status=FAILED if is_broken else DONE,
    )
