"""Files written whole or not at all, private folders, digests and locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator

from openmem.base.errors import Failed

ABSENT = "absent"


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of `data` as `sha256:<hex>`."""
    import hashlib  # loads OpenSSL: 3 ms and 4 MB, which hooks and the supervisor do without

    return "sha256:" + hashlib.sha256(data).hexdigest()


def read_bytes_or_none(path: str) -> bytes | None:
    """Return the bytes of a file, None when nothing is there. OSError on anything else."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def ensure_private_dir(path: str) -> str:
    """Create a folder and its missing parents with mode 700, and return its path.

    Folders that exist keep their mode, but for the last one, which is ours.
    """
    missing: list[str] = []
    probe = path
    while not os.path.isdir(probe):
        missing.append(probe)
        parent = os.path.dirname(probe)
        if parent == probe:
            break
        probe = parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process of ours was first
            os.mkdir(folder, 0o700)
    return path


def is_private_folder(path: str) -> bool:
    """Return whether `path` is a real folder of this user that nobody else may enter."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    )


def write_atomic(path: str, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file by `data`: temporary file beside it, fsync, rename, fsync of the folder."""
    folder = os.path.dirname(path) or "."
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.{time.time_ns()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with naming(path), os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first fault is the one to report
            os.unlink(temporary)
        raise
    sync_dir(folder)


def sync_dir(folder: str) -> None:
    """Make renames inside a folder durable; a file system that cannot is left as it is."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # network mounts refuse to sync a folder; the rename itself stands
    finally:
        os.close(descriptor)


def remove_tree(path: str, *, timeout_seconds: float = 5.0) -> None:
    """Remove a folder with all that is in it; what another process adds meanwhile goes too.

    OSError when it cannot be removed, or is filled for that long.
    """
    import shutil  # hooks and the supervisor read this module and remove no folder

    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            shutil.rmtree(path)
            return
        except FileNotFoundError:
            if not os.path.lexists(path):
                return  # its owner was first
            if time.monotonic() >= deadline:
                raise
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or time.monotonic() >= deadline:
                raise
        time.sleep(0.05)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Give an OSError that knows no file this one: a full disk is met by its descriptor only."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


@contextlib.contextmanager
def locked(path: str, *, timeout_seconds: float = 10.0) -> Iterator[None]:
    """Hold an exclusive lock on `path` (created 600). Failed when it stays taken that long."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Failed(
                        f"another openmem holds {path}.",
                        hint="Wait for it to end, then run this again.",
                        code="locked",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
