"""The proxy as a worker serves it: the context pillar's application with this machine's settings.

Idea: the one place where settings become an application. Invariant: a worker can always be made;
settings that cannot be used fall back to the routes that worked last, and say so in the status,
because an agent that is wired to us has no other way out. Trap: a plain worker (after repeated
deaths, or while draining) must start nothing that records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openmem.base.config import load_config
from openmem.base.errors import InvalidConfig, OpenmemError
from openmem.base.paths import Paths
from openmem.context.proxy.app import make_app
from openmem.context.proxy.settings import ProxySettings, settings_from
from openmem.host.front import Hosted
from openmem.host.logbook import Logbook
from openmem.host.record import read_record

# Where an agent goes that had no address of its own before us. Source: the agents' own defaults.
DEFAULT_UPSTREAMS: Mapping[str, str] = {"claude-code": "https://api.anthropic.com"}


def hosted(
    paths: Paths, environ: dict[str, str], *, is_recording: bool, bare_upstream: str
) -> Hosted:
    """Return the application for the settings on disk. `bare_upstream`: "" for none."""
    settings, problem = _settings(paths, environ, bare_upstream)
    app = make_app(replace(settings, is_recording=is_recording))
    upstream = {agent: _shown(url) for agent, url in settings.routes.items()}
    if bare_upstream:
        upstream[""] = _shown(bare_upstream)

    def state() -> dict[str, object]:
        found = app.status()
        problems = found.get("problems")
        return {**found, "problems": [*([problem] if problem else []), *_list(problems)]}

    return Hosted(application=app, upstream=upstream, state=state)


def _settings(
    paths: Paths, environ: Mapping[str, str], bare_upstream: str
) -> tuple[ProxySettings, str]:
    """Return the settings on disk, or the plainest that keep the routes, and what is wrong."""
    routes: Mapping[str, str] = {}
    try:
        config = load_config(paths.config_file, environ)
        routes = config.routes
        settings = settings_from(paths, config, bare_upstream=bare_upstream)
        if config.flag("memory.at_trim"):
            settings = replace(settings, recorder="openmem.host.recorder")
        problem = ""
    except OpenmemError as error:
        Logbook(paths, "worker").fault("settings cannot be used", error)
        settings = ProxySettings(paths=paths, routes=routes, bare_upstream=bare_upstream)
        problem = error.message
        if isinstance(error, InvalidConfig) and not routes:
            record = read_record(paths)
            known = record.upstream if record else {}
            routes = {agent: url for agent, url in known.items() if agent}
            problem += " The routes of before are used."
    return replace(settings, routes={**DEFAULT_UPSTREAMS, **routes}), problem


def _shown(url: str) -> str:
    """Return an address without user and password, which a hand-written setting may hold."""
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{separator}{place.rpartition('@')[2]}{slash}{path}"


def _list(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
