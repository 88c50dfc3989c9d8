"""Who may talk to the proxy: programs on this machine, never a web page.

A page in a browser can reach 127.0.0.1, by a name of its own that resolves there (its Host is
foreign) or across origins (its Origin is foreign). Both are refused before anything is read.
"""

from __future__ import annotations

import re

from openmem.context.proxy import refusal
from openmem.context.proxy.headers import Pairs
from openmem.context.proxy.refusal import Refusal

_LOCAL_HOST = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])\.?(?::\d{1,5})?", re.I)
_LOCAL_ORIGIN = re.compile(rb"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.I)


def _shown(value: bytes) -> str:
    return repr(value[:60].decode("ascii", "replace"))


def check(pairs: Pairs) -> Refusal | None:
    """Return the refusal of a foreign caller, None for one of this machine."""
    for name, value in pairs:
        if name == b"host" and not _LOCAL_HOST.fullmatch(value.strip()):
            return refusal.foreign(f"Host {_shown(value)}")
        if name == b"origin" and not _LOCAL_ORIGIN.fullmatch(value.strip()):
            return refusal.foreign(f"Origin {_shown(value)}")
        if name == b"sec-fetch-site" and value.strip().lower() == b"cross-site":
            return refusal.foreign("a page of another site")
    return None
