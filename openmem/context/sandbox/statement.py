"""The check of a statement as text: one SELECT, no word that writes or controls.

It is the first layer, and the one with the good messages; what it lets through still meets the
authorizer. Trap: keywords are ASCII, so words are compared as ASCII. `"ſelect".upper()` is
"SELECT" for Python and a column's name for SQLite.
"""

from __future__ import annotations

import re

from openmem.base.errors import Refused

LENGTH_LIMIT = 10_000

_BLANKED = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))"
    r"|'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"'
    r"|`(?:[^`]|``)*`"
    r"|\[[^\]]*\]",
    re.DOTALL,
)
_QUOTED = "\x01"  # stands for a literal or a quoted name; not a space, so nothing joins around it
_WORD = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
# `?`, `?1`, `:name`, `@name`, `$name`; a `$` inside of a word is part of it.
_PARAMETER = re.compile(r"\?\d*|(?<![A-Za-z0-9_$\x80-\U0010ffff])[:@$][A-Za-z_]\w*")
_REFUSED_WORDS = (
    "ATTACH DETACH PRAGMA INSERT UPDATE DELETE UPSERT CREATE DROP ALTER VACUUM REINDEX ANALYZE "
    "BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE TRANSACTION"
)
_REFUSED = frozenset(_REFUSED_WORDS.split())
_HINT = "Write one SELECT, or WITH … SELECT."


def check_statement(sql: str) -> str:
    """Return the statement without its final `;`. Refused names the word or sign it stopped at."""
    if len(sql) > LENGTH_LIMIT:
        raise _refused(f"the statement is longer than {LENGTH_LIMIT} characters.")
    if "\0" in sql:
        raise _refused("a NUL character was refused.")
    half = re.search("[\ud800-\udfff]", sql)
    if half:
        place = half.start() + 1
        raise _refused(f"half a surrogate pair at character {place} was refused.")
    plain = _BLANKED.sub(_blank, sql)
    open_quote = re.search(r"['\"`\[]", plain)
    if open_quote:
        place = open_quote.start() + 1
        raise _refused(f"the quote {open_quote.group()} at character {place} is not closed.")
    parameter = _PARAMETER.search(plain)
    if parameter:
        raise _refused(f"the parameter {parameter.group()} was refused: nothing is bound to it.")
    body = plain.rstrip(" \t\n\f\r")
    if body.endswith(";"):
        body = body[:-1]
    if not body.strip(" \t\n\f\r"):
        raise _refused("there is no statement.")
    if ";" in body:
        raise _refused("a second statement after ; was refused.")
    first = _WORD.match(body.lstrip(" \t\n\f\r"))
    word = first.group() if first else ""
    if _ascii_upper(word) not in ("SELECT", "WITH"):
        raise _refused(f"{_shown(word)} was refused.")
    for match in _WORD.finditer(body):
        upper = _ascii_upper(match.group())
        is_pragma = upper.startswith("PRAGMA_")  # a pragma in the dress of a table
        is_write = upper == "REPLACE" and not _is_call(body, match.end())
        if upper in _REFUSED or is_pragma or is_write:
            raise _refused(f"{upper} was refused.")
    return sql[: len(body)]


def _blank(match: re.Match[str]) -> str:
    sign = " " if match.group("comment") is not None else _QUOTED
    return sign * len(match.group())


def _is_call(text: str, end: int) -> bool:
    """Return whether a `(` follows: `replace(a, b, c)` is a function, `REPLACE INTO` is not."""
    return text[end:].lstrip(" \t\n\f\r").startswith("(")


def _ascii_upper(word: str) -> str:
    return word.upper() if word.isascii() else word


def _shown(word: str) -> str:
    return _ascii_upper(word)[:40] if word else "what does not begin with a word"


def _refused(what: str) -> Refused:
    return Refused(f"only one SELECT can run here: {what}", hint=_HINT, code="sql-refused")
