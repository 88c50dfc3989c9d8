"""Generated JSON and JSONC files, from tidy to wild, for properties of the editor."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

KEYS = st.sampled_from(["a", "b", "hooks", "env", "mcpServers", "x y", "é", "//", "a:b", "{", ""])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "text", "http://host/*x*/", 'quote " and \\', "ümläut", "\u2028", "\ud83d"]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=5)
EOLS = st.sampled_from(["\n", "\r\n"])


@st.composite
def json_files(draw: st.DrawFn, *, comments: bool) -> bytes:
    """Return the bytes of a file whose root is a table."""
    root = draw(TABLES)
    eol = draw(EOLS)
    if draw(st.booleans()):
        text = _tidy(draw, root, eol, comments)
    else:
        text = _wild(draw, root, eol, comments)
    text += draw(st.sampled_from(["", eol, eol + eol]))
    bom = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return bom + text.encode()


def _tidy(draw: st.DrawFn, root: Any, eol: str, comments: bool) -> str:
    """As editors write it: one indent, one member a line, or all on one line."""
    indent = draw(st.sampled_from([None, "  ", "    ", "\t"]))
    separators = draw(st.sampled_from([(",", ": "), (",", ":"), (",", " : ")]))
    if indent is None:
        separators = draw(st.sampled_from([(", ", ": "), (",", ":")]))
    text = json.dumps(root, indent=indent, separators=separators)
    if comments and indent is not None:
        lines = []
        for line in text.split("\n"):
            own = line[: len(line) - len(line.lstrip())]
            kind = draw(st.integers(0, 9))
            if kind == 0:
                lines.append(own + "// a note, with a comma")
            if kind == 1 and line.endswith(","):
                line += " // why"
            if kind == 2:
                line += " /* { */"
            if kind == 3 and line.rstrip()[-1] not in ",{[":
                line += ","  # behind a closing bracket or the last member: a trailing comma
            lines.append(line)
        text = "\n".join(lines)
        text = _root_without_comma(text)
    return text.replace("\n", eol)


def _root_without_comma(text: str) -> str:
    """A comma behind the root's closing bracket is no trailing comma; take it off."""
    closing = text.rfind("}")
    return text[: closing + 1] + text[closing + 1 :].lstrip(",")


def _wild(draw: st.DrawFn, value: Any, eol: str, comments: bool) -> str:
    """Any white space, and any comment, between any two tokens."""
    gaps = ["", "", "", " ", "  ", "\t", eol, eol + "  ", " " + eol]
    if comments:
        gaps += ["/* c */", " /* , */ ", f"// }}{eol}", f" // ]{eol}  ", f"/* two{eol}lines */"]
    gap = st.sampled_from(gaps)

    def one(value: Any) -> str:
        if isinstance(value, dict):
            items = [
                draw(gap) + json.dumps(key) + draw(gap) + ":" + draw(gap) + one(item) + draw(gap)
                for key, item in value.items()
            ]
            return "{" + joined(items) + "}"
        if isinstance(value, list):
            return "[" + joined([draw(gap) + one(item) + draw(gap) for item in value]) + "]"
        return json.dumps(value)

    def joined(items: list[str]) -> str:
        if not items:
            return draw(gap)
        tail = "," + draw(gap) if comments and draw(st.booleans()) else ""
        return ",".join(items) + tail

    return draw(gap) + one(value) + draw(gap)
