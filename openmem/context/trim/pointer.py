"""The texts a trim leaves behind: the pointer, and a huge tool result's short form.

Both are pure functions of what is stored, so that the same request renders to the same bytes.
"""

from __future__ import annotations

import re
import unicodedata

POINTER_HEAD = "[openmem: "


def pointer_text(sid: str, dropped: int, masked: int) -> str:
    """Return the pointer. Without a `]` inside; ends with a blank line.

    `dropped`: messages removed; `masked`: secrets that the store holds masked.
    """
    said = "1 earlier message is" if dropped == 1 else f"{dropped} earlier messages are"
    masks = (
        f" {masked} secret value{'' if masked == 1 else 's'} in them "
        f"{'is' if masked == 1 else 'are'} stored masked; read the source again for "
        f"{'it' if masked == 1 else 'them'}."
        if masked
        else ""
    )
    return (
        f'{POINTER_HEAD}session_id="{sid}" - {said} no longer in this request. '
        "You did receive them, and every line is stored word for word: look it up before you "
        "answer from it. Call "
        f'smart_compact_search(session_id="{sid}", query=... or pattern=...) for values, names and '
        f'decisions, and smart_compact_sql(session_id="{sid}", sql=...) for counts. Never say that '
        f"something was not given to you without searching first.{masks}]"
    )


CHARACTERS_PER_TOKEN = 2.5


def shortened_text(text: str, *, address: str, end_characters: int) -> str:
    """Return a tool result as head, pointer and tail. `address`: of the row that holds all of it;
    `end_characters`: of head and tail each.

    Cuts at a line's end where one is near, and never inside a character that is seen as one: a
    joined emoji, a flag, a letter with its marks. By characters only, never by a learnt ratio: the
    same result must come out the same on every request.
    """
    head_end = _cut_before(text, end_characters)
    tail_start = _cut_after(text, len(text) - end_characters)
    tokens = int(len(text) / CHARACTERS_PER_TOKEN)
    return (
        f"[openmem: {tokens} tokens of this tool result are left out; "
        f'smart_compact_get(id="{address}")'
        f" returns all of it]\n{text[:head_end]}\n[openmem: …]\n{text[tail_start:]}"
    )


_LINE_SLACK = 200
_JOINERS = ("\u200d", "\ufe0e", "\ufe0f", "\u20e3")
_REGIONAL = re.compile("[\U0001f1e6-\U0001f1ff]")


def _cut_before(text: str, at: int) -> int:
    line = text.rfind("\n", max(0, at - _LINE_SLACK), at)
    return _boundary(text, line if line > 0 else at)  # a line may end with two characters


def _cut_after(text: str, at: int) -> int:
    line = text.find("\n", at, at + _LINE_SLACK)
    return line + 1 if line >= 0 else _boundary(text, at)


def _boundary(text: str, at: int) -> int:
    """Return the nearest place at or before `at` that splits no character as seen."""
    at = max(0, min(at, len(text)))
    for _ in range(64):
        if at in (0, len(text)) or not _is_inside(text, at):
            return at
        at -= 1
    return at


def _is_inside(text: str, at: int) -> bool:
    after, before = text[at], text[at - 1]
    if "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff":
        return True
    if after in _JOINERS or before == "\u200d" or unicodedata.combining(after):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return True
    if "\U000e0020" <= after <= "\U000e007f":  # tags of a subdivision flag
        return True
    if _REGIONAL.match(after) and _REGIONAL.match(before):
        run = 0
        while at - 1 - run >= 0 and _REGIONAL.match(text[at - 1 - run]):
            run += 1
        return run % 2 == 1
    return before == "\r" and after == "\n"
