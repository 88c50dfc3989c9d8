"""Which headers cross the proxy: all but those of one connection, and those meant for us.

Order, duplicates and unknown names are kept. Source: RFC 9110 section 7.6.1.
"""

from __future__ import annotations

from collections.abc import Iterable

Pairs = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Host is the upstream's own; Expect was answered by us, the body is at hand when we send.
_REQUEST_ONLY = frozenset({b"host", b"expect"})
# What our own plug-ins tell the proxy is not the provider's business.
_OURS = b"x-openmem-"
_MISMATCH = b"anthropic-thinking-prefix-mismatch"


def _named_by_connection(pairs: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Return the header names that `Connection` declares to be of this connection only."""
    names: set[bytes] = set()
    for name, value in pairs:
        if name.lower() == b"connection":
            names.update(token.strip().lower() for token in value.split(b","))
    # A client may not use this to strip what the API needs; these two are framing, ours to set.
    return frozenset(names - {b"close", b"keep-alive", b"content-length", b"host"})


def _text(raw: bytes) -> str:
    """Return header bytes as text that the client library writes as the same bytes.

    It writes UTF-8; bytes that are not UTF-8 are read as Latin-1 and change, which no client does.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def for_upstream(pairs: Pairs) -> list[tuple[str, str]]:
    """Return a request's headers as they go upstream. `pairs`: names in lower case."""
    dropped = _HOP_BY_HOP | _REQUEST_ONLY | _named_by_connection(pairs)
    return [
        (_text(name), _text(value))
        for name, value in pairs
        if name not in dropped and not name.startswith(_OURS)
    ]


def for_client(pairs: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Return a response's headers as they go to the client, in the API's spelling and order."""
    kept = list(pairs)
    dropped = _HOP_BY_HOP | _named_by_connection(kept)
    return [(name, value) for name, value in kept if name.lower() not in dropped]


def without_indices(pairs: Pairs) -> Pairs:
    """Return the headers of a refusal without the one that tells where in the request it lies:
    what was refused is a body of ours, and the client would count in its own."""
    return [(name, value) for name, value in pairs if name.lower() != _MISMATCH]


def first(pairs: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return the first value of a header, "" without one. `pairs`: names in lower case."""
    for key, value in pairs:
        if key == name:
            return value.decode("latin-1")
    return ""


def joined(pairs: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """Return all values of a list header as one, "" without one; `name` in lower case."""
    return ", ".join(value.decode("latin-1").strip() for key, value in pairs if key.lower() == name)


def for_other_body(pairs: list[tuple[str, str]], size: int, beta: str) -> list[tuple[str, str]]:
    """Return a request's headers for a body of ours: its length, no encoding, `beta` added."""
    kept: list[tuple[str, str]] = []
    has_beta = not beta
    for name, value in pairs:
        lowered = name.lower()
        if lowered in ("content-encoding", "content-length"):
            continue
        if lowered == "anthropic-beta" and not has_beta:
            has_beta = True
            value = value if beta in value else f"{value},{beta}"
        kept.append((name, value))
    if not has_beta:
        kept.append(("anthropic-beta", beta))
    return [*kept, ("content-length", str(size))]
