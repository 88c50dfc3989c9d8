"""Finding Claude Code: its program, its version, its files, and where its requests go now.

Idea: reading only, and cheap: the version is read from the package or the file's name; the program
is run for it only when neither tells. Invariant: nothing is refused here; what is wrong becomes a
problem in words, so that setup can go on with the rest. Trap: setup may be run inside Claude Code,
where the environment already holds the address we gave it; that one is never an upstream.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from openmem.agents.agent import Detected
from openmem.agents.claude_code.places import (
    BASE_URL,
    DEFAULT_UPSTREAM,
    NAME,
    TITLE,
    Places,
    managed_settings,
    places,
)
from openmem.agents.program import find_binary, packaged_version
from openmem.agents.reading import (
    read_json,
    read_or_none,
    table_at,
    text_at,
    value_at,
)
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.base.route import routed_port
from openmem.plan.action import Json
from openmem.plan.system import System

_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+.][0-9A-Za-z.-]+)?")
_VERSION_SECONDS = 5.0
_OTHER_CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_MANTLE": "Amazon Bedrock",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "Amazon Web Services",
    "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "Google Cloud",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}


def detect(system: System, environ: Mapping[str, str]) -> Detected | None:
    """Return what was found; None when there is neither a program nor a file of Claude Code."""
    home = Paths(environ).home
    found = places(environ, home)
    binary = find_binary(system, environ, "claude", (f"{home}/.local/bin", f"{home}/.claude/local"))
    if not binary and not any(system.stat(path) for path in (found.settings, found.state)):
        return None
    problems: list[str] = []
    settings: Json = {}
    for path in (found.settings, found.state):
        try:
            value = read_json(system, path)
            system.check_writable(path)
        except OpenmemError as error:
            problems.append(error.message)
            continue
        settings = value if path == found.settings else settings
    upstream, source = upstream_in_force(settings, environ)
    return Detected(
        name=NAME,
        title=TITLE,
        version=version_of(system, binary) if binary else "",
        binary=binary,
        config_dir=found.config_dir,
        settings_file=found.settings,
        mcp_file=found.state,
        upstream=upstream,
        upstream_source=source,
        defaults=(DEFAULT_UPSTREAM,),
        problems=tuple(problems),
        warnings=tuple(_warnings(system, settings, environ, found)),
    )


def version_of(system: System, binary: str) -> str:
    """Return the program's version, "" when neither its files nor the program itself tell it."""
    stat = system.stat(binary)
    real = stat.real_path if stat else binary
    # The native installer names the program by its version: …/claude/versions/2.1.332
    if _VERSION.fullmatch(posixpath.basename(real)):
        return posixpath.basename(real)
    version = packaged_version(system, binary, ("@anthropic-ai/claude-code",))
    if version:
        return version
    try:
        ran = system.probe([binary, "--version"], timeout_seconds=_VERSION_SECONDS)
    except OpenmemError:
        return ""  # it does not start or does not end: its version is not worth more
    match = _VERSION.search(ran.stdout)
    return match.group(0) if match and ran.code == 0 else ""


def upstream_in_force(settings: Json, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return where requests go without us, and who says so: settings, environment or default.

    The settings win over the shell (trial with 2.1.332). "" when they go to us already.
    """
    stated = text_at(settings, BASE_URL).strip()
    if routed_port(stated, NAME):
        return "", "settings"
    if stated:
        return stated.rstrip("/"), "settings"
    inherited = environ.get("ANTHROPIC_BASE_URL", "").strip()
    if inherited and not routed_port(inherited, NAME):
        return inherited.rstrip("/"), "environment"
    return DEFAULT_UPSTREAM, "default"


def _warnings(
    system: System, settings: Json, environ: Mapping[str, str], found: Places
) -> list[str]:
    warnings = []
    env = table_at(settings, ("env",))
    for name, cloud in _OTHER_CLOUDS.items():
        value = env.get(name, environ.get(name, ""))
        if str(value).strip().lower() in ("1", "true", "yes", "on"):
            warnings.append(
                f"Claude Code talks to {cloud} here ({name}); such requests do not go through "
                "the proxy and are not recorded."
            )
    off = hooks_off(system, settings, found)
    if off:
        warnings.append(f"{off}, so sessions are not known by their folder.")
    managed = read_or_none(system, managed_settings())
    if text_at(managed, BASE_URL):
        warnings.append(
            f"{managed_settings()} sets ANTHROPIC_BASE_URL, which wins over yours; requests "
            "do not go through the proxy."
        )
    return warnings


def hooks_off(system: System, settings: Json, found: Places) -> str:
    """Return which setting keeps our hooks from running, in words, "" for none."""
    if value_at(settings, ("disableAllHooks",)) is True:
        return f"{found.settings} has disableAllHooks set; no hook runs"
    managed = read_or_none(system, managed_settings())
    if value_at(managed, ("allowManagedHooksOnly",)) is True:
        return f"{managed_settings()} lets only its own hooks run; ours do not"
    return ""
