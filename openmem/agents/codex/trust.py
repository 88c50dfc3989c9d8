"""Which hooks Codex will run: it wants each one trusted, by its place in the file and a hash.

Idea: a hash is put down only when two agree on it: we, over what we were shown to write, and Codex
itself, asked through its own app-server in a folder of its own, with nothing of the person's.
Invariant: trust is written only for hooks of ours, word for word as they were shown, and only when
the person said so. Trap: trust is positional; a hook that moves in the list is untrusted again.
Source: Codex 0.171.0, observed: SHA-256 over compact, key-sorted JSON of the handler.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.agents.codex.places import (
    CONTEXT_LIMIT,
    EVENTS,
    NAME,
    WITH_CONTEXT,
    Places,
)
from openmem.agents.entries import hooks_in
from openmem.agents.launchers import hook_command
from openmem.agents.reading import list_at, text_at, value_at
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.action import Edit, Json, Keys
from openmem.plan.system import System

_STATE: Keys = ("hooks", "state")
_ASK_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A hook of ours in the file. `key`: by which Codex keeps its trust; `value`: the handler."""

    event: str
    key: str
    value: Mapping[str, Json]

    @property
    def hash(self) -> str:
        return hash_of(self.event, self.value)


def hook_value(paths: Paths, event: str) -> dict[str, Json]:
    """Return the handler that we write for one of Codex's events."""
    ours, _, seconds = EVENTS[event]
    value: dict[str, Json] = {
        "type": "command",
        "command": hook_command(paths, ours, NAME),
        "timeout": seconds,
    }
    if event in WITH_CONTEXT:
        value["additionalContextLimit"] = CONTEXT_LIMIT
    return value


def hash_of(event: str, value: Mapping[str, Json]) -> str:
    """Return Codex's hash of a handler that stands in a group without a matcher."""
    content = {"event_name": EVENTS[event][1], "hooks": [{"async": False, **value}]}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def our_hooks(found: Places, document: Json, paths: Paths) -> list[Hook]:
    """Return the hooks that stand in a `hooks.json` exactly as we write them, in order."""
    hooks = []
    for event, keys, value in hooks_in(document):
        if event not in EVENTS or value != hook_value(paths, event):
            continue
        _, _, group, _, place = keys
        if _has_matcher(document, event, group):
            continue  # somebody narrowed it: its hash is another, and its trust not ours to give
        key = f"{found.hooks}:{EVENTS[event][1]}:{group}:{place}"
        hooks.append(Hook(event=event, key=key, value=hook_value(paths, event)))
    return hooks


def _has_matcher(document: Json, event: str, group: object) -> bool:
    groups = list_at(document, ("hooks", event))
    box = groups[group] if isinstance(group, int) else None
    return isinstance(box, dict) and box.get("matcher") is not None


def untrusted(hooks: list[Hook], config: Json) -> list[Hook]:
    """Return those that Codex passes over."""
    return [hook for hook in hooks if not _is_trusted(hook, config)]


def _is_trusted(hook: Hook, config: Json) -> bool:
    is_on = value_at(config, (*_STATE, hook.key, "enabled")) is not False
    return is_on and text_at(config, (*_STATE, hook.key, "trusted_hash")) == hook.hash


def trust_edits(hooks: list[Hook], config: Json) -> list[Edit]:
    """Return the edits of `config.toml` that trust these hooks."""
    return [
        Edit(keys=(*_STATE, hook.key, "trusted_hash"), op="set", value=hook.hash)
        for hook in untrusted(hooks, config)
    ]


def distrust_edits(hooks: list[Hook], config: Json) -> list[Edit]:
    """Return the edits that take out what `config.toml` says of these hooks."""
    return [
        Edit(keys=(*_STATE, hook.key), op="remove")
        for hook in hooks
        if value_at(config, (*_STATE, hook.key)) is not None
    ]


def agrees(system: System, binary: str, hooks: list[Hook]) -> bool:
    """Return whether Codex, shown these hooks in a folder of its own, computes the same hashes.

    False also when it cannot be asked: then nothing is known of what trust would cover.
    """
    shown = {hook.event: [{"hooks": [dict(hook.value)]}] for hook in hooks}
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    program = (
        f"import sys; sys.path.append({os.path.abspath(root)!r}); "
        "from openmem.agents.codex.ask_hooks import main; sys.exit(main(sys.argv[1:]))"
    )
    asked = json.dumps({"hooks": shown})
    try:
        ran = system.probe(
            [sys.executable, "-P", "-c", program, binary, asked], timeout_seconds=_ASK_SECONDS
        )
        listed = json.loads(ran.stdout) if ran.code == 0 else None
    except (OpenmemError, ValueError):
        return False
    if not isinstance(listed, list):
        return False
    said = {
        (text_at(one, ("eventName",)).lower(), text_at(one, ("command",))): text_at(
            one, ("currentHash",)
        )
        for one in listed
    }
    return len(said) == len(hooks) and all(
        said.get((hook.event.lower(), str(hook.value["command"]))) == hook.hash for hook in hooks
    )
