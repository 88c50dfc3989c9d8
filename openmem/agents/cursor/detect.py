"""Finding Cursor by its programs, its folders and its files; none of its programs is run.

Invariant: nothing is refused here; what is wrong becomes a problem in words. Trap: npm has a
`cursor-agent` of somebody else's; a program alone is only a sign that hooks may be read.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.agent import Detected
from openmem.agents.cursor.places import NAME, TITLE, binaries, places, signs
from openmem.agents.reading import read_json
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.system import System


def detect(system: System, environ: Mapping[str, str]) -> Detected | None:
    """Return what was found; None when there is no sign of Cursor."""
    home = Paths(environ).home
    found = places(home)
    binary = next((path for path in binaries(environ, home) if _is_there(system, path)), "")
    if not binary and not any(_is_there(system, path) for path in signs(home)):
        return None
    problems: list[str] = []
    for path in (found.hooks, found.servers):
        try:
            read_json(system, path)
            system.check_writable(path)
        except OpenmemError as error:
            problems.append(error.message)
    return Detected(
        name=NAME,
        title=TITLE,
        binary=binary,
        config_dir=found.config_dir,
        settings_file=found.hooks,
        mcp_file=found.servers,
        is_routable=False,
        problems=tuple(problems),
    )


def _is_there(system: System, path: str) -> bool:
    try:
        return system.stat(path) is not None
    except OpenmemError:
        return False  # a folder that we may not enter: no sign
