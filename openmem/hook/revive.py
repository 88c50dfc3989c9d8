"""Bringing back a proxy that died, because an agent wired to it cannot work without it.

Idea: the hook starts the supervisor and goes on; the supervisor takes the address at once, and
connections wait in its queue until a worker is up. Invariant: what a person stopped stays
stopped, and no setting of an agent is written here: an address that was taken out by hand is
never put back. Trap: the agent's environment holds keys and tokens; a process that lives for days
gets a short list of variables.
Source: design section 7; users' report 9.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from openmem.base.paths import Paths

# Held equal to what the host gives its own processes by tests/hook/test_revive.py.
_KEPT = frozenset(
    (
        *("HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "DBUS_SESSION_BUS_ADDRESS"),
    )
)
_KEPT_PREFIXES = ("OPENMEM_", "XDG_")
_MODULE = "openmem.host.supervisor"


def is_stopped(paths: Paths) -> bool:
    """Return whether a person ended the proxy; then nothing but `proxy start` brings it back."""
    return os.path.exists(f"{paths.run_dir}/stopped")


def start_supervisor(paths: Paths, environ: Mapping[str, str]) -> bool:
    """Start the supervisor, detached from the agent; False when a person stopped the proxy.

    Returns before it listens. Two at once are harmless: one of them finds the lock taken and ends.
    """
    if is_stopped(paths):
        return False
    # An agent waits until nobody holds its hook's output, and may end the hook's process group.
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    os.posix_spawn(
        sys.executable, command(), clean_environment(environ), file_actions=streams, setpgroup=0
    )
    return True


def command() -> list[str]:
    """Return the argument list that runs the supervisor with this interpreter and this code."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        return [sys.executable, "-P", "-m", _MODULE, "--detach"]
    code = (
        f"import sys; sys.path.insert(0, {root!r}); "
        f"from {_MODULE} import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-P", "-c", code, "--detach"]


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the supervisor may inherit: folders, language, proxies, certificates."""
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }
