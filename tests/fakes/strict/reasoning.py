"""Reasoning of the Responses API bound to what came before it, and calls to their outputs.

Each reasoning item is sealed over the earlier input items, the tools and the text format; after a
change the service drops it without an error. Source: newest-models facts, sections 3 and 5.8. Not
verified against the live API.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

_KEY = b"a key of the fake service"
CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
}
_RENEWED = ("id", "status")

Item = dict[str, Any]


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(_KEY, text, hashlib.sha256).hexdigest()[:32]


def _plain(item: Item) -> Item:
    return {k: v for k, v in item.items() if k not in _RENEWED and v is not None}


def prefix_of(body: dict[str, Any], items: list[Item]) -> str:
    """Return the digest of what a reasoning item stands on; reasoning itself is out."""
    frame = {
        "tools": body.get("tools"),
        "format": (body.get("text") or {}).get("format"),
        "instructions": body.get("instructions") if _binds_instructions(body) else None,
    }
    return _digest([frame, [_plain(one) for one in items if one.get("type") != "reasoning"]])


def _binds_instructions(body: dict[str, Any]) -> bool:
    """From 6.2 on instructions are one-turn and outside the check."""
    return not str(body.get("model", "")).startswith("gpt-6.2")


def seal(prefix: str) -> str:
    return base64.b64encode(f"{prefix}.{_digest(prefix)}".encode()).decode()


def _sealed(text: Any) -> str:
    """Return the prefix that an encrypted content names, empty when it is not ours."""
    try:
        prefix, _, mac = base64.b64decode(str(text), validate=True).decode().partition(".")
    except ValueError:
        return ""
    return prefix if hmac.compare_digest(mac, _digest(prefix)) else ""


def stale_reasoning(body: dict[str, Any]) -> list[Item]:
    """Return the reasoning items of a request whose earlier input is not what they were made on."""
    items = items_of(body)
    return [
        item
        for at, item in enumerate(items)
        if item.get("type") == "reasoning"
        and _sealed(item.get("encrypted_content")) != prefix_of(body, items[:at])
    ]


def pairing_fault(body: dict[str, Any]) -> str:
    """Return the words of the 400 for a call without output or the reverse, empty when legal."""
    asked: dict[str, str] = {}
    for item in items_of(body):
        kind, call = str(item.get("type")), str(item.get("call_id"))
        if kind in CALLS:
            asked[call] = CALLS[kind]
        elif kind in CALLS.values() and asked.pop(call, "") != kind:
            return f"No tool call found for function call output with call_id {call}."
    if asked:
        return f"No tool output found for function call {next(iter(asked))}."
    return ""


def items_of(body: dict[str, Any]) -> list[Item]:
    value = body.get("input")
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return [{"type": "message", **item} for item in value or []]
