"""Checks of the session stores: how many, how large, readable, of a version we know."""

from __future__ import annotations

import os
import time

from openmem.base.errors import InvalidConfig, StoreUnavailable
from openmem.base.installation import read_key
from openmem.base.paths import Paths
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.reader import open_entry
from openmem.setup.doctor.finding import Finding, many

_BUDGET_SECONDS = 3.0  # a doctor that takes longer is not asked; the newest sessions come first


def check_store(paths: Paths) -> list[Finding]:
    """The stored sessions, the newest first, as far as the time allows."""
    known = entries(paths)
    found = [*_unreadable(known), *_set_aside(paths), *_leftovers(paths)]
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
    text = f"{many(len(known), 'session')}, {size / 1e6:.1f} MB"
    if not found:
        found.append(Finding(name="store", outcome="ok", subject="store", detail=text))
    return found


def _unreadable(known: list[Entry]) -> list[Finding]:
    deadline = time.monotonic() + _BUDGET_SECONDS
    bad: dict[str, list[StoreUnavailable]] = {}
    for entry in known:
        if time.monotonic() > deadline:
            break
        try:
            with open_entry(entry) as reader:
                reader.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except StoreUnavailable as error:
            bad.setdefault(error.code, []).append(error)
    found = []
    for code, errors in bad.items():
        more = f" ({len(errors)} such)" if len(errors) > 1 else ""
        found.append(
            Finding(
                name="store",
                outcome="warning" if code == "store-newer" else "error",
                subject="store",
                detail=errors[0].message + more,
                advice=errors[0].hint or "the other sessions are not touched by it",
            )
        )
    return found


def _set_aside(paths: Paths) -> list[Finding]:
    names = [n for n in _names(paths.sessions_dir) if ".damaged-" in n]
    if not names:
        return []
    return [
        Finding(
            name="damaged",
            outcome="warning",
            subject="store",
            detail=f"{many(len(names), 'damaged file')} set aside in {paths.sessions_dir}",
            advice="the sessions went on in new files; remove the old ones when you like",
        )
    ]


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
