"""Where an agent's program lies (on PATH, or where its installers put it), and its version."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Mapping, Sequence

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


def packaged_version(system: System, binary: str, names: Collection[str]) -> str:
    """Return the version of the npm package, one of `names`, that a program lies in; else ""."""
    stat = system.stat(binary)
    folder = posixpath.dirname(stat.real_path if stat else binary)
    for _ in range(3):  # …/PACKAGE/bin/PROGRAM at the deepest
        try:
            value = json.loads(system.read(posixpath.join(folder, "package.json")) or b"{}")
        except (OpenmemError, ValueError):
            value = None  # somebody else's file
        if isinstance(value, dict) and value.get("name") in names:
            version = value.get("version")
            return version if isinstance(version, str) else ""
        folder = posixpath.dirname(folder)
    return ""
