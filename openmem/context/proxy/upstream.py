"""Where requests go: upstream addresses, corporate proxies, certificates, the one client.

Idea: the path after our prefix and the query are joined to the upstream's address as bytes.
Invariant: a loopback upstream is never reached through a proxy; our own address never is one.
Trap: the client library would add headers, cookies and credentials of its own (user agent,
`.netrc`, a cookie jar); all of that is off.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from yarl import URL

from openmem.base.errors import InvalidConfig

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TARGET = re.compile(rb"[!-~]*")
# Where systems keep their certificates when the interpreter's own default is empty.
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A parsed upstream. `base`: its path without a final slash, "" for none."""

    scheme: str
    host: str
    port: int
    base: str

    @property
    def origin(self) -> str:
        """The address as it is shown and sent: no default port, brackets round IPv6."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def url(self, raw_path: bytes, query: bytes) -> URL:
        """Return the address of one request; path and query exactly as the client wrote them."""
        target = raw_path.decode("ascii") + ("?" + query.decode("latin-1") if query else "")
        return URL(self.origin + self.base + target, encoded=True)


def parse_upstream(text: str) -> Upstream:
    """Return the upstream an address names. InvalidConfig says what is wrong with it."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise InvalidConfig(f"upstream {_shown(text)}: {error}.") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise InvalidConfig(f"upstream {_shown(text)}: expected http://… or https://…")
    if parts.username is not None or parts.password is not None:
        raise InvalidConfig(
            "the upstream's address holds a user or password.",
            hint="Agents send their own login; leave it out of the address.",
        )
    if parts.query or parts.fragment:
        raise InvalidConfig(f"upstream {_shown(text)}: a query or fragment cannot be kept.")
    return Upstream(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _DEFAULT_PORTS[parts.scheme],
        base=parts.path.rstrip("/"),
    )


def _shown(text: str) -> str:
    """Return an address for a message, without what stands before an `@`."""
    return repr(text.rsplit("@", 1)[-1][:120])


def is_loopback(host: str) -> bool:
    """Return whether a host name or address can only be this machine."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def is_target(raw_path: bytes, query: bytes) -> bool:
    """Return whether a request's path and query are in the form that can be joined."""
    return (
        raw_path.startswith(b"/")
        and _TARGET.fullmatch(raw_path) is not None
        and b"#" not in raw_path + query
    )


def is_ourselves(upstream: Upstream, port: int | None) -> bool:
    """Return whether an upstream is the address this request came in by."""
    return upstream.is_loopback and upstream.port == port


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name.lower()) or environ.get(name.upper()) or "").strip()


def proxy_for(upstream: Upstream, environ: Mapping[str, str]) -> str:
    """Return the proxy to reach an upstream through, "" for a direct connection.

    HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, lower case first, as curl reads them; NO_PROXY
    entries are hosts with all below them, addresses, networks (10.0.0.0/8), each with an optional
    port, or `*`. InvalidConfig on a proxy that is not http(s).
    """
    if upstream.is_loopback or _is_excepted(upstream, _variable(environ, "no_proxy")):
        return ""
    proxy = _variable(environ, f"{upstream.scheme}_proxy") or _variable(environ, "all_proxy")
    if not proxy:
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise InvalidConfig(
            f"the proxy {_shown(proxy)} is not an http proxy.",
            hint="Set HTTPS_PROXY to an http:// or https:// address.",
        )
    return proxy


def _is_excepted(upstream: Upstream, no_proxy: str) -> bool:
    host = upstream.host.lower().rstrip(".")
    for entry in re.split(r"[,\s]+", no_proxy.lower()):
        if not entry:
            continue
        if entry == "*":
            return True
        if entry.count("/") == 1:
            if _is_in_network(host, entry):
                return True
            continue
        name, port = entry, ""
        bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", entry)
        if bracketed:
            name, port = bracketed.group(1), bracketed.group(2) or ""
        elif entry.count(":") == 1:
            name, _, port = entry.partition(":")
        if port and port != str(upstream.port):
            continue
        name = name.removeprefix("*").strip(".")
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False  # a name, or an entry that is no network: it excepts nothing


def tls_context(environ: Mapping[str, str], problems: list[str]) -> ssl.SSLContext:
    """Return the certificates to trust: the system's, and those the person's variables name.

    SSL_CERT_FILE and SSL_CERT_DIR replace the system's, NODE_EXTRA_CA_CERTS adds to them, as
    OpenSSL and Node do. A file that cannot be used is named in `problems` and left out.
    """
    own_file, own_dir = environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    replaced = (own_file or own_dir) and _load(
        context, "SSL_CERT_FILE", own_file, own_dir, problems
    )
    if not replaced:
        context.load_default_certs()
        default_dir = ssl.get_default_verify_paths().capath
        if not context.cert_store_stats()["x509_ca"] and not default_dir:
            for path in _CA_FILES:
                if os.path.isfile(path) and _load(context, path, path, "", problems):
                    break
    extra = environ.get("NODE_EXTRA_CA_CERTS", "")
    if extra:
        _load(context, "NODE_EXTRA_CA_CERTS", extra, "", problems)
    return context


def _load(
    context: ssl.SSLContext, variable: str, file: str, folder: str, problems: list[str]
) -> bool:
    try:
        context.load_verify_locations(cafile=file or None, capath=folder or None)
    except OSError as error:  # ssl.SSLError is one: no certificate in the file
        reason = error.strerror or "it holds no certificate"
        problems.append(f"{variable}: {file or folder} cannot be used ({reason})")
        return False
    return True
