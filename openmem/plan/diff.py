"""What an action changes, as text for a person or a script; no secret is ever in it.

Masking comes before comparing, on both whole texts: a mask is keyed with the secret, so a changed
secret still shows as a changed line, and a key over many lines is masked even when the diff shows
only part of it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from openmem.base import redact
from openmem.base.paths import display
from openmem.plan.action import (
    Action,
    MakeDir,
    ManualStep,
    Plan,
    RemoveDir,
    RemoveFile,
    RunCommand,
    Secret,
    WriteFile,
)
from openmem.plan.system import DryRunSystem, Stat, System

MASK = "••••"
_KEY = b"openmem diff"  # masks only have to differ from each other, and never leave this module
_MADE_MASK = re.compile(r"\[REDACTED:[A-Za-z0-9_.-]+:[0-9a-f]{8}\]")
_SECRET_WORD = r"(?:token|secret|passw(?:or)?d|api[_-]?key|authorization|credential)"
_NAMED = re.compile(_SECRET_WORD, re.I)
_NAMED_SECRET = re.compile(
    r"""(?P<name>["']?[\w.-]{0,64}"""
    + _SECRET_WORD
    + r"""[\w.-]{0,32}["']?[ \t]{0,8}[:=][ \t]{0,8}["'])(?P<value>(?:[^"'\\\r\n]|\\.){1,4096})""",
    re.I,
)
_WIDEST_LINE = 400  # longer ones are shown where they differ; a file on one line can be megabytes
_AROUND = 60
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def masked(text: str, secrets: Sequence[Secret] = ()) -> str:
    """Return a text for people: known secrets, and what looks like one, as `••••`."""
    return _MADE_MASK.sub(MASK, _keyed(text, secrets))


def _keyed(text: str, secrets: Sequence[Secret]) -> str:
    """Return the text with masks that still tell equal from different secrets."""
    for secret in sorted(secrets, key=lambda one: -len(one.text)):
        if secret.text:
            text = text.replace(secret.text, redact.mask_of("named", secret.text, _KEY))
    text = redact.redact(text, _KEY).text

    def mask(match: re.Match[str]) -> str:
        value = match["value"]
        if value.startswith(("[REDACTED:", "$", "{{")):
            return match[0]
        return match["name"] + redact.mask_of("named", value, _KEY)

    if not _NAMED.search(text):
        return text
    lines = text.split("\n")  # trying the long pattern only where its word stands: 20 times faster
    return "\n".join(_NAMED_SECRET.sub(mask, x) if _NAMED.search(x) else x for x in lines)


def unified_diff(action: Action, system: System, *, context: int = 3) -> str:
    """Return the unified diff of a file action against what is there now, masked; "" for others.

    Ends with a line break unless empty. Line ends are shown as `\\n`; a change of line ends alone,
    or of a file that is not text, is said in one line.
    """
    if not isinstance(action, WriteFile | RemoveFile):
        return ""
    old = system.read(action.path) or b""
    new = action.data if isinstance(action, WriteFile) else b""
    secrets = action.secrets if isinstance(action, WriteFile) else ()
    home = system.environ.get("HOME", "")
    name = display(action.path, home)
    head = f"--- {name if action.before != 'absent' else '/dev/null'}\n"
    head += f"+++ {name if isinstance(action, WriteFile) else '/dev/null'}\n"
    if _is_binary(old) or _is_binary(new):
        return head + f"binary, {len(old)} to {len(new)} bytes\n"
    before, after = _lines(old, secrets), _lines(new, secrets)
    lines = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
    if not lines:
        return head + "only line ends or unseen characters change\n" if old != new else ""
    return _MADE_MASK.sub(MASK, head + "\n".join(_shortened(lines)) + "\n")


def _shortened(lines: Sequence[str]) -> list[str]:
    """Return diff lines with very long ones cut to where they differ from their counterpart."""
    found: list[str] = []
    for number, line in enumerate(lines):
        if len(line) <= _WIDEST_LINE:
            found.append(line)
            continue
        other = ""
        if line[0] == "-" and number + 1 < len(lines) and lines[number + 1][:1] == "+":
            other = lines[number + 1]
        elif line[0] == "+" and number and lines[number - 1][:1] == "-":
            other = lines[number - 1]
        start = _shared(line[1:], other[1:]) + 1 if other else 1
        end = len(line)
        if other:
            room = min(len(line), len(other)) - start
            end -= min(_shared(line[:start:-1], other[:start:-1]), room)
        start = max(1, start - _AROUND)
        end = min(len(line), max(end, start + 1) + _AROUND, start + _WIDEST_LINE)
        before = "…" if start > 1 else ""
        found.append(f"{line[0]}{before}{line[start:end]}{'…' if end < len(line) else ''}")
    return found


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts share at their start."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _lines(data: bytes, secrets: Sequence[Secret]) -> list[str]:
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    lines = _keyed(text, secrets).split("\n")
    if lines and not lines[-1]:
        return lines[:-1]
    return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]


