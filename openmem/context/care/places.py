"""Where else in our folders a text stands: copies, payloads, and what is not ours to clean.

A text may stand escaped (in an export) and by single lines (in a database), so it is looked for in
every form in which we write it.
Invariant: reads only. A file that is gone meanwhile holds nothing.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from openmem.base.errors import StoreUnavailable
from openmem.base.io import read_bytes_or_none
from openmem.base.paths import Paths
from openmem.context.care.files import copies, session_of
from openmem.context.sandbox.line_rule import LineRule
from openmem.context.store.catalog import Entry, entries
from openmem.context.store.database import SIDE_FILES
from openmem.context.store.reader import open_entry

_PIECE = 1 << 22
_CHUNK = 1 << 26
_LONGEST_LINE = 1 << 24
_SHORTEST_LINE = 4
_NO_TEXT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ufffd]+")
_NOT_CONTENT = ("install.key", "tombstones.db", "tombstones.db-journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """A file that holds it and is not cleaned by forgetting. `why`: what it is, what to do."""

    path: str
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.path}, {self.why}"


def copies_matching(paths: Paths, rule: LineRule) -> list[str]:
    """Return the copies of sessions (set aside, exported) in which a pattern matches.

    A file that was set aside is damaged: it is read as bytes, in the pieces of text that it holds.
    """
    return [path for path in copies(paths) if _matches(path, rule)]


def copies_holding(paths: Paths, literal: str) -> list[str]:
    """Return the copies of sessions that hold a text."""
    forms = _forms(literal)
    return [path for path in copies(paths) if _holds(path, forms)]


def payloads_matching(paths: Paths, rule: LineRule) -> set[str]:
    """Return the ids of payloads that are text and in which a pattern matches."""
    found: set[str] = set()
    for path in _payload_files(paths):
        try:
            text = (read_bytes_or_none(path) or b"").decode("utf-8")
        except UnicodeDecodeError:
            continue  # an image: a pattern is for what can be read
        if rule.matching_line(text) is not None:
            found.add(_id_of(path))
    return found


def payloads_holding(paths: Paths, literal: str) -> set[str]:
    """Return the ids of payloads that hold a text, images included."""
    forms = _forms(literal)
    return {_id_of(path) for path in _payload_files(paths) if _holds(path, forms)}


def others_matching(paths: Paths, rule: LineRule) -> list[Elsewhere]:
    """Return the files beside the session stores in which a pattern matches, and the sessions whose
    folder or one of whose tools has a name that it matches."""
    found = _others(paths, lambda path: _matches(path, rule))
    for entry in entries(paths):
        for what, names in (("its folder", [entry.cwd, entry.bank]), ("a tool", _tools_of(entry))):
            if rule.matching_line("\n".join(names)) is not None:
                why = f"the name of {what}; only forgetting the whole session takes it out"
                found.append(Elsewhere(path=f"session {entry.session_id}", why=why))
    return found


def _tools_of(entry: Entry) -> list[str]:
    try:
        with open_entry(entry) as reader:
            query = "SELECT DISTINCT name FROM messages WHERE name IS NOT NULL"
            return [str(row[0]) for row in reader.connection.execute(query)]
    except (StoreUnavailable, sqlite3.Error):
        return []  # named by the selection


def others_holding(paths: Paths, literal: str) -> list[Elsewhere]:
    """Return the files beside the session stores that hold a text."""
    forms = _forms(literal)
    return _others(paths, lambda path: _holds(path, forms))


def stores_holding(paths: Paths, literal: str) -> list[str]:
    """Return the files of session stores that hold a text still."""
    forms = _forms(literal)
    return [path for path in _all_files(paths) if _is_store(paths, path) and _holds(path, forms)]


def _others(paths: Paths, is_found: Callable[[str], bool]) -> list[Elsewhere]:
    known = set(copies(paths))
    return [
        Elsewhere(path=path, why=_why(paths, path))
        for path in _all_files(paths)
        if path not in known and not _is_store(paths, path) and not _is_payload(paths, path)
        if os.path.basename(path) not in _NOT_CONTENT and is_found(path)
    ]


def _why(paths: Paths, path: str) -> str:
    folder, name = os.path.split(path)
    if folder == paths.sessions_dir:
        sid = session_of(name)
        if sid:
            return f"beside session {sid}; `openmem context forget --session {sid}` removes it"
    if path.startswith(paths.ledger_file) or folder == f"{paths.state_dir}/memory":
        return "memories; `openmem memory search` finds one, `openmem memory forget` removes it"
    if folder == paths.context_dir and name.startswith("catalog.db"):
        return "the list of sessions and their folders; it is made anew when you remove it"
    if folder == paths.logs_dir:
        return "a log; remove it when you like"
    return "not a file of the session stores"


def _is_store(paths: Paths, path: str) -> bool:
    folder, name = os.path.split(path)
    if folder != paths.sessions_dir or not session_of(name):
        return False
    return name.endswith((".db", *(f".db{suffix}" for suffix in SIDE_FILES)))


def _is_payload(paths: Paths, path: str) -> bool:
    return os.path.dirname(path) == paths.blobs_dir


def _all_files(paths: Paths) -> Iterator[str]:
    for folder, _, names in os.walk(paths.state_dir):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def _payload_files(paths: Paths) -> Iterator[str]:
    return (path for path in _all_files(paths) if _is_payload(paths, path))


def _id_of(path: str) -> str:
    return os.path.basename(path).partition(".")[0]


def texts_in(path: str) -> Iterator[str]:
    """Yield the texts in a file: of lines of JSON their rows' texts, else what reads like text."""
    for data in _chunks(path):
        lines = data.split(b"\n")
        rows = [_text_of_row(line) for line in lines]
        if any(row is not None for row in rows):
            yield from (row for row in rows if row is not None)
            data = b"\n".join(line for line, row in zip(lines, rows, strict=True) if row is None)
        yield from _NO_TEXT.split(data.decode("utf-8", "replace"))


