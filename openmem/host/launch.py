"""How a process of ours is started: which interpreter, which code, which environment.

Idea: a child runs the very installation of its parent, found by folder, so a checkout, a virtual
environment and an upgrade in place behave alike. Invariant: a child gets a short list of
variables; an agent's environment holds keys and tokens that a daemon must not carry for days.
Trap: orders go by an environment variable, not by arguments, which every user can read in `ps`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORDERS = "OPENMEM_HOST_ORDERS"

# fmt: off
_KEPT = frozenset((
    "HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "DBUS_SESSION_BUS_ADDRESS",
))
# fmt: on
_KEPT_PREFIXES = ("OPENMEM_", "XDG_")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a daemon of ours may inherit: folders, language, proxies, certificates."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _KEPT or name.startswith(_KEPT_PREFIXES)) and name != ORDERS
    }


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the argument list that runs `module`'s `main` with this interpreter and code."""
    root = os.path.dirname(PACKAGE)
    if os.path.basename(root) in ("site-packages", "dist-packages"):
        return [sys.executable, "-P", "-m", module, *arguments]
    code = (
        f"import sys; sys.path.insert(0, {root!r}); "
        f"from {module} import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-P", "-c", code, *arguments]


def spawn(
    command: list[str],
    environ: Mapping[str, str],
    *,
    orders: Mapping[str, object] | None = None,
    descriptors: tuple[int, ...] = (),
    keeps_stderr: bool = False,
) -> int:
    """Start a process with nothing on its standard streams, and return its id.

    `descriptors`: handed to the child under their own numbers. OSError when it cannot be started.
    """
    inner = dict(environ)
    if orders is not None:
        inner[ORDERS] = json.dumps(orders)
    actions: list[tuple[object, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    if not keeps_stderr:
        actions.append((os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    try:
        return os.posix_spawn(command[0], command, inner, file_actions=actions)
    finally:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)


def take_orders() -> dict[str, object]:
    """Return the orders that the parent gave, and take them out of the environment."""
    value = json.loads(os.environ.pop(ORDERS, "{}"))
    if not isinstance(value, dict):
        raise ValueError("orders are not an object")
    return value


def number_in(orders: Mapping[str, object], name: str) -> int:
    """Return a whole number out of orders, 0 when it is missing. ValueError on another kind."""
    value = orders.get(name, 0)
    if not isinstance(value, int):
        raise ValueError(f"{name} is not a number")
    return value


def become(
    orders: Mapping[str, object], environ: Mapping[str, str], descriptors: list[int]
) -> None:
    """Replace this process image by a supervisor with these orders; returns only by OSError."""
    command = command_of("openmem.host.supervisor", "--serve")
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    os.execve(command[0], command, {**environ, ORDERS: json.dumps(orders)})


def installed_version() -> str:
    """Return the version that stands on disk now, "" while an upgrade is half way.

    It differs from `openmem.__version__` once the files under a running process were replaced.
    """
    try:
        with open(os.path.join(PACKAGE, "__init__.py"), encoding="utf-8") as file:
            text = file.read(1 << 16)
    except (OSError, ValueError):
        return ""  # being replaced: asked again later
    match = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    return match.group(1) if match else ""
