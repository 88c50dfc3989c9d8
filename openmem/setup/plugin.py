"""A provider's own plug-in in the place of our hooks: what can be had, and what it takes.

Idea: hook sets exclude each other, because two recall twice; the MCP server stays, and the choice
is a setting. Invariant: openmem installs and removes no program of others: what only they can do is
a step by hand, named in full. Trap: without our hooks a session is known only by the folder that
the agent itself states, and nobody revives a proxy that died.
Source: the upstream projects' own pages, read 2026-11-30; not run (they come from outside).
"""

from __future__ import annotations

from openmem.agents.provider_mcp import ProviderServer
from openmem.agents.upstream import Upstream, found_upstream
from openmem.base.config import load_config
from openmem.base.errors import Unsupported, Usage
from openmem.base.paths import Paths, display
from openmem.memory.providers.server import address_of, key_path
from openmem.plan.action import ManualStep, Plan
from openmem.plan.system import System
from openmem.setup.facts import Facts
from openmem.setup.provider import Server

_HINDSIGHT = "npx @vectorize-io/hindsight-coding-agents"
_COGNEE = "topoteretes/cognee-integrations"
# Provider, agent → the command lines that put its plug-in there, and those that take it out.
_STEPS: dict[tuple[str, str], tuple[str, str]] = {
    ("hindsight", "claude-code"): (
        f"{_HINDSIGHT} install claude-code --server self-hosted",
        f"{_HINDSIGHT} uninstall claude-code",
    ),
    ("hindsight", "codex"): (
        f"{_HINDSIGHT} install codex --server self-hosted",
        f"{_HINDSIGHT} uninstall codex",
    ),
    ("hindsight", "opencode"): (
        f"{_HINDSIGHT} install opencode --server self-hosted",
        f"{_HINDSIGHT} uninstall opencode",
    ),
    ("hindsight", "cursor"): (
        f"{_HINDSIGHT} install cursor-cli --server self-hosted",
        f"{_HINDSIGHT} uninstall cursor-cli",
    ),
    ("cognee", "claude-code"): (
        f"claude plugin marketplace add {_COGNEE} && claude plugin install cognee-memory@cognee",
        "claude plugin uninstall cognee-memory@cognee",
    ),
    ("cognee", "codex"): (
        f"codex plugin marketplace add {_COGNEE} --ref main && codex plugin add cognee@cognee",
        "codex plugin remove cognee@cognee",
    ),
}
_REASONS = {
    "local": "provider local runs inside openmem and has no plug-in of its own.",
    "mem0": "mem0's plug-in speaks to mem0's own platform only, never to a server of yours.",
}


def check_plugin(provider: str) -> None:
    """Return when a provider has a plug-in that can be chosen. Unsupported says why it has none."""
    if provider in _REASONS:
        raise Unsupported(
            _REASONS[provider],
            hint="Keep openmem's hooks: leave --provider-plugin out.",
            code="no-provider-plugin",
        )


def has_plugin(provider: str) -> bool:
    return provider not in _REASONS


def check_exclusive(*, is_plugin: bool, hooks: bool | None) -> None:
    """Return when not both sets of hooks are asked for. Usage."""
    if is_plugin and hooks is True:
        raise Usage(
            "--hooks and --provider-plugin exclude each other: both recall, both retain.",
            hint="openmem's own again: --no-provider-plugin",
        )


def plan_plugin(facts: Facts, name: str, provider: str, place: str) -> Plan:
    """Return the step by hand that puts a provider's plug-in into an agent. `place`: its server,
    in words. Unsupported when there is none for this agent."""
    title = facts.title_of(name)
    if (provider, name) not in _STEPS:
        raise Unsupported(
            f"{provider} has no plug-in for {title}.",
            hint=f"Name the others: --agent {_first_other(facts, name)}",
            code="no-provider-plugin",
        )
    step = ManualStep(
        text=f"{_STEPS[(provider, name)][0]}   ({place})",
        why=f"{provider}'s own plug-in for {title}, which openmem does not install for you",
    )
    return Plan(actions=(step,))


def _first_other(facts: Facts, name: str) -> str:
    return next((one for one in facts.found_names if one != name), "claude-code")


def place_of(paths: Paths, server: Server | None, provider: str) -> str:
    """Return where the plug-in finds the server, in words; the key is named by its file."""
    if server is not None and server.url:
        url, path = server.url, server.key_file
    elif server is not None and server.port:
        url, path = f"http://127.0.0.1:{server.port}", key_path(paths, provider)
    else:
        url, path = address_of(provider, paths).url, _key_file(paths, provider)
    key = f", its key is in {display(path, paths.home)}" if path else ""
    return f"server {url}{key}"


def plugin_notes(provider: str) -> tuple[str, ...]:
    """Return what a person should know who chooses the plug-in."""
    return (
        f"{provider}'s own hooks take the place of openmem's. What they recall and keep passes by "
        "openmem's policy, redaction and ledger.",
        "Without openmem's hooks a session is known by the folder that the agent itself states, "
        "and a proxy that died is started by hand: openmem proxy start",
    )


def twice(system: System, facts: Facts, name: str) -> list[str]:
    """Return what to say of upstream hooks beside ours in an agent, a sentence each."""
    return [
        f"{facts.title_of(name)} also has {one.says} of {one.provider} in {one.place}: it recalls "
        f"and keeps everything twice. {way_out(one, name)}"
        for one in upstream_hooks(system, facts, name)
    ]


def upstream_hooks(system: System, facts: Facts, name: str) -> list[Upstream]:
    """Return the plug-ins that recall by themselves in an agent."""
    known = facts.agent(name)
    if known is None or known.detected is None:
        return []
    return [one for one in found_upstream(system, known.detected) if one.kind == "hooks"]


def way_out(one: Upstream, name: str) -> str:
    """Return what takes one of the two sets out."""
    remove = _STEPS.get((one.provider, name), ("", "its own program"))[1]
    if not has_plugin(one.provider):
        return f"Take it out with {remove}."
    return (
        f"Take it out: {remove}   or keep it in the place of ours: openmem install-coding-agent "
        "--provider-plugin"
    )


def way_in(provider: str, name: str) -> str:
    """Return what puts a provider's plug-in into an agent, or our hooks back."""
    put = _STEPS.get((provider, name), ("", ""))[0]
    back = "openmem install-coding-agent --no-provider-plugin"
    return f"{put}   or openmem's hooks: {back}" if put else back


def provider_server(paths: Paths, provider: str) -> ProviderServer:
    """Return the provider's own MCP server, as the settings say. Unsupported when it has none."""
    if provider == "hindsight":
        address = address_of(provider, paths)
        key_file = _key_file(paths, provider)
        return ProviderServer(name=provider, url=f"{address.url}/mcp/", key_file=key_file)
    reasons = {
        "local": "provider local runs inside openmem; its MCP server is openmem's.",
        "mem0": "mem0's server has no MCP server of its own.",
        "cognee": "Cognee's MCP server is a program apart (cognee-mcp), which openmem does not "
        "run; register it by its own instructions.",
    }
    raise Unsupported(
        reasons[provider],
        hint="openmem's own tools work over every provider: openmem install-mcp",
        code="no-provider-mcp",
    )


def _key_file(paths: Paths, provider: str) -> str:
    config = load_config(paths.config_file, paths.environ)
    if config.text("server.url"):
        return config.text("server.key_file")
    return key_path(paths, provider)
