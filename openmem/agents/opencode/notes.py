"""What setup says of OpenCode behind addresses of its own, in one screen."""

from __future__ import annotations

from openmem.agents.agent import Detected, Wanted


def notes(detected: Detected, wanted: Wanted) -> tuple[str, ...]:
    """Return what the person should know of this wiring, each one sentence."""
    said: list[str] = []
    if wanted.proxy and wanted.upstreams:
        routes = {one.route for one in detected.addresses}
        going = [f"{url}" for route, url in wanted.upstreams.items() if route in routes]
        if going:
            said.append(
                f"OpenCode's requests go on to {', '.join(dict.fromkeys(going))}; after a new "
                "provider or login run this again."
            )
    if wanted.proxy and not detected.is_routable:
        said.append("OpenCode uses no provider that can be sent through the proxy.")
    return tuple(said)
