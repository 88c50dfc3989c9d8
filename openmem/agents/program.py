"""Where an agent's program lies: on PATH, or where its installers put it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from openmem.base.errors import OpenmemError
from openmem.plan.system import System


def find_binary(
    system: System, environ: Mapping[str, str], name: str, installed: Sequence[str]
) -> str:
    """Return the path of the program `name`, "" when no folder of PATH or `installed` has it."""
    folders = [f for f in environ.get("PATH", "").split(":") if posixpath.isabs(f)]
    for folder in (*folders, *installed):
        path = posixpath.join(folder, name)
        try:
            stat = system.stat(path)
        except OpenmemError:
            continue  # a folder on PATH that we may not enter
        if stat is not None and stat.kind == "file" and stat.mode & 0o111:
            return path
    return ""
