"""The key of this installation, with which row keys and masks of secrets are made.

A plain hash of a short secret can be guessed back; one keyed with 32 random bytes cannot. The key
never leaves the machine and is not part of an export.
"""

from __future__ import annotations

import os

from openmem.base.errors import InvalidConfig
from openmem.base.io import ensure_private_dir
from openmem.base.paths import Paths

_SIZE_BYTES = 32


def read_key(paths: Paths) -> bytes | None:
    """Return the key, None before there is one. InvalidConfig when the file is not a key."""
    try:
        with open(paths.key_file, encoding="ascii") as file:
            text = file.read().strip()
    except FileNotFoundError:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _SIZE_BYTES:
        raise InvalidConfig(
            f"{paths.key_file} is not a key of openmem.",
            hint="Restore it from a backup; without it stored sessions cannot be verified.",
        )
    return key


def ensure_key(paths: Paths) -> bytes:
    """Return the key, made at the first call; two callers at once get the same one."""
    key = read_key(paths)
    if key is not None:
        return key
    ensure_private_dir(paths.state_dir)
    # Two threads of one process may be here, too.
    temporary = f"{paths.key_file}.{os.getpid()}-{os.urandom(4).hex()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(os.urandom(_SIZE_BYTES).hex() + "\n")
    try:
        os.link(temporary, paths.key_file)  # fails when another process was first
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)
    key = read_key(paths)
    assert key is not None
    return key
