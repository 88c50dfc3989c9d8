"""From the settings to a provider that runs on a server.

Idea: address, key and installation are looked up when a provider is made or first writes, so that
asking for a provider opens and creates nothing. Trap: the key is in a file of its own, never in
the settings; a key file that is missing means "no key", which the server judges.
"""

from __future__ import annotations

from collections.abc import Callable

from openmem.base.config import Config, load_config
from openmem.base.errors import InvalidConfig
from openmem.base.installation import read_key
from openmem.base.paths import Paths
from openmem.memory.providers.base import Provider
from openmem.memory.providers.wire import Address, Transport, checked_url

# The port on which each server is usual, and on which our own stack publishes it.
USUAL_PORTS = {"hindsight": 8888, "mem0": 8889, "cognee": 8000}


def key_path(paths: Paths, provider: str) -> str:
    """Return where the key of our own stack is kept."""
    return f"{paths.stack_dir}/{provider}/key"


def address_of(name: str, paths: Paths, config: Config | None = None) -> Address:
    """Return where a provider is, as the settings say. InvalidConfig, Usage."""
    config = config or load_config(paths.config_file, paths.environ)
    url = config.text("server.url")
    is_own = not url
    if is_own:
        url = f"http://127.0.0.1:{config.number('server.port') or USUAL_PORTS[name]}"
    path = config.text("server.key_file") or (key_path(paths, name) if is_own else "")
    user = config.text("server.user")
    if is_own and name == "cognee" and not user:
        user = OWN_USER
    seconds = config.get("server.timeout_seconds")
    assert isinstance(seconds, int | float)
    return Address(
        provider=name,
        url=checked_url(url),
        key=read_secret(path) if path else "",
        user=user if name == "cognee" else "",
        ca_file=config.text("server.ca_file"),
        seconds=float(seconds),
        is_own=is_own,
    )


# Whom our own Cognee knows; the address goes nowhere.
OWN_USER = "openmem@example.com"


def read_secret(path: str) -> str:
    """Return the first line of a secret's file, "" when there is none. InvalidConfig."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidConfig(f"the key file {path} cannot be read: {why}.") from None


def origin_of(paths: Paths) -> str:
    """Return what names this installation on a shared server; its key cannot be told from it."""
    import hashlib  # loads OpenSSL; only who speaks to a server needs it

    key = read_key(paths)
    return hashlib.sha256(b"openmem installation" + (key or b"")).hexdigest()[:12]


def made(
    name: str,
    paths: Paths,
    transport: Transport | None = None,
    address: Address | None = None,
    config: Config | None = None,
) -> Provider:
    """Return a provider on a server. `transport`: None for the plain one; `address`: None for the
    one that the settings name."""
    if transport is None:
        from openmem.memory.providers.plain_http import PlainTransport

        transport = PlainTransport()
    config = config or load_config(paths.config_file, paths.environ)
    address = address or address_of(name, paths, config)
    known: list[str] = []

    def origin() -> str:
        if not known:
            known.append(origin_of(paths))
        return known[0]

    return _MADE[name](address, transport, origin, config)


def _hindsight(address: Address, transport: Transport, origin: Origin, _: Config) -> Provider:
    from openmem.memory.providers.hindsight.provider import HindsightProvider

    return HindsightProvider(address, transport, origin)


def _mem0(address: Address, transport: Transport, origin: Origin, config: Config) -> Provider:
    from openmem.memory.providers.mem0.provider import Mem0Provider

    return Mem0Provider(address, transport, origin, infer=config.flag("server.infer"))


def _cognee(address: Address, transport: Transport, origin: Origin, _: Config) -> Provider:
    from openmem.memory.providers.cognee.provider import CogneeProvider

    return CogneeProvider(address, transport, origin)


Origin = Callable[[], str]
_MADE: dict[str, Callable[[Address, Transport, Origin, Config], Provider]] = {
    "hindsight": _hindsight,
    "mem0": _mem0,
    "cognee": _cognee,
}
SERVED = tuple(_MADE)
