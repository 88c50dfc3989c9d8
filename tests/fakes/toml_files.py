"""Generated TOML files, with comments, blank lines and every kind of table, for properties."""

from __future__ import annotations

from typing import Any

import tomlkit
from hypothesis import strategies as st

from tests.fakes.json_files import EOLS

NAMES = st.sampled_from(
    ["a", "b", "mcp_servers", "openmem", "with.dot", "/home/u/my repo", "x y", ""]
)
SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "text", "a # b", 'quote " \\', "[t]", "ü", "a\nb", "= ]", "'''"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
_RAW = st.sampled_from(
    [
        "1_000",
        "0x1F",
        "1979-05-27 07:32:00Z",
        '"""\nlong # no comment\n[no.header]\n"""',
        "'''it''s\n'''",
        "'C:\\path'",
        "[\n  1, # one\n  2,\n]",
        "[ ]",
        "{ }",
        '{ x = 1, y = "#" }',
        "[[1, 2], [\n]]",
    ]
)


def _key(name: str) -> str:
    return tomlkit.key([name]).as_string() if name else '""'


@st.composite
def toml_files(draw: st.DrawFn) -> bytes:
    """Return the bytes of a valid file."""
    lines: list[str] = []
    gap = st.sampled_from([[], [], [""], ["# note"], ["", "# [not.a.table]", ""]])

    def pairs(names: list[str]) -> None:
        for name in names:
            lines.extend(draw(gap))
            value = draw(_RAW) if draw(st.booleans()) else _spelled(draw(VALUES))
            pad = draw(st.sampled_from(["", " "]))
            tail = draw(st.sampled_from(["", " # why", "  "]))
            lines.append(f"{_key(name)}{pad}={pad}{value}{tail}")

    names = draw(st.lists(NAMES, unique=True, max_size=6))
    cut = draw(st.integers(0, len(names)))
    pairs(names[:cut])
    if names[:cut] and draw(st.booleans()):
        lines.append("dotted.one = 1")
        lines.append("dotted . 'two' = 2 # why")
    for name in names[cut:]:
        lines.extend(draw(gap))
        kind = draw(st.sampled_from(["table", "sub", "deep", "entries"]))
        inner = draw(st.lists(NAMES, unique=True, max_size=3))
        if kind == "entries":
            for _ in range(draw(st.integers(1, 3))):
                lines.append(f"[[{_key(name)}]] # entry")
                pairs(inner)
            continue
        if kind in ("table", "sub"):
            lines.append(f"[ {_key(name)} ]")
            pairs(inner)
        if kind in ("sub", "deep"):
            lines.extend(draw(gap))
            lines.append(f"[{_key(name)}.below]")
            pairs(draw(st.lists(NAMES, unique=True, max_size=2)))
    lines.extend(draw(gap))
    eol = draw(EOLS)
    text = "\n".join(lines)
    if lines and draw(st.booleans()):
        text += "\n"
    return text.replace("\n", eol).encode()


def _spelled(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_spelled(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_spelled, value)) + "]"
    return tomlkit.item(value).as_string()
