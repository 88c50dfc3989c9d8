"""The machine itself. Refuses what it cannot put back: another owner, a link to nowhere."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as bits
import subprocess
import time
from collections.abc import Mapping, Sequence

from openmem.base.errors import Failed, Missing
from openmem.base.io import ABSENT, digest_of, locked, naming, sync_dir
from openmem.plan.system import contract
from openmem.plan.system.contract import NEW_FILE_MODE, Ran, Stat
from openmem.plan.system.swap import exchange

TEMPORARY_MARK = ".openmem-"


class RealSystem:
    """Files and programs of this machine, for the person whose environment `environ` is."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    def read(self, path: str) -> bytes | None:
        found = self.stat(path)
        if found is None:
            return None
        if found.kind == "dangling":
            raise contract.dangling(path, _link_text(path))
        if found.kind != "file":
            raise contract.not_a_file(path, "a folder" if found.kind == "dir" else "a device")
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None  # removed in this moment
        except PermissionError:
            raise contract.not_readable(path, "permission denied") from None

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError:
            raise contract.not_readable(path, "permission denied") from None

    def stat(self, path: str) -> Stat | None:
        try:
            here = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            raise contract.not_readable(path, "permission denied") from None
        is_link = bits.S_ISLNK(here.st_mode)
        real_path = os.path.realpath(path)
        try:
            there = os.stat(path) if is_link else here
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise contract.not_readable(path, os.strerror(error.errno or 0)) from None
            return Stat(kind="dangling", mode=0, size=0, real_path=real_path, is_link=True)
        kind = "dir" if bits.S_ISDIR(there.st_mode) else "other"
        if bits.S_ISREG(there.st_mode):
            kind = "file"
        return Stat(
            kind=kind,  # type: ignore[arg-type]
            mode=bits.S_IMODE(there.st_mode),
            size=there.st_size,
            real_path=real_path,
            is_link=is_link,
        )

    def check_writable(self, path: str) -> None:
        found = self.stat(path)
        if found is not None and found.kind == "dangling":
            raise contract.dangling(path, _link_text(path))
        if found is not None and found.kind == "other":
            raise contract.not_a_file(path, "a device")
        real = found.real_path if found else path
        if found is not None and found.kind == "file":
            # Root may write to anything; a file without any write bit was meant to stay.
            if not found.mode & 0o222 or not os.access(real, os.W_OK):
                raise contract.not_writable(path, f"mode {found.mode:03o}")
            owner = os.stat(real).st_uid
            if os.geteuid() not in (0, owner):
                raise contract.not_writable(path, "it belongs to another user")
        folder = os.path.dirname(real) or "."
        while not os.path.isdir(folder):
            if os.path.lexists(folder):
                if os.path.islink(folder):
                    raise contract.dangling(folder, _link_text(folder))
                raise contract.not_writable(path, f"{folder} is not a folder")
            folder = os.path.dirname(folder) or "."
        if not os.access(folder, os.W_OK | os.X_OK) or not os.stat(folder).st_mode & 0o222:
            raise contract.not_writable(path, f"its folder {folder} is read-only")

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        self.check_writable(path)
        found = self.stat(path)
        if found is not None and found.kind == "dir":
            raise contract.not_a_file(path, "a folder")
        target = found.real_path if found else path
        temporary = _temporary(target)
        try:
            with naming(path):
                _write_beside(temporary, data, target if found else "", mode)
            if expect == ABSENT:
                _place_new(temporary, target, path)
            elif expect is not None:
                _swap_in(temporary, target, path, expect, digest_of(data))
            else:
                os.replace(temporary, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        sync_dir(os.path.dirname(target) or ".")

    def remove(self, path: str, *, expect: str | None = None) -> None:
        found = self.stat(path)
        if found is None:
            raise contract.changed(path, "was removed")
        if found.is_link:
            raise contract.link_removal(path)
        self.check_writable(path)
        if expect is not None and _digest_at(path) != expect:
            raise contract.changed(path, "was changed")
        aside = _temporary(path)
        os.rename(path, aside)  # out of the way first: what we look at is what we remove
        if expect is not None and _digest_at(aside) != expect:
            try:
                os.link(aside, path)
            except FileExistsError:
                pass  # its writer has already made a newer one, which stays
            os.unlink(aside)
            raise contract.changed(path, "was changed")
        os.unlink(aside)
        sync_dir(os.path.dirname(path) or ".")

    def make_dir(self, path: str, *, mode: int = 0o700) -> None:
        try:
            os.mkdir(path, mode)
            os.chmod(path, mode)
            sync_dir(os.path.dirname(path) or ".")
        except FileExistsError:
            if not os.path.isdir(path):
                raise contract.not_writable(path, "something that is no folder is there") from None
        except OSError as error:
            raise contract.not_writable(path, os.strerror(error.errno or 0)) from None

    def remove_dir(self, path: str) -> bool:
        if os.path.islink(path):
            return False
        try:
            os.rmdir(path)
        except OSError:
            return False  # not empty, not there, or not ours to remove: it stays
        return True

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Ran:
        try:
            done = subprocess.run(
                list(argv),
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_seconds,
                check=False,
            )
        except (FileNotFoundError, PermissionError):
            raise Missing(f"there is no program {argv[0]}.", code="program-missing") from None
        except subprocess.TimeoutExpired:
            raise Failed(
                f"{argv[0]} did not end within {timeout_seconds:g} s.", code="command-timeout"
            ) from None
        return Ran(
            code=done.returncode,
            stdout=done.stdout.decode("utf-8", "replace"),
            stderr=done.stderr.decode("utf-8", "replace"),
        )

    def probe(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Ran:
        return self.run(argv, timeout_seconds=timeout_seconds)

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        return locked(path)


def _link_text(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return "nothing"


def _temporary(target: str) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:200]}{TEMPORARY_MARK}{os.getpid()}-{time.time_ns()}")


def _digest_at(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return digest_of(file.read())
    except FileNotFoundError:
        return ABSENT


def _write_beside(temporary: str, data: bytes, like: str, mode: int | None) -> None:
    """Write a durable file with the mode, owner and extended attributes of `like` ("": none)."""
    old = os.stat(like) if like else None
    if mode is None:
        mode = bits.S_IMODE(old.st_mode) if old else NEW_FILE_MODE
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if old is not None:
            new = os.fstat(file.fileno())
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                try:
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                except PermissionError:
                    raise contract.not_writable(like, "its owner cannot be kept") from None
            _copy_attributes(like, file.fileno())
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _copy_attributes(like: str, descriptor: int) -> None:
    """Copy access lists and labels, where the system has them."""
    if not hasattr(os, "listxattr"):
        return
    try:
        for name in os.listxattr(like):
            os.setxattr(descriptor, name, os.getxattr(like, name))
    except OSError:
        pass  # a file system without them, or a label only the kernel may set


def _place_new(temporary: str, target: str, path: str) -> None:
    """Give the file its name unless something is there by now."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise contract.changed(path, "was made by somebody else") from None
    except OSError:  # no hard links here: look, then rename
        if os.path.lexists(target):
            raise contract.changed(path, "was made by somebody else") from None
        os.rename(temporary, target)


def _swap_in(temporary: str, target: str, path: str, expect: str, ours: str) -> None:
    """Replace `target` if it is still what was expected, also in the last moment."""
    found = _digest_at(target)
    if found == ABSENT:
        raise contract.changed(path, "was removed")
    if found != expect:
        raise contract.changed(path, "was changed")
    try:
        swapped = exchange(temporary, target)
    except FileNotFoundError:
        raise contract.changed(path, "was removed") from None
    if not swapped:
        os.replace(temporary, target)
        return
    # A writer that had opened the old file may still be on its way: the sync gives it a moment.
    sync_dir(os.path.dirname(target) or ".")
    if _digest_at(temporary) == expect:
        return
    exchange(temporary, target)
    if _digest_at(temporary) != ours:  # a third version came between: the newest stays in place
        exchange(temporary, target)
    raise contract.changed(path, "was changed")
