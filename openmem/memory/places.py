"""Where each bank was used, so that a repository that was moved or renamed finds its memories.

Idea: a bank is named by a remote or by a folder; either may change. What does not change with it is
the other, or the folder's number on its disk. Invariant: only a hint comes of it; a bank is joined
to a workspace by a link, which a person makes and can take back. Trap: numbers of removed folders
are given out again, so a match by number counts only while the old path is gone.
Source: users' report 31.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.base.io import ensure_private_dir, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths
from openmem.base.workspace import Workspace

_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder that used a bank. `folder`: the shared git directory, else the folder itself."""

    bank: str
    folder: str
    device: int
    inode: int
    remotes: tuple[str, ...] = ()


def places_file(paths: Paths) -> str:
    return f"{paths.state_dir}/memory/places.json"


def place_of(workspace: Workspace, bank: str) -> Place | None:
    """Return the place of a workspace, None when its folder is gone."""
    folder = workspace.common_dir or workspace.folder
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return Place(
        bank=bank,
        folder=folder,
        device=status.st_dev,
        inode=status.st_ino,
        remotes=workspace.remotes,
    )


def read_places(paths: Paths) -> list[Place]:
    """Return the places that are known; none when the file cannot be read."""
    try:
        value = json.loads(read_bytes_or_none(places_file(paths)) or b"[]")
    except (OSError, ValueError):
        return []  # only a hint is lost
    found = []
    for entry in value if isinstance(value, list) else ():
        try:
            found.append(Place(**{**entry, "remotes": tuple(entry["remotes"])}))
        except (TypeError, KeyError):
            continue  # of another version
    return found


def note_place(paths: Paths, workspace: Workspace, bank: str) -> None:
    """Write down that a workspace uses a bank; writes only what is new. OSError."""
    place = place_of(workspace, bank)
    known = read_places(paths)
    if place is None or place in known:
        return
    ensure_private_dir(f"{paths.state_dir}/memory")
    kept = [one for one in known if (one.bank, one.folder) != (place.bank, place.folder)]
    entries = [_entry(one) for one in [*kept, place][-_MOST:]]
    write_atomic(places_file(paths), json.dumps(entries).encode() + b"\n")


def _entry(place: Place) -> Mapping[str, object]:
    return {name: getattr(place, name) for name in Place.__slots__}


def looks_moved_from(paths: Paths, workspace: Workspace, bank: str) -> str:
    """Return the bank that a workspace used under another name or at another place, "" for none."""
    here = place_of(workspace, bank)
    if here is None:
        return ""
    for place in reversed(read_places(paths)):
        if place.bank == bank:
            continue
        is_same_folder = place.folder == here.folder
        has_moved = (place.device, place.inode) == (here.device, here.inode) and not (
            os.path.exists(place.folder)
        )
        if is_same_folder or has_moved:
            return place.bank
    return ""
