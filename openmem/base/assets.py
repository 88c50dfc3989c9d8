"""Files that ship with openmem: `templates/` and `hooks/`.

In a wheel they stand under `openmem/_data`; in an editable install the package folder is the
checkout's, and they stand beside it (hatchling copies forced files only into a wheel).
"""

from __future__ import annotations

import os

from openmem.base.errors import OpenmemError


def asset_path(*parts: str) -> str:
    """Return the path of a shipped file or folder. OpenmemError when the installation lacks it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for root in (os.path.join(package, "_data"), os.path.dirname(package)):
        path = os.path.join(root, *parts)
        if os.path.exists(path):
            return path
    raise OpenmemError(
        f"this installation lacks its own file {'/'.join(parts)}.",
        hint="Install openmem-cli again.",
        code="broken-installation",
    )


def read_asset(*parts: str) -> str:
    """Return the text of a shipped file."""
    with open(asset_path(*parts), encoding="utf-8") as file:
        return file.read()