def _chunks(path: str) -> Iterator[bytes]:
    """Yield a file in parts that end with a line, as far as lines are not endless."""
    before = b""
    try:
        with open(path, "rb") as file:
            while piece := file.read(_CHUNK):
                head, end, tail = (before + piece).rpartition(b"\n")
                if len(tail) > _LONGEST_LINE:
                    head, end, tail = before + piece, b"", b""
                yield head + end
                before = tail
    except OSError:
        pass  # gone meanwhile, or not ours to read: then not ours to say
    yield before


def _text_of_row(line: bytes) -> str | None:
    """Return the text of an exported row, None for a line that is none."""
    if not line.startswith(b"{"):
        return None
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None  # some other braces: read as text
    text = document.get("text") if isinstance(document, dict) else None
    return text if isinstance(text, str) else None


def _matches(path: str, rule: LineRule) -> bool:
    return any(rule.matching_line(text) is not None for text in texts_in(path))


def spellings(literal: str) -> tuple[str, ...]:
    """Return the ways in which rows write a text, the plain one first: a tool's input is JSON, and
    a file that it wrote may be JSON itself."""
    once = json.dumps(literal, ensure_ascii=False)[1:-1]
    twice = json.dumps(once, ensure_ascii=False)[1:-1]
    return tuple(dict.fromkeys((literal, once, twice)))


def _forms(literal: str) -> list[list[bytes]]:
    """Return the ways in which we write a text; each is the byte strings that must all be there."""
    rows = spellings(literal)
    escaped = (
        json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in rows for is_ascii in (False, True)
    )
    texts = {*rows, *escaped}
    forms = [[text.encode("utf-8", "surrogatepass")] for text in sorted(texts)]
    lines = [line for line in literal.split("\n") if len(line.strip()) >= _SHORTEST_LINE]
    if len(lines) > 1:
        forms.append([line.encode("utf-8", "surrogatepass") for line in lines])
    return forms


def _holds(path: str, forms: list[list[bytes]]) -> bool:
    wanted = [set(form) for form in forms]
    longest = max(len(text) for form in forms for text in form)
    before = b""
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                data = before + piece
                for form in wanted:
                    form.difference_update([text for text in form if text in data])
                if not all(wanted):
                    return True
                before = data[-longest:]
    except OSError:
        pass  # gone meanwhile, or not ours to read: then not ours to say
    return False
