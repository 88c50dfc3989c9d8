"""Lines of a Claude Code transcript, as its versions of 2026 write them."""

from __future__ import annotations

import json
from pathlib import Path

AT = "2026-11-30T10:00:00.123Z"


def line(kind: str, content: object, **extra: object) -> str:
    """Return one line of what the person typed (`user`) or the model answered (`assistant`)."""
    record = {
        "type": kind,
        "isSidechain": False,
        "timestamp": AT,
        "message": {"role": kind, "content": content},
        **extra,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def user(text: str, **extra: object) -> str:
    return line("user", text, **extra)


def assistant(text: str, **extra: object) -> str:
    return line("assistant", [{"type": "text", "text": text}], **extra)


def call(name: str, **arguments: object) -> str:
    return line("assistant", [{"type": "tool_use", "id": "t1", "name": name, "input": arguments}])


def result(text: str) -> str:
    return line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": text}])


def thinking(text: str) -> str:
    return line("assistant", [{"type": "thinking", "thinking": text, "signature": "x"}])


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8", newline="\n") as file:
        file.write("".join(lines))
    return path
