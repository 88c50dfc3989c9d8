"""The provider decided from the answers, and what it comes to as a plan.

Idea: "local" needs nothing; one that runs elsewhere is settings; one of our own is a stack besides.
Invariant: a key is read where the answer says it is, and handed to the plan as a secret with that
place; the settings hold the place alone. Trap: the variable of yesterday need not be set today; the
key that stands in the stack's files is kept then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from openmem.base.config import Config, setting_of
from openmem.base.errors import InvalidConfig, Missing
from openmem.base.paths import Paths
from openmem.base.settings import Value
from openmem.host.launch import command_of
from openmem.memory.providers.server import USUAL_PORTS, read_secret
from openmem.memory.providers.wire import checked_url
from openmem.plan.action import Action, RunCommand
from openmem.plan.system import System
from openmem.setup.answers import Answered
from openmem.stack.compose import Stack
from openmem.stack.plan import SERVICES, Wanted, compose_path, plan_stack
from openmem.stack.preflight import Fault, faults, next_free
from openmem.stack.render import port_in
from openmem.stack.route import Route, is_local

SETTINGS = (
    "server.url",
    "server.port",
    "server.key_file",
    "server.user",
    "server.ca_file",
    "server.infer",
    "server.litellm_port",
    "model.api",
    "model.url",
    "model.name",
    "model.key",
    "embeddings.url",
    "embeddings.name",
    "embeddings.dimensions",
    "agents.integration",
    "agents.mcp",
)
_LITELLM_PORT = 4000
MODULE = "openmem.stack.__main__"
ReadKey = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where memories go. `url`: of one that runs already, "" for our own stack; `key_problem`: why
    the model's key was not found, "" when it was or none is needed."""

    provider: str
    url: str = ""
    key_file: str = ""
    user: str = ""
    ca_file: str = ""
    infer: bool = False
    port: int = 0
    wanted_port: int = 0
    litellm_port: int = 0
    route: Route = field(default_factory=Route)
    key_reference: str = ""
    key_problem: str = ""

    @property
    def is_own(self) -> bool:
        """Whether openmem runs it in containers."""
        return self.provider in SERVICES and not self.url


def provider_settings(config: Config) -> dict[str, Value]:
    """Return the settings of the provider that are in force."""
    return {name: config.get(name) for name in SETTINGS}


def provider_ports(system: System, paths: Paths) -> dict[str, int]:
    """Return a port for each provider's stack: the one it has, or the next that is free."""
    found = {}
    for provider, usual in USUAL_PORTS.items():
        data = system.read(compose_path(paths, provider))
        held = port_in(data.decode("utf-8", "replace")) if data else 0
        found[provider] = held or next_free(usual)
    return found


def decide_server(
    answered: Answered,
    environ: Mapping[str, str],
    provider: str,
    ports: Mapping[str, int],
    read_key: ReadKey,
) -> Server:
    """Return what the answers come to. `read_key`: asks a person for a key, unseen. Usage."""
    if provider not in SERVICES:
        return Server(provider=provider)
    url = answered.text("provider_url")
    if url:
        return Server(
            provider=provider,
            url=checked_url(url),
            key_file=_absolute(answered.text("provider_key_file")),
            user=answered.text("provider_user"),
            ca_file=_absolute(answered.text("provider_ca_file")),
            infer=answered.flag("infer"),
        )
    wanted = answered.number("provider_port") or ports[provider]
    key, reference, problem = _key_of(answered, environ, read_key)
    route = Route(
        api=answered.text("model_api") or "openai",
        url=answered.text("model_url").rstrip("/"),
        name=answered.text("model"),
        key=key,
        embeddings_url=answered.text("embeddings_url").rstrip("/"),
        embeddings_name=answered.text("embeddings") or Route().embeddings_name,
        dimensions=answered.number("embeddings_dimensions") or Route().dimensions,
    )
    return Server(
        provider=provider,
        infer=answered.flag("infer"),
        port=wanted if wanted == ports.get(provider) else next_free(wanted),
        wanted_port=wanted,
        litellm_port=_LITELLM_PORT if answered.flag("litellm") else 0,
        route=route,
        key_reference=reference,
        key_problem=problem,
    )


