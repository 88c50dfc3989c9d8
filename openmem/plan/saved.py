"""A plan as a JSON file, to be looked at now and applied later, exactly as it is.

Idea: the bytes of a file are saved as what is taken over from the file of now, by place, and what
is new, in base64; so what the person keeps secret in the file is not in the plan. A secret that we
put in is saved as its reference and read again when the plan is loaded. Invariant: a text that is
known, or looks, to be a secret is never written; saving is refused instead. Trap: a plan can only
be loaded while every file is as it was, which is also when it may be applied.
"""

from __future__ import annotations

import base64
import difflib
import json
import re
import secrets
from collections.abc import Sequence
from typing import cast, get_args

from openmem import __version__
from openmem.base import redact
from openmem.base.errors import InvalidConfig, Missing, Refused
from openmem.base.io import ABSENT, digest_of
from openmem.plan.action import (
    Action,
    Edit,
    Form,
    Json,
    MakeDir,
    ManualStep,
    Plan,
    RemoveDir,
    RemoveFile,
    RunCommand,
    Secret,
    WriteFile,
)
from openmem.plan.diff import kind_of
from openmem.plan.fields import Fields, invalid
from openmem.plan.journal import edit_in, edit_out, left_in, left_out
from openmem.plan.system import System, contract

SCHEMA = 1
_TOKEN = re.compile(rb"[^\n,{}\[\]]+|[\n,{}\[\]]")
_KEY = b"openmem plan"  # only to count what would be masked


def plan_to_json(plan: Plan, system: System) -> str:
    """Return a plan as text. Refused when it holds a secret without a reference.

    PlanConflict when a file is no longer as the plan saw it.
    """
    now = _Now(system)
    table = {
        "schema": SCHEMA,
        "kind": "openmem-plan",
        "version": __version__,
        "actions": [_action_out(action, now) for action in plan.actions],
        "warnings": list(plan.warnings),
        "left": [left_out(left) for left in plan.left],
        "undoes": list(plan.undoes),
    }
    text = json.dumps(table, indent=1) + "\n"
    known = [s for a in plan.actions if isinstance(a, WriteFile) for s in a.secrets]
    for words in _texts(table):
        if any(s.text and s.text in words for s in known) or redact.redact(words, _KEY).count:
            raise _unsaved("one of its steps")
    return text


def plan_from_json(text: str, system: System, *, path: str) -> Plan:
    """Return the plan of a saved file. `path`: its name, for messages.

    PlanConflict when a file is no longer as the plan saw it, Missing when a secret is not where
    the plan says, InvalidConfig when the text is no plan.
    """
    try:
        fields = Fields(json.loads(text), path)
    except ValueError:
        raise invalid(path, "the file", "JSON") from None
    if fields.text("kind") != "openmem-plan" or fields.number("schema") != SCHEMA:
        raise InvalidConfig(
            f"{path} is not a plan of this version of openmem.", hint="Make it again: openmem plan."
        )
    now = _Now(system)
    return Plan(
        actions=tuple(_action_in(item, now) for item in fields.tables("actions")),
        warnings=fields.texts("warnings"),
        left=tuple(left_in(item) for item in fields.tables("left")),
        undoes=fields.numbers("undoes"),
    )


