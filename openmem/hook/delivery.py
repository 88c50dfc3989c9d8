"""Proof that an agent's hooks arrive: the last event that was served, per agent.

Invariant: only events of allowed workspaces are written down; a denied one leaves nothing.
"""

from __future__ import annotations

import json
import os

from openmem.base.clock import now_text
from openmem.base.io import ensure_private_dir, read_bytes_or_none
from openmem.base.light import dataclass
from openmem.base.paths import Paths

# How `base.frame` opens what is recalled; loading that module costs a hook more than the words.
RECALLED = "<openmem-recall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The last event of an agent that was served. `at`: UTC text. `recalled_at`, `recalled_in`: the
    last one that put memories before the model, and its session; "" when none did."""

    agent: str
    event: str
    session_id: str
    at: str
    recalled_at: str = ""
    recalled_in: str = ""


def _file(paths: Paths, agent: str) -> str:
    return f"{paths.run_dir}/delivered-{agent}.json"


def write_delivery(
    paths: Paths, agent: str, event: str, sid: str, *, has_recalled: bool = False
) -> None:
    """Write down that an event was served. OSError when it cannot be."""
    ensure_private_dir(paths.run_dir)
    at = now_text()
    before = None if has_recalled else last_delivery(paths, agent)
    value = {
        "agent": agent,
        "event": event,
        "session_id": sid,
        "at": at,
        "recalled_at": at if has_recalled else before.recalled_at if before else "",
        "recalled_in": sid if has_recalled else before.recalled_in if before else "",
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    # Not made durable: it is worth less than the milliseconds a sync costs on every prompt.
    descriptor = os.open(_file(paths, agent), flags, 0o600)
    try:
        os.write(descriptor, json.dumps(value).encode() + b"\n")
    finally:
        os.close(descriptor)


def last_delivery(paths: Paths, agent: str) -> Delivery | None:
    """Return the last event of an agent that was served, None when none is known."""
    try:
        value = json.loads(read_bytes_or_none(_file(paths, agent)) or b"null")
    except (OSError, ValueError):
        return None  # unreadable, or being written at this moment: nothing is known
    if not isinstance(value, dict):
        return None
    texts = {name: value.get(name) for name in ("agent", "event", "session_id", "at")}
    if not all(isinstance(text, str) for text in texts.values()):
        return None
    texts |= {name: value.get(name, "") for name in ("recalled_at", "recalled_in")}
    return Delivery(**{name: str(text) for name, text in texts.items()})