def _key_of(
    answered: Answered, environ: Mapping[str, str], read_key: ReadKey
) -> tuple[str, str, str]:
    """Return the model's key, where it was found, and why it was not."""
    variable, path = answered.text("model_key_env"), answered.text("model_key_file")
    if variable:
        key = environ.get(variable, "").strip()
        problem = (
            "" if key else f"the variable {variable}, which holds the model's key, is not set."
        )
        return key, f"env:{variable}", problem
    if path == "-":
        return read_key(), "", ""
    if path:
        path = _absolute(path)
        try:
            key = read_secret(path)
        except InvalidConfig as error:
            return "", f"file:{path}", error.message
        problem = (
            "" if key else f"the file {path}, which holds the model's key, is empty or absent."
        )
        return key, f"file:{path}", problem
    return "", "", ""


def _absolute(path: str) -> str:
    """Return a file's place as it holds from any folder: the settings are read from everywhere."""
    return os.path.abspath(os.path.expanduser(path)) if path else ""


def values_of(server: Server) -> dict[str, Value]:
    """Return the settings that say this; those that are the default and were never set stay out."""
    if server.provider not in SERVICES:
        return {}
    values: dict[str, Value] = {
        "server.url": server.url,
        "server.key_file": server.key_file,
        "server.user": server.user,
        "server.ca_file": server.ca_file,
        "server.infer": server.infer,
    }
    if server.is_own:
        route = server.route
        values |= {
            "server.port": server.port,
            "server.litellm_port": server.litellm_port,
            "model.api": route.api,
            "model.url": route.url,
            "model.name": route.name,
            "model.key": server.key_reference,
            "embeddings.url": route.embeddings_url,
            "embeddings.name": route.embeddings_name,
            "embeddings.dimensions": route.dimensions,
        }
    return values


def stated(values: Mapping[str, Value], held: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values that differ from what is in force, or from the default."""
    return {
        name: value
        for name, value in values.items()
        if value != held.get(name, setting_of(name).default) or value != setting_of(name).default
    }


def plan_server(system: System, paths: Paths, server: Server, old: str) -> list[Action]:
    """Return the stack's files and its start. `old`: the provider of before. Refused, Usage."""
    actions: list[Action] = []
    if old in SERVICES and old != server.provider and Stack(paths, old).exists():
        actions.append(stop_stack(old, f"{old} is not used any more; its data stay"))
    if not server.is_own:
        return actions
    wanted = Wanted(
        provider=server.provider,
        port=server.port,
        route=server.route,
        key_reference=server.key_reference,
        keeps_key=bool(server.key_problem),
        litellm_port=server.litellm_port,
    )
    files = plan_stack(system, paths, wanted)
    actions += files
    if files or not _is_up(paths, server.provider):
        actions.append(start_stack(server.provider, f"starts {server.provider} in containers"))
    return actions


def _is_up(paths: Paths, provider: str) -> bool:
    try:
        return Stack(paths, provider).is_up()
    except Missing:
        return False  # no engine: the start is planned, and the warning says what is missing


def start_stack(provider: str, why: str) -> RunCommand:
    """Return the command that starts a stack."""
    return RunCommand(
        argv=tuple(command_of(MODULE, "up", provider)),
        probe=tuple(command_of(MODULE, "probe", provider)),
        undo=tuple(command_of(MODULE, "down", provider)),
        why=why,
        timeout_seconds=1800.0,
    )


def stop_stack(provider: str, why: str) -> RunCommand:
    """Return the command that ends a stack; with none running there is nothing to do."""
    return RunCommand(
        argv=tuple(command_of(MODULE, "down", provider)),
        probe=tuple(command_of(MODULE, "probe", provider)),
        only_if_done=True,
        undo=tuple(command_of(MODULE, "up", provider)),
        why=why,
        timeout_seconds=600.0,
    )


def faults_of(paths: Paths, server: Server) -> list[Fault]:
    """Return what stands in the way of this provider; looks at the engine, writes nothing."""
    if not server.is_own:
        return _elsewhere(server)
    found: list[Fault] = []
    route = server.route
    if server.key_problem:
        kept = Stack(paths, server.provider).exists()
        found.append(Fault(code="key-missing", text=server.key_problem, blocks=not kept))
        route = replace(route, key=route.key or "kept")
    if server.port != server.wanted_port:
        words = f"port {server.wanted_port} is taken; {server.port} is the next free one."
        found.append(Fault(code="port-taken", text=words, blocks=False))
    return found + faults(paths, server.provider, route)


def _elsewhere(server: Server) -> list[Fault]:
    if server.url.startswith("http://") and server.key_file and not is_local(server.url):
        return [
            Fault(
                code="unencrypted",
                text=f"the key and what is remembered go to {server.url} unencrypted.",
                advice="Use https://.",
                blocks=False,
            )
        ]
    return []
