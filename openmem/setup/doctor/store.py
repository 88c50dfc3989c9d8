"""Checks of the session stores: how many, how large, readable, of a version we know."""

from __future__ import annotations

import os

from openmem.base.counts import counted, size_text
from openmem.base.errors import InvalidConfig
from openmem.base.installation import read_key
from openmem.base.paths import Paths
from openmem.context.care.files import named_blobs
from openmem.context.care.sweep import due
from openmem.context.store.catalog import entries
from openmem.context.store.health import ailments
from openmem.setup.doctor.finding import Finding

_BLOB = ("image or document", "images or documents")


def check_store(paths: Paths) -> list[Finding]:
    """The stored sessions: what is wrong with them, or how many there are."""
    known = entries(paths)
    found = [*_sick(paths), *_leftovers(paths)]
    if known and _lacks_key(paths):
        found.append(
            Finding(
                name="key",
                outcome="error",
                subject="store",
                detail=f"{paths.key_file} is missing or is not a key",
                advice="restore it from a backup; without it stored sessions cannot be verified",
            )
        )
    size = sum(_size(entry.path) for entry in known)
    text = f"{counted(len(known), 'session')}, {size_text(size)}"
    if not found:
        found.append(Finding(name="store", outcome="ok", subject="store", detail=text))
    return found


def check_blobs(paths: Paths, now: float) -> list[Finding]:
    """Images and documents: those that no row names, and rows whose file is gone."""
    swept = due(paths, 0, now=now)
    found = [
        Finding(name="blobs", outcome="info", subject="blobs", detail=note) for note in swept.notes
    ]
    if swept.blobs:
        found.append(
            Finding(
                name="blobs",
                outcome="info",
                subject="blobs",
                detail=f"{counted(len(swept.blobs), 'file')} that no row names, "
                f"{size_text(swept.blob_bytes)}",
                advice="openmem context sweep   removes them; so does the proxy, once a day",
            )
        )
    if found:
        return found
    there = {name.partition(".")[0] for name in _names(paths.blobs_dir)}
    named, _ = named_blobs(paths)
    gone = named - there
    if gone:
        return [
            Finding(
                name="blobs",
                outcome="warning",
                subject="blobs",
                detail=f"{counted(len(gone), *_BLOB)} of stored rows not there",
                advice=f"restore {paths.blobs_dir} from a backup; the rows' texts are whole",
            )
        ]
    if not there:
        return []
    total = sum(_size(f"{paths.blobs_dir}/{name}") for name in _names(paths.blobs_dir))
    detail = f"{counted(len(there), *_BLOB)}, {size_text(total)}"
    return [Finding(name="blobs", outcome="ok", subject="blobs", detail=detail)]


def _sick(paths: Paths) -> list[Finding]:
    """What degrades recording; disk and mount are told with the machine."""
    found = []
    for ailment in ailments(paths):
        if ailment.name in ("disk", "mount"):
            continue
        is_error = ailment.stops or ailment.name == "unreadable"
        found.append(
            Finding(
                name="store" if ailment.name in ("newer", "unreadable") else ailment.name,
                outcome="error" if is_error else "warning",
                subject="store",
                detail=ailment.detail,
                advice=ailment.advice,
            )
        )
    return found


def _leftovers(paths: Paths) -> list[Finding]:
    """Folders of a smoke test that was killed."""
    names = [n for n in _names(paths.state_dir) if n.startswith(".smoke-")]
    if not names:
        return []
    return [
        Finding(
            name="leftover",
            outcome="info",
            detail=f"a smoke test that was killed left {paths.state_dir}/{names[0]}",
            advice=f"rm -r {paths.state_dir}/.smoke-*",
        )
    ]


def _lacks_key(paths: Paths) -> bool:
    try:
        return read_key(paths) is None
    except InvalidConfig:
        return True


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # not there yet: nothing to report


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # gone meanwhile
