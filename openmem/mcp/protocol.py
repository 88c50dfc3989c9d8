"""The two generations of the protocol, as values: what is asked, what is answered.

Handshake generation (2024-11-05 to 2025-11-25): `initialize` settles the version once.
Envelope generation (2026-07-28): no handshake; each request carries version and capabilities in
`params._meta`, each result says `resultType`. The generation is read off each request by itself,
so a client that probes with one and goes on with the other is served either way: Claude Code does
that when its probe is answered late.
Source: the schemas of both generations in the official SDK's types (2.3.0), and what Claude Code
2.1.332, Codex 0.171.0 and OpenCode 1.18.33 send.
"""

from __future__ import annotations

from collections.abc import Mapping

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ENVELOPE_VERSIONS = ("2026-07-28",)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = _PREFIX + "protocolVersion"
CAPABILITIES_KEY = _PREFIX + "clientCapabilities"
SERVER_KEY = _PREFIX + "serverInfo"
SUBSCRIPTION_KEY = _PREFIX + "subscriptionId"

# The list of tools is the same for the whole life of the process.
_CACHE_MS = 3_600_000

Json = dict[str, object]


class RpcError(Exception):
    """An error of the protocol, not of a tool: the model does not see it."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Request:
    """A message that is well formed. `id`: None for a notification. `is_enveloped`: generation."""

    __slots__ = ("id", "is_enveloped", "meta", "method", "params")

    def __init__(self, id: int | str | None, method: str, params: Json) -> None:
        self.id, self.method, self.params = id, method, params
        meta = params.get("_meta")
        self.meta: Json = meta if isinstance(meta, dict) else {}
        self.is_enveloped = VERSION_KEY in self.meta

    def check_envelope(self) -> None:
        """Raise the error that a missing or unknown part of the envelope calls for."""
        if not self.is_enveloped:
            return
        version = self.meta[VERSION_KEY]
        if not isinstance(version, str):
            raise RpcError(INVALID_PARAMS, f"_meta[{VERSION_KEY!r}] is not text")
        if version not in ENVELOPE_VERSIONS:
            raise RpcError(
                UNSUPPORTED_VERSION,
                f"protocol version {version[:40]} is not supported",
                {"supported": list(ENVELOPE_VERSIONS), "requested": version[:40]},
            )
        if not isinstance(self.meta.get(CAPABILITIES_KEY), dict):
            raise RpcError(INVALID_PARAMS, f"_meta[{CAPABILITIES_KEY!r}] is missing")


def decode_message(value: object) -> Request | None:
    """Return a request or notification, None for a response (we ask for nothing).

    RpcError with INVALID_REQUEST for anything else.
    """
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "not a JSON-RPC 2.0 message")
    method = value.get("method")
    if method is None and ("result" in value or "error" in value):
        return None
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "method is missing")
    params = value.get("params")
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params is not an object")
    if "id" not in value:
        return Request(None, method, params or {})
    identity = value["id"]
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise RpcError(INVALID_REQUEST, "id is neither text nor a whole number")
    return Request(identity, method, params or {})


def identity_of(value: object) -> int | str | None:
    """Return the id of a message that may be broken, None when it has none that can be used."""
    identity = value.get("id") if isinstance(value, dict) else None
    is_usable = isinstance(identity, int | str) and not isinstance(identity, bool)
    return identity if is_usable else None


def negotiated(params: Mapping[str, object]) -> str:
    """Return the handshake version to use: the client's if we know it, else our newest."""
    asked = params.get("protocolVersion")
    if not isinstance(asked, str):
        raise RpcError(INVALID_PARAMS, "protocolVersion is missing")
    return asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]


def initialize_result(params: Mapping[str, object], server: Json, instructions: str) -> Json:
    """Return the answer to `initialize`."""
    return {
        "protocolVersion": negotiated(params),
        "capabilities": {"tools": {}},
        "serverInfo": server,
        "instructions": instructions,
    }


def discover_result(instructions: str) -> Json:
    """Return the answer to `server/discover`; it stands for the whole handshake."""
    return {
        "supportedVersions": list(ENVELOPE_VERSIONS),
        "capabilities": {"tools": {}},
        "instructions": instructions,
        "ttlMs": _CACHE_MS,
        "cacheScope": "private",
    }


def tools_result(tools: list[Json], *, is_enveloped: bool) -> Json:
    """Return the answer to `tools/list`."""
    result: Json = {"tools": tools}
    if is_enveloped:
        result |= {"ttlMs": _CACHE_MS, "cacheScope": "private"}
    return result


def call_result(content: list[Json], *, is_error: bool) -> Json:
    """Return a tool's answer; without structured content, which would hide the text."""
    result: Json = {"content": content}
    if is_error:
        result["isError"] = True
    return result


def response(request: Request, result: Json, server: Json) -> Json:
    """Return the whole response; the envelope generation says what kind it is and who speaks."""
    if request.is_enveloped:
        meta = result.get("_meta")
        stamped = {**(meta if isinstance(meta, dict) else {}), SERVER_KEY: server}
        result = {"resultType": "complete", **result, "_meta": stamped}
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


def error_response(identity: int | str | None, error: RpcError) -> Json:
    """Return an error as a response; `identity` None when the message's id cannot be known."""
    body: Json = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": identity, "error": body}


def acknowledged(request: Request) -> Json:
    """Return the notification that opens a subscription in which nothing will ever come.

    We announce no lists that change, so of what the client asked for, nothing is granted.
    """
    return {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": {}, "_meta": {SUBSCRIPTION_KEY: request.id}},
    }