class _Now:
    """Files as they are, and as earlier steps of the plan will leave them."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._ahead: dict[str, bytes] = {}
        self._made: dict[str, str] = {}

    def secret(self, reference: str) -> str:
        """Return the secret of `env:NAME`, `file:/path`, or one made now for `new:NAME`; the same
        name gives the same one all over a plan. Missing."""
        if not reference.startswith("new:"):
            return _resolved(reference, self.system)
        if reference not in self._made:
            self._made[reference] = secrets.token_hex(24)
        return self._made[reference]

    def base(self, path: str, before: str) -> bytes:
        """Return the file a step stands on. PlanConflict when it is another one."""
        data = self._ahead[path] if path in self._ahead else self.system.read(path)
        if (ABSENT if data is None else digest_of(data)) != before:
            raise contract.changed(path, "was changed")
        return data or b""

    def leave(self, path: str, data: bytes) -> None:
        self._ahead[path] = data


def _action_out(action: Action, now: _Now) -> dict[str, object]:
    made: dict[str, object] = {"kind": kind_of(action), "why": action.why}
    if isinstance(action, WriteFile):
        base = now.base(action.path, action.before)
        now.leave(action.path, action.data)
        made |= {
            "path": action.path,
            "before": action.before,
            "mode": action.mode,
            "form": action.form,
            "secrets": [secret.reference for secret in action.secrets],
            "data": _pieces_out(action.data, base, action.secrets, action.path),
            "edits": [_edit_out(edit, base, action) for edit in action.edits],
        }
    elif isinstance(action, RemoveFile):
        made |= {"path": action.path, "before": action.before}
    elif isinstance(action, MakeDir):
        made |= {"path": action.path, "mode": action.mode}
    elif isinstance(action, RemoveDir):
        made |= {"path": action.path}
    elif isinstance(action, RunCommand):
        made |= {
            "argv": list(action.argv),
            "probe": list(action.probe),
            "undo": list(action.undo),
            "only_if_done": action.only_if_done,
            "timeout_ms": round(action.timeout_seconds * 1000),
        }
    else:
        made |= {"text": action.text}
    return made


def _action_in(fields: Fields, now: _Now) -> Action:
    kinds = ("write", "remove", "make-dir", "remove-dir", "run", "manual")
    kind, why, path = fields.word("kind", kinds), fields.text("why"), fields.text("path")
    before = fields.text("before", ABSENT)
    match kind:
        case "write":
            known = tuple(
                Secret(now.secret(reference), reference) for reference in fields.texts("secrets")
            )
            base = now.base(path, before)
            data = _pieces_in(fields, "data", base, known)
            now.leave(path, data)
            return WriteFile(
                path=path,
                before=before,
                data=data,
                mode=fields.number_or_none("mode"),
                why=why,
                form=cast("Form", fields.word("form", get_args(Form))),
                edits=tuple(_edit_in(item, base, known) for item in fields.tables("edits")),
                secrets=known,
            )
        case "remove":
            return RemoveFile(path=path, before=before, why=why)
        case "make-dir":
            return MakeDir(path=path, why=why, mode=fields.number("mode", 0o700))
        case "remove-dir":
            return RemoveDir(path=path, why=why)
        case "run":
            return RunCommand(
                argv=fields.texts("argv"),
                why=why,
                probe=fields.texts("probe"),
                undo=fields.texts("undo"),
                only_if_done=fields.flag("only_if_done"),
                timeout_seconds=fields.number("timeout_ms", 120_000) / 1000,
            )
        case _:
            return ManualStep(text=fields.text("text"), why=why)


def _edit_out(edit: Edit, base: bytes, action: WriteFile) -> dict[str, object]:
    made = edit_out(edit)
    value = json.dumps(edit.value).encode()
    made["value"] = _pieces_out(value, b"", action.secrets, action.path)
    made["has_digest"] = bool(edit.digest)
    if edit.was is not None:
        made["was"] = None
        made["was_pieces"] = _pieces_out(edit.was.encode(), base, action.secrets, action.path)
    return made


def _edit_in(fields: Fields, base: bytes, secrets: Sequence[Secret]) -> Edit:
    edit = edit_in(fields)
    value: Json = json.loads(_pieces_in(fields, "value", b"", secrets))
    was = None
    if "was_pieces" in fields.table:
        was = _pieces_in(fields, "was_pieces", base, secrets).decode()
    return Edit(
        keys=edit.keys,
        op=edit.op,
        value=value,
        marker=edit.marker,
        digest=edit.digest if fields.flag("has_digest") else "",
        was=was,
        index=edit.index,
        made=edit.made,
        blank=edit.blank,
    )


def _pieces_out(
    data: bytes, base: bytes, secrets: Sequence[Secret], path: str
) -> list[list[object]]:
    """Return `["keep", from, to]` in the file of now, `["new", base64]`, `["secret", n, form]`."""
    made: list[list[object]] = []
    for tag, first, last, start, end in _opcodes(base, data):
        if tag == "equal":
            made.append(["keep", first, last])
        else:
            made += _new_out(data[start:end], secrets, path)
    return made


def _new_out(data: bytes, secrets: Sequence[Secret], path: str) -> list[list[object]]:
    """Return new bytes, with known secrets as numbers of the action's references."""
    for number, secret in enumerate(secrets):
        for form, spelled in (("plain", secret.text), ("json", json.dumps(secret.text)[1:-1])):
            found = data.find(spelled.encode()) if spelled else -1
            if found >= 0:
                if not secret.reference:
                    raise _unsaved(path)
                after = data[found + len(spelled.encode()) :]
                return [
                    *_new_out(data[:found], secrets, path),
                    ["secret", number, form],
                    *_new_out(after, secrets, path),
                ]
    if not data:
        return []
    if redact.redact(data.decode("utf-8", "replace"), _KEY).count:
        raise _unsaved(path)
    return [["new", base64.b64encode(data).decode("ascii")]]


def _pieces_in(fields: Fields, key: str, base: bytes, secrets: Sequence[Secret]) -> bytes:
    parts: list[bytes] = []
    for number, item in enumerate(fields.items(key)):
        match item:
            case ["keep", int(start), int(end)]:
                parts.append(base[start:end])
            case ["new", str(text)]:
                parts.append(base64.b64decode(text))
            case ["secret", int(place), "plain" | "json" as form] if 0 <= place < len(secrets):
                text = secrets[place].text
                parts.append((text if form == "plain" else json.dumps(text)[1:-1]).encode())
            case _:
                raise invalid(fields.path, f"{fields.where}{key}[{number}]", "a piece of a file")
    return b"".join(parts)


def _opcodes(base: bytes, data: bytes) -> list[tuple[str, int, int, int, int]]:
    """Return how `data` is made of `base`, as byte ranges of both."""
    if not base or not data:
        return [("replace", 0, len(base), 0, len(data))]
    old, new = _TOKEN.findall(base), _TOKEN.findall(data)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = difflib.SequenceMatcher(
        None, old[head : len(old) - tail], new[head : len(new) - tail]
    ).get_opcodes()
    codes = [("equal", 0, head, 0, head)] if head else []
    codes += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle]
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    old_at, new_at = _offsets(old), _offsets(new)
    return [(tag, old_at[a], old_at[b], new_at[c], new_at[d]) for tag, a, b, c, d in codes]


def _offsets(tokens: Sequence[bytes]) -> list[int]:
    found = [0]
    for token in tokens:
        found.append(found[-1] + len(token))
    return found


def _resolved(reference: str, system: System) -> str:
    """Return the secret of `env:NAME`, or of `file:/path` without its last line end."""
    kind, _, name = reference.partition(":")
    found: str | None = None
    if kind == "env":
        found = system.environ.get(name)
    elif kind == "file":
        data = system.read(name)
        found = data.decode("utf-8", "replace").rstrip("\r\n") if data is not None else None
    if not found:
        raise Missing(
            f"the secret {reference} that the plan refers to is not there.", code="secret-missing"
        )
    return found


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.items() for text in _texts(list(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []


def _unsaved(where: str) -> Refused:
    return Refused(
        f"the plan for {where} holds a secret, and a saved plan may not. Nothing was written.",
        hint="Give the secret by reference (a variable or a file), or apply without saving.",
        code="secret-in-plan",
    )
