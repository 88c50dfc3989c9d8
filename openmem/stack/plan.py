"""The files of a provider's stack as a plan, from what is there now.

Idea: secrets are made once and then read back from the env file, so planning again gives nothing
to do. Invariant: secrets stand in files of mode 600 alone, and every one is named to the plan, so
that no rendering shows it. Trap: changing the database's password afterwards locks its owner out.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from openmem.base.paths import Paths
from openmem.memory.providers.server import key_path
from openmem.plan.action import Action, Secret
from openmem.plan.edit.planner import plan_dir, plan_remove, plan_write
from openmem.plan.system import System
from openmem.stack.render import (
    check_unedited,
    compose_text,
    env_text,
    env_values,
    litellm_config,
)
from openmem.stack.route import Route, env_of

SERVICES = {
    "hindsight": ("hindsight",),
    "mem0": ("mem0", "postgres"),
    "cognee": ("cognee",),
}
# Of each stack: what is made by chance, and which of it lets openmem in.
_MADE = {
    "hindsight": ("HINDSIGHT_API_TENANT_API_KEY",),
    "mem0": ("ADMIN_API_KEY", "JWT_SECRET", "POSTGRES_PASSWORD"),
    "cognee": ("DEFAULT_USER_PASSWORD", "FASTAPI_USERS_JWT_SECRET"),
}
_LETS_IN = {
    "hindsight": "HINDSIGHT_API_TENANT_API_KEY",
    "mem0": "ADMIN_API_KEY",
    "cognee": "DEFAULT_USER_PASSWORD",
}
_ROUTE_KEYS = {
    "hindsight": ("HINDSIGHT_API_LLM_API_KEY", "HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY"),
    "mem0": ("OPENAI_API_KEY",),
    "cognee": ("LLM_API_KEY", "EMBEDDING_API_KEY"),
}
Make = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A stack as it should be. `port`: on 127.0.0.1. `key_reference`: `env:NAME` or `file:PATH` of
    the route's key, "" when it was typed. `keeps_key`: the key of before holds, for the route's
    reference leads nowhere now. `litellm_port`: 0 for none beside it."""

    provider: str
    port: int
    route: Route = field(default_factory=Route)
    key_reference: str = ""
    keeps_key: bool = False
    litellm_port: int = 0


def folder_of(paths: Paths, provider: str) -> str:
    return f"{paths.stack_dir}/{provider}"


def compose_path(paths: Paths, provider: str) -> str:
    return f"{folder_of(paths, provider)}/compose.yaml"


def new_secret() -> str:
    """Return a text that nobody can guess, plain enough for any file."""
    return secrets.token_hex(24)


def plan_stack(
    system: System, paths: Paths, wanted: Wanted, *, make: Make = new_secret
) -> list[Action]:
    """Return the writes that make the stack's files what is wanted. Refused, Usage."""
    name, folder = wanted.provider, folder_of(paths, wanted.provider)
    compose = compose_path(paths, name)
    check_unedited(compose, system.read(compose))
    there = _values(system, f"{folder}/{name}.env")
    made = {key: there.get(key) or make() for key in _MADE[name]}
    route = _route_inside(wanted, there, system, folder, make)
    values = {**env_of(name, route.inner), **made}
    known = _secrets(name, made, there, route.inner.key, wanted.key_reference)
    actions = plan_dir(system, folder, f"the stack of {name}")
    text = compose_text(name, wanted.port).encode()
    actions += plan_write(system, compose, text, f"runs {name} on port {wanted.port}", 0o600)
    actions += _env(system, f"{folder}/{name}.env", name, values, known, "its settings and keys")
    if name == "mem0":
        inner = {"POSTGRES_PASSWORD": made["POSTGRES_PASSWORD"]}
        path = f"{folder}/postgres.env"
        actions += _env(system, path, "postgres", inner, known, "the database's password")
    key = made[_LETS_IN[name]]
    actions += plan_write(
        system,
        key_path(paths, name),
        f"{key}\n".encode(),
        "lets openmem in",
        0o600,
        secrets=known,
    )
    return actions + _litellm(system, wanted, route, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Routes:
    """The way inside the stack, and, with LiteLLM between, the way on from there."""

    inner: Route
    outer: Route | None = None


def _route_inside(
    wanted: Wanted, there: Mapping[str, str], system: System, folder: str, make: Make
) -> _Routes:
    route = wanted.route
    if not wanted.litellm_port:
        if wanted.keeps_key and not route.key:
            kept = next((there[k] for k in _ROUTE_KEYS[wanted.provider] if there.get(k)), "")
            route = replace(route, key=kept)
        return _Routes(inner=route)
    beside = _values(system, f"{folder}/litellm.env")
    if wanted.keeps_key and not route.key:
        route = replace(route, key=beside.get("OPENMEM_MODEL_KEY", ""))
    inner = replace(
        route,
        api="litellm",
        url="http://litellm:4000/v1",
        embeddings_url="",
        key=beside.get("LITELLM_MASTER_KEY") or f"sk-{make()}",
    )
    return _Routes(inner=inner, outer=route)


def _litellm(system: System, wanted: Wanted, routes: _Routes, folder: str) -> list[Action]:
    compose, env = f"{folder}/litellm.compose.yaml", f"{folder}/litellm.env"
    config = f"{folder}/litellm.yaml"
    if routes.outer is None:
        actions: list[Action] = []
        for path in (compose, env, config):
            actions += plan_remove(system, path, "LiteLLM is not wanted beside it")
        return actions
    check_unedited(compose, system.read(compose))
    route = routes.outer
    text = compose_text("litellm", wanted.litellm_port).encode()
    actions = plan_write(system, compose, text, "runs LiteLLM beside it", 0o600)
    values = {"LITELLM_MASTER_KEY": routes.inner.key, "OPENMEM_MODEL_KEY": route.key}
    known = (
        Secret(routes.inner.key, f"new:{env}:LITELLM_MASTER_KEY"),
        Secret(route.key, wanted.key_reference),
    )
    actions += _env(system, env, "litellm", values, known, "LiteLLM's keys")
    if system.read(config) is None:  # models that a person adds there are theirs
        words = litellm_config(route.name, route.api, route.model_url, route.embeddings_name)
        actions += plan_write(system, config, words.encode(), "which models LiteLLM offers", 0o600)
    return actions


def _secrets(
    name: str, made: Mapping[str, str], there: Mapping[str, str], key: str, reference: str
) -> tuple[Secret, ...]:
    known = []
    for variable, value in made.items():
        # One that is in use already must not be made anew when a saved plan is loaded.
        is_new = there.get(variable) != value
        known.append(Secret(value, f"new:{name}:{variable}" if is_new else ""))
    if key:
        known.append(Secret(key, reference))
    return tuple(known)


def _env(
    system: System,
    path: str,
    template: str,
    values: Mapping[str, str],
    known: tuple[Secret, ...],
    why: str,
) -> list[Action]:
    data = system.read(path)
    text = env_text(template, values, data.decode("utf-8", "replace") if data else None)
    held = tuple(secret for secret in known if secret.text and secret.text in text)
    return plan_write(system, path, text.encode(), why, 0o600, secrets=held)


def _values(system: System, path: str) -> dict[str, str]:
    data = system.read(path)
    return env_values(data.decode("utf-8", "replace")) if data else {}
