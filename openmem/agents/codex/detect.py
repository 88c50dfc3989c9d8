"""Finding Codex: its program, its version, its files, its login, and where its requests go now.

Idea: reading only, and cheap: the version is read from the package; the program is run only when
that does not tell. Of the login only its kind is read, because it decides where requests go.
Invariant: nothing is refused here; what is wrong becomes a problem in words. Trap: with a base URL
of its own Codex sends a ChatGPT login there too, so the upstream must be the one of that login.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from openmem.agents.agent import Detected
from openmem.agents.codex.places import API, CHATGPT, NAME, TITLE, Places, places, project_config
from openmem.agents.codex.settings import (
    Provider,
    addresses_in,
    provider_in_force,
    read_toml,
    read_toml_or_none,
)
from openmem.agents.program import find_binary, packaged_version
from openmem.agents.reading import read_json, read_or_none, table_at, text_at, value_at
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.base.route import routed_port
from openmem.plan.action import Json
from openmem.plan.system import System

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+.][0-9A-Za-z.-]+)?")
_PROBE_SECONDS = 5.0
_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")


def detect(system: System, environ: Mapping[str, str]) -> Detected | None:
    """Return what was found; None when there is neither a program nor a file of Codex."""
    home = Paths(environ).home
    found = places(environ, home)
    binary = find_binary(system, environ, "codex", (f"{home}/.local/bin",))
    if not binary and not any(system.stat(path) for path in (found.config, found.hooks)):
        return None
    problems: list[str] = []
    config: Json = {}
    for path, read in ((found.config, read_toml), (found.hooks, read_json)):
        try:
            value = read(system, path)
            system.check_writable(path)
        except OpenmemError as error:
            problems.append(error.message)
            continue
        config = value if path == found.config else config
    provider = provider_in_force(config)
    defaults = own_addresses(system, found, environ, binary)
    return Detected(
        name=NAME,
        title=TITLE,
        version=version_of(system, binary) if binary else "",
        binary=binary,
        config_dir=found.config_dir,
        settings_file=found.config,
        mcp_file=found.config,
        upstream=_upstream(provider, defaults),
        upstream_source="settings" if provider.url else "default",
        defaults=defaults,
        is_routable=bool(provider.place),
        problems=tuple(problems),
        warnings=tuple(_warnings(system, config, provider, found)),
    )


def version_of(system: System, binary: str) -> str:
    """Return the program's version, "" when neither its package nor the program itself tells it."""
    version = packaged_version(system, binary, ("@openai/codex",))
    if version:
        return version
    match = _VERSION.search(_probed(system, [binary, "--version"]))
    return match.group(0) if match else ""


def _probed(system: System, argv: list[str]) -> str:
    try:
        ran = system.probe(argv, timeout_seconds=_PROBE_SECONDS)
    except OpenmemError:
        return ""  # it does not start or does not end: what it would say is unknown
    return ran.stdout + ran.stderr if ran.code == 0 else ""


def own_addresses(
    system: System, found: Places, environ: Mapping[str, str], binary: str
) -> tuple[str, ...]:
    """Return where Codex goes by itself, first the address of the login that it has now.

    A key in the environment counts before a stored login. A login that is kept elsewhere than in
    the file is asked for at the program.
    """
    if any(environ.get(name) for name in _KEYS):
        return API, CHATGPT
    login = read_or_none(system, found.login)
    mode = text_at(login, ("auth_mode",)).lower()
    if not mode and value_at(login, ("tokens",)):
        mode = "chatgpt"
    if not mode and login == {} and binary:
        mode = _probed(system, [binary, "login", "status"]).lower()
    return (CHATGPT, API) if "chatgpt" in mode else (API, CHATGPT)


def _upstream(provider: Provider, defaults: tuple[str, ...]) -> str:
    """Return where requests go without us, "" when they come to us already."""
    if routed_port(provider.url, NAME):
        return ""
    return provider.url.rstrip("/") or defaults[0]


def _warnings(system: System, config: Json, provider: Provider, found: Places) -> list[str]:
    warnings = []
    if provider.unrouted:
        warnings.append(
            f'Codex uses the provider "{provider.name}" ({provider.unrouted}); its requests do '
            "not go through the proxy and are not recorded."
        )
    if value_at(config, ("features", "hooks")) is False:
        warnings.append(
            f"{found.config} has hooks switched off; no hook runs, so sessions are known by what "
            "they say of their folder only."
        )
    for profile in table_at(config, ("profiles",)):
        other = text_at(config, ("profiles", profile, "model_provider"))
        if other and other != provider.name:
            warnings.append(
                f'The profile "{profile}" uses the provider "{other}"; sessions with it do not go '
                "through the proxy."
            )
    return warnings


def other_addresses(system: System, projects: tuple[str, ...]) -> list[str]:
    """Return what to say of projects whose own settings send their requests elsewhere."""
    warnings = []
    for folder in projects:
        path = project_config(folder)
        config = read_toml_or_none(system, path)
        named = text_at(config, ("model_provider",))
        if named or any(not routed_port(url, NAME) for _, url in addresses_in(config)):
            warnings.append(
                f"{path} names a provider or an address of its own; sessions in that project may "
                "not go through the proxy."
            )
    return warnings
