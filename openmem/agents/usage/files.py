"""A session file of any agent we can read: told by what is in it, not by its name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

from openmem.agents.usage import claude_code, codex, opencode
from openmem.base.errors import Failed, NotFound
from openmem.context.report.course import Course

_LOOKED_AT = 50  # lines; the first ones may be comments, or kinds that tell nothing
_LIMIT_BYTES = 512 << 20


def courses_in(path: str) -> list[Course]:
    """Return the threads of a session file that made calls. NotFound, Failed name the file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            first: list[str] = []
            for line in file:
                first.append(line)
                if len(first) >= _LOOKED_AT or _kind_of(line):
                    break
            kind = next(filter(None, map(_kind_of, first)), "")
            if not kind and "".join(first).lstrip().startswith("{"):
                return _of_document("".join(first) + file.read(_LIMIT_BYTES), path)
            return _of_lines(kind, chain(first, file), path)
    except FileNotFoundError:
        raise NotFound(f"there is no transcript {path}.") from None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}.") from None


def _of_document(text: str, path: str) -> list[Course]:
    """Return the threads of one document that goes over many lines, or of lines that tell nothing
    of their kind."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if opencode.is_export(document):
        return opencode.courses_of_export(document, name=path)
    return claude_code.courses_of_lines(text.splitlines(), name=path)


def _of_lines(kind: str, lines: Iterable[str], path: str) -> list[Course]:
    if kind == "codex":
        return codex.courses_of_lines(lines, name=path)
    if kind == "opencode-events":
        entries = (entry for line in lines if (entry := _decoded(line)))
        return opencode.courses_of_events(entries, name=path)
    if kind == "opencode":
        return _of_document("".join(lines), path)
    return claude_code.courses_of_lines(lines, name=path)


def _kind_of(line: str) -> str:
    """Return whose file a line is of, "" when it does not tell."""
    entry = _decoded(line)
    if entry.get("type") in codex.KINDS and "payload" in entry:
        return "codex"
    if isinstance(entry.get("event"), dict):
        return "opencode-events"
    if opencode.is_export(entry):
        return "opencode"
    if "sessionId" in entry or isinstance(entry.get("message"), dict):
        return "claude-code"
    return ""


def _decoded(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        # Two objects on a line, a comment, a part of a document.
        entry = None
    return entry if isinstance(entry, dict) else {}
