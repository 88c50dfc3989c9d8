"""The address that a wired agent is given, and how it is known again.

Each agent has a path prefix of its own, so that the proxy can send it on to the upstream that it
had before us. Hooks, wiring and status read this one form; none of them writes it by hand.
"""

from __future__ import annotations

HOST = "127.0.0.1"
_OWN_HOSTS = (HOST, "localhost", "[::1]")


def base_url(port: int, agent: str) -> str:
    """Return the base URL of an agent: `http://127.0.0.1:8913/a/claude-code`."""
    return f"http://{HOST}:{port}/a/{agent}"


def provider_route(agent: str, provider: str) -> str:
    """Return the route of one provider of an agent that has several: `opencode-anthropic`.

    A name that a path cannot hold is written otherwise, and told from one that looks alike.
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in provider)
    if plain == provider:
        return f"{agent}-{plain}"
    import zlib  # only where it is needed: every hook reads this module

    return f"{agent}-{plain}-{zlib.crc32(provider.encode('utf-8', 'replace')):08x}"


def routed_port(url: str, agent: str) -> int:
    """Return the port of ours that a base URL names, 0 when the URL is somebody else's.

    Any port counts, so that an address written before the port changed is still ours.
    """
    rest = url.strip()
    if rest[:7].lower() != "http://":
        return 0
    place, _, path = rest[7:].partition("/")
    host, _, port = place.rpartition(":")
    if host.lower() not in _OWN_HOSTS or path.rstrip("/") != f"a/{agent}":
        return 0
    # isdecimal alone takes other scripts' digits, which no client would
    return int(port) if port.isascii() and port.isdecimal() and 0 < int(port) < 65536 else 0
