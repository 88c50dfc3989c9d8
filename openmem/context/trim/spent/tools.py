"""What a tool call does to files and plans, by the tools' names; an unknown tool does nothing.

Source: Claude Code 2.1.332, Codex 0.171.0 and OpenCode 1.18.33, observed, and sessions of theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from openmem.context.trim.spent.parts import Call
from openmem.context.trim.spent.shell import looked_at

Kind = Literal["", "view", "look", "edit", "write", "todo"]
"""view: shows a whole file · look: shows something else · edit: changes files · write: sets a whole
file · todo: sets the whole to-do list"""

PATH_NAMES = ("file_path", "filePath", "notebook_path", "path")
_READ = {"Read", "read", "NotebookRead", "read_file"}
_PARTIAL = ("offset", "limit", "pages", "cell_id", "start_line", "end_line")
_LOOK = {"Grep", "Glob", "LS", "WebFetch", "WebSearch", "grep", "glob", "list", "webfetch",
         "todoread", "list_dir", "grep_files"}  # fmt: skip
_EDIT = {"Edit", "MultiEdit", "NotebookEdit", "edit", "multiedit"}
_WRITE = {"Write", "write"}
_PATCH = {"apply_patch", "patch"}
_TODO = {"TodoWrite", "todowrite", "update_plan"}
_SHELL = {"Bash", "bash", "exec_command", "shell"}
_PATCHES = ("apply_patch", "applypatch")  # which Codex also takes from its shell
_PATCH_NAMES = ("input", "patchText", "patch", "cmd", "command")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+?)\s*$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """`paths`: the files it is about; `same`: equal for calls that ask the same, "" for none."""

    kind: Kind = ""
    paths: tuple[str, ...] = ()
    same: str = ""


def deed_of(call: Call) -> Deed:
    """Return what a call does."""
    name = call.name
    if name in _PATCH:
        paths = patched_paths(call.arguments)
        return Deed(kind="edit", paths=paths) if paths else Deed()
    arguments = call.arguments
    if not isinstance(arguments, Mapping):
        return Deed()
    if name in _TODO:
        return Deed(kind="todo")
    if name in _LOOK:
        return Deed(kind="look", same=_same(name, arguments))
    if name in _SHELL:
        return _shell(arguments)
    path = next((arguments[key] for key in PATH_NAMES if key in arguments), None)
    if not isinstance(path, str) or not path:
        return Deed()
    if name in _READ:
        is_whole = not any(arguments.get(key) not in (None, "") for key in _PARTIAL)
        same = _same(name, arguments)
        return Deed(kind="view" if is_whole else "look", paths=(path,), same=same)
    if name in _EDIT:
        return Deed(kind="edit", paths=(path,))
    return Deed(kind="write", paths=(path,)) if name in _WRITE else Deed()


def patched_paths(arguments: object) -> tuple[str, ...]:
    """Return the files that a patch names; a patch comes as plain text or as one argument."""
    text = arguments
    if isinstance(arguments, Mapping):
        text = next((arguments[name] for name in _PATCH_NAMES if arguments.get(name)), None)
    return tuple(dict.fromkeys(_PATCHED.findall(text))) if isinstance(text, str) else ()


def _same(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name}\0{json.dumps(arguments, sort_keys=True)}"


def _shell(arguments: Mapping[str, object]) -> Deed:
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list):
        is_script = len(command) == 3 and command[1] in ("-c", "-lc")
        command = command[2] if is_script else None
    folder = arguments.get("workdir", arguments.get("cwd"))
    if not isinstance(command, str):
        return Deed()
    if command.lstrip().startswith(_PATCHES):
        paths = patched_paths(arguments)
        return Deed(kind="edit", paths=paths) if paths else Deed()
    same, shown = looked_at(command, folder if isinstance(folder, str) else "")
    if not same:
        return Deed()
    return Deed(kind="view" if shown else "look", paths=(shown,) if shown else (), same=same)
