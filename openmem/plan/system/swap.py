"""Two names on one file system exchanged in one step, where the kernel can.

With `rename` alone there is a moment between "is it still what I saw?" and the replace in which
another program's write is lost. An exchange leaves what was displaced in our hand: if that is not
what the plan saw, we exchange back and nobody lost anything. Linux: renameat2, RENAME_EXCHANGE;
macOS: renamex_np, RENAME_SWAP. Some file systems refuse; then there is only the plain replace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_FLAG = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
_AT_FDCWD = -100
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM}


def exchange(one: str, other: str) -> bool:
    """Swap what two existing names stand for; False when this system cannot."""
    first, second = os.fsencode(one), os.fsencode(other)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = libc.renamex_np(first, second, ctypes.c_uint(_FLAG))
        else:
            failed = libc.renameat2(
                ctypes.c_int(_AT_FDCWD),
                first,
                ctypes.c_int(_AT_FDCWD),
                second,
                ctypes.c_uint(_FLAG),
            )
    except (AttributeError, OSError):
        return False  # a C library without the call
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), other)
