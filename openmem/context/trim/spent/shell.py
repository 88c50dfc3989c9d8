"""Shell commands that only look: what they look at, and when two of them ask the same.

Codex reads files by its shell alone; without this nothing of its reading would ever be spent. Only
a plain command of a short list counts: no pipe, no redirection, no variable, no second command.
Trap: a relative path means another file after a `cd`; without a stated folder only absolute ones
count.
"""

from __future__ import annotations

import re
import shlex

_LOOKING = frozenset({"cat", "head", "tail", "nl", "wc", "ls", "rg", "grep", "stat", "file"})
_NOT_PLAIN = re.compile(r"[|&;<>$`()\n\\]")
_LINES = re.compile(r"\d+(?:,\d+)?p")


def looked_at(command: str, folder: str) -> tuple[str, str]:
    """Return (what two equal commands have in common, the one file that it shows whole).

    Each "" for none. `folder`: where it runs, "" when nobody said.
    """
    if _NOT_PLAIN.search(command):
        return "", ""
    try:
        words = shlex.split(command)
    except ValueError:
        return "", ""
    if not words or not _only_looks(words):
        return "", ""
    if not folder and not any(word.startswith("/") for word in words[1:]):
        return "", ""
    same = "\0".join(("shell", folder, *words))
    shown = words[1] if words[0] == "cat" and len(words) == 2 else ""
    if shown.startswith("-") or (not folder and not shown.startswith("/")):
        shown = ""
    if shown and not shown.startswith("/"):
        shown = f"{folder.rstrip('/')}/{shown}"
    return same, shown


def _only_looks(words: list[str]) -> bool:
    if words[0] == "sed":
        return len(words) == 4 and words[1] == "-n" and bool(_LINES.fullmatch(words[2]))
    return words[0] in _LOOKING and not any(word.startswith("--pre") for word in words)