def _is_binary(data: bytes) -> bool:
    return bool(_BINARY.search(data[:8192]))


def described(plan: Plan, system: System, *, diff: bool = True) -> list[dict[str, object]]:
    """Return a plan as `data.actions[]` of `--json`: kind, path, mark, why, diff; all masked.

    `mark`: `+` new, `~` changed, `-` removed, `$` a command, `!` a step by hand. Later writes to
    one file are compared with what the earlier ones leave.
    """
    found: list[dict[str, object]] = []
    ahead = DryRunSystem(system)
    for action in plan.actions:
        secrets = action.secrets if isinstance(action, WriteFile) else ()
        item: dict[str, object] = {
            "kind": kind_of(action),
            "mark": mark_of(action),
            "path": getattr(action, "path", ""),
            "why": masked(action.why, secrets),
            "diff": unified_diff(action, ahead) if diff else "",
        }
        if isinstance(action, RunCommand):
            item["argv"] = [masked(word) for word in action.argv]
        if isinstance(action, ManualStep):
            item["text"] = masked(action.text)
        if isinstance(action, WriteFile | RemoveFile):
            stat = ahead.stat(action.path)
            item["link_target"] = stat.real_path if stat and stat.is_link else ""
            item["mode"] = _mode(action, stat)
            _lay_over(ahead, action)
        found.append(item)
    return found


def _mode(action: WriteFile | RemoveFile, stat: Stat | None) -> str:
    mode = stat.mode if stat else 0o600
    if isinstance(action, WriteFile) and action.mode is not None:
        mode = action.mode
    return f"{mode:04o}"


def _lay_over(ahead: DryRunSystem, action: WriteFile | RemoveFile) -> None:
    if isinstance(action, RemoveFile):
        if ahead.stat(action.path) is not None:
            ahead.remove(action.path)
        return
    missing: list[str] = []
    folder = action.path.rpartition("/")[0]
    while folder and ahead.stat(folder) is None:
        missing.append(folder)
        folder = folder.rpartition("/")[0]
    for one in reversed(missing):
        ahead.make_dir(one)
    ahead.write(action.path, action.data, mode=action.mode)


def kind_of(action: Action) -> str:
    """Return the stable word for a kind of action."""
    words: dict[type[Action], str] = {
        WriteFile: "write",
        RemoveFile: "remove",
        MakeDir: "make-dir",
        RemoveDir: "remove-dir",
        RunCommand: "run",
        ManualStep: "manual",
    }
    return words[type(action)]


def mark_of(action: Action) -> str:
    """Return the mark a plan shows before an action."""
    if isinstance(action, WriteFile):
        return "+" if action.before == "absent" else "~"
    return {"remove": "-", "remove-dir": "-", "make-dir": "+", "run": "$"}.get(kind_of(action), "!")
