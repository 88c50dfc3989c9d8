"""What every form of `System` gives, and the refusals they share, in one wording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from openmem.base.errors import PlanConflict, Refused
from openmem.base.io import ABSENT, digest_of

NEW_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What stands at a path. `mode`: permission bits. `real_path`: with every link followed."""

    kind: Literal["file", "dir", "dangling", "other"]
    mode: int
    size: int
    real_path: str
    is_link: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a program ended. `stdout`, `stderr`: decoded, as they came."""

    code: int
    stdout: str = ""
    stderr: str = ""


class System(Protocol):
    """The machine. `environ`: the environment the work is done for."""

    environ: Mapping[str, str]

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, None when nothing is there.

        Refused for a dangling link, a folder, a device, and a file we may not read.
        """
        ...

    def list(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; empty when there is no such folder."""
        ...

    def stat(self, path: str) -> Stat | None:
        """Return what stands at a path, None when nothing does."""
        ...

    def check_writable(self, path: str) -> None:
        """Return when `path` can be written, made or removed; Refused, with the reason, if not.

        Changes nothing. A folder that does not exist yet is judged by its nearest parent.
        """
        ...

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        """Replace a file, whole or not at all; a link is followed, mode and owner are kept.

        `mode`: None keeps the file's, 600 for a new one. `expect`: digest of what must be there
        now, or ABSENT; PlanConflict when it is not, and then nothing was changed. The folder must
        exist.
        """
        ...

    def remove(self, path: str, *, expect: str | None = None) -> None:
        """Remove a file. PlanConflict when it is not the one expected. A link is refused."""
        ...

    def make_dir(self, path: str, *, mode: int = 0o700) -> None:
        """Make one folder whose parent exists; one that is there stays as it is."""
        ...

    def remove_dir(self, path: str) -> bool:
        """Remove an empty folder; False when it is not empty or not there."""
        ...

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Ran:
        """Run a program that changes something. Missing when there is no such program."""
        ...

    def probe(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Ran:
        """Run a program that only reads; a dry run runs it too."""
        ...

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Hold a lock between processes; Failed when another one keeps it."""
        ...


def dangling(path: str, target: str) -> Refused:
    return Refused(
        f"{path} is a link to {target}, which leads to no file. Nothing was written.",
        hint="Make the target or remove the link, then run it again.",
        code="dangling-link",
    )


def not_a_file(path: str, what: str) -> Refused:
    return Refused(f"{path} is {what}, not a file. Nothing was written.", code="not-a-file")


def not_readable(path: str, reason: str) -> Refused:
    return Refused(f"{path} cannot be read ({reason}). Nothing was written.", code="not-readable")


def not_writable(path: str, reason: str) -> Refused:
    return Refused(
        f"{path} is not writable ({reason}). Nothing was written.",
        hint="Change its permissions, or leave it out.",
        code="not-writable",
    )


def link_removal(path: str) -> Refused:
    return Refused(f"{path} is a link; it is not removed.", code="is-link")


def changed(path: str, found: str) -> PlanConflict:
    """`found`: what is the case now, as a half sentence."""
    return PlanConflict(
        f"{path} {found} since the plan was made. Nothing was written to it.",
        hint="Run it again: a new plan starts from what is there now.",
    )


def compare(path: str, data: bytes | None, expect: str) -> None:
    """Return when what stands at a path is what was expected; PlanConflict otherwise."""
    found = ABSENT if data is None else digest_of(data)
    if found == expect:
        return
    if expect == ABSENT:
        raise changed(path, "was made by somebody else")
    raise changed(path, "was removed" if found == ABSENT else "was changed")
