"""The proxy beside a change of its settings: one that runs takes over what was written."""

from __future__ import annotations

from openmem.base.config import load_config
from openmem.base.paths import Paths
from openmem.host import lifecycle
from openmem.host.lifecycle import ProxyStatus


def bring_up_to_date(paths: Paths) -> ProxyStatus | None:
    """Return the running proxy with the routes and the version of now; None when none runs.

    Starts nothing: a proxy that a person ended stays ended.
    """
    status = lifecycle.status(paths)
    if not status.running or status.stopped or status.manager == "foreground":
        return None
    return lifecycle.start(paths, paths.environ, load_config(paths.config_file, paths.environ))
