"""How a text is cut into index words where scripts write without spaces.

SQLite's `unicode61` takes a run of CJK characters as one word and drops emoji. Both the session
stores and the memories give it a text in which such characters stand apart, and ask for them as a
phrase. Source: users' report 23.
"""

from __future__ import annotations

import functools
import re
import unicodedata

# CJK, kana, Hangul, Thai, Lao, Khmer and Myanmar write words without spaces, or glue particles on.
_SOLO = (
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u2fff\u3005-\u3007\u3021-\u3029"
    "\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
_EMOJI = (
    "[\u203c\u2049\u2139\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff\U0001fb00-\U0001fbff]"
)


def index_text(text: str) -> str:
    """Return what the index is given for a text, or for words that are looked for in it.

    Each character of a script without spaces becomes a word of its own, so that a run of them is
    found as a phrase anywhere, however short; each emoji becomes a word in the private area.
    """
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFKC", text):
        text = unicodedata.normalize("NFKC", text)
    return _apart().sub(_set_apart, text)


@functools.cache
def _apart() -> re.Pattern[str]:
    # Compiled at the first text that needs it: a hook that sees none does not pay for it.
    return re.compile(f"({_SOLO})|{_EMOJI}")


def _set_apart(match: re.Match[str]) -> str:
    char = match[0]
    return f" {char} " if match.lastindex else f" \ue000{ord(char):x} "
