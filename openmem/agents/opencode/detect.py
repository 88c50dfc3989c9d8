"""Finding OpenCode: its program, its version, its files, and where its providers' requests go.

Idea: reading only, and cheap: the version is read from the package; the program, which takes three
seconds to start and lays folders into HOME, is never run. Invariant: nothing is refused here; what
is wrong becomes a problem in words.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Detected
from openmem.agents.opencode.places import NAME, TITLE, Places, places, project_configs
from openmem.agents.opencode.plugin import is_version_2
from openmem.agents.opencode.settings import (
    Provider,
    other_addresses,
    providers_in_use,
    read_settings,
)
from openmem.agents.program import find_binary, packaged_version
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.action import Json
from openmem.plan.system import System

_PACKAGES = ("opencode-ai", "opencode")


def detect(system: System, environ: Mapping[str, str]) -> Detected | None:
    """Return what was found; None when there is neither a program nor a file of OpenCode."""
    home = Paths(environ).home
    found = places(environ, home)
    binary = find_binary(
        system, environ, "opencode", (f"{home}/.opencode/bin", f"{home}/.local/bin")
    )
    if not binary and not any(system.stat(path) for path in found.configs):
        return None
    problems: list[str] = []
    whole: Json = {}
    file = found.configs[0]
    try:
        settings = read_settings(system, found)
        system.check_writable(settings.file)
        file, whole = settings.file, settings.whole
    except OpenmemError as error:
        problems.append(error.message)
    providers = providers_in_use(system, found, whole, environ)
    routed = tuple(one for one in providers if not one.unrouted)
    version = packaged_version(system, binary, _PACKAGES) if binary else ""
    return Detected(
        name=NAME,
        title=TITLE,
        version=version,
        binary=binary,
        config_dir=found.config_dir,
        settings_file=file,
        mcp_file=file,
        upstream_source="settings",
        addresses=tuple(one.address for one in routed),
        is_routable=bool(routed),
        problems=tuple(problems),
        warnings=tuple(_warnings(version, providers, found, environ, system)),
    )


def _warnings(
    version: str,
    providers: tuple[Provider, ...],
    found: Places,
    environ: Mapping[str, str],
    system: System,
) -> list[str]:
    warnings = [
        f'OpenCode\'s provider "{one.name}" does not go through the proxy and is not recorded: '
        f"{one.unrouted}."
        for one in providers
        if one.unrouted
    ]
    if is_version_2(version):
        warnings.append(
            f"OpenCode {version} was not tried: its plug-ins can register a session and hand over "
            "a turn, but not tell it what is remembered."
        )
    more = [environ[name] for name in ("OPENCODE_CONFIG",) if environ.get(name)]
    for path in other_addresses(system, tuple(more)):
        warnings.append(
            f"{path}, which OPENCODE_CONFIG names, gives a provider an address that wins over ours."
        )
    if environ.get("OPENCODE_CONFIG_CONTENT"):
        warnings.append("OPENCODE_CONFIG_CONTENT is set; what it says wins over our settings.")
    return warnings


def project_warnings(system: System, projects: tuple[str, ...]) -> list[str]:
    """Return what to say of projects whose own settings send their requests elsewhere."""
    files = tuple(path for folder in projects for path in project_configs(folder))
    return [
        f"{path} gives a provider an address of its own; sessions in that project may not go "
        "through the proxy."
        for path in other_addresses(system, files)
    ]
