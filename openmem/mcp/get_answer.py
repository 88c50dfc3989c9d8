"""The answer of `smart_compact_get`: a blob, or a whole row, in pages.

A blob is named by its content alone, so its id says nothing of whose it is: it is given only when a
row of a session in reach refers to it.
"""

from __future__ import annotations

import base64
import re
import sqlite3
from collections.abc import Mapping

from openmem.base.counts import counted
from openmem.base.errors import NotFound, StoreUnavailable, Usage
from openmem.context.store.blobs import Blob, find_blob
from openmem.context.store.catalog import Entry
from openmem.context.store.reader import open_entry
from openmem.mcp.protocol import Json
from openmem.mcp.reach import Reach, reach_of
from openmem.mcp.texts import place_line, removed
from openmem.mcp.tools import Arguments, Content, Meta

PAGE_CHARACTERS = 40_000
IMAGE_BYTES = 3_500_000  # base64 of it is below what the model APIs take for one image
_BLOB_ID = re.compile(r"[0-9a-f]{16}")
_ROW_ID = re.compile(r"(?P<session>.+)[:#](?P<seq>[0-9]{1,9})")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def answer_get(environ: Mapping[str, str], arguments: Arguments, meta: Meta) -> Content:
    """Return the text or image behind an id."""
    reach = reach_of(environ, meta)
    reach.require_recall()
    identity = str(arguments["id"]).strip()
    offset = int(str(arguments.get("offset", 0)))
    match = _ROW_ID.fullmatch(identity)
    if match:
        return _row(reach, match.group("session"), int(match.group("seq")), offset)
    if _BLOB_ID.fullmatch(identity):
        return _blob(reach, identity, offset)
    raise Usage(
        f"id {identity[:80]!r} is neither 16 hex digits nor <session_id>:<seq>.",
        hint="Pointers and search results name both.",
    )


def _row(reach: Reach, session_id: str, seq: int, offset: int) -> str:
    entry = reach.require_session(session_id)
    with open_entry(entry) as session:
        row = session.row(seq)
    if row is None:
        raise NotFound(f"session {entry.session_id} has no row {seq}.")
    place = place_line(
        entry.session_id,
        row.seq,
        row.role,
        row.name,
        row.kind,
        removed(row.in_context),
        "forgotten" if row.is_forgotten else "",
        f"{counted(row.masked, 'secret')} masked" if row.masked > 0 else "",
        row.created_at,
        " ".join(("blob", *row.blob_ids)) if row.blob_ids else "",
    )
    return f"{place}\n{_page(row.text, offset)}"


def _blob(reach: Reach, identity: str, offset: int) -> Content:
    blob = find_blob(reach.paths, identity) if _is_in_reach(reach, identity) else None
    if blob is None:
        raise NotFound(f"no blob {identity} is stored for this project.")
    if blob.media in _IMAGES and len(blob.data) <= IMAGE_BYTES:
        data = base64.b64encode(blob.data).decode("ascii")
        image: Json = {"type": "image", "data": data, "mimeType": blob.media}
        return [image]
    return _page(_text_of(blob), offset)


def _text_of(blob: Blob) -> str:
    """Return a blob as text, or what can be said of it when it is none."""
    try:
        return blob.data.decode("utf-8")
    except UnicodeDecodeError:
        return f"[{blob.media or 'unknown type'}, {len(blob.data)} bytes, cannot be shown as text]"


def _page(text: str, offset: int) -> str:
    """Return the page that begins at `offset`, and a last line that tells how to go on."""
    if offset and offset >= len(text):
        raise Usage(f"offset is {offset}, the text has {len(text)} characters.")
    end = offset + PAGE_CHARACTERS
    if end < len(text):
        cut = text.rfind("\n", offset + PAGE_CHARACTERS // 2, end)
        end = cut + 1 if cut > 0 else end
    page = text[offset:end]
    if end < len(text):
        page = page.removesuffix("\n")
        page += f"\n[characters {offset}–{end} of {len(text)}; go on with offset={end}]"
    return page


def _is_in_reach(reach: Reach, identity: str) -> bool:
    return any(_refers(entry, identity) for entry in reach.entries_in_reach())


def _refers(entry: Entry, identity: str) -> bool:
    try:
        with open_entry(entry) as session:
            found = session.connection.execute(
                "SELECT 1 FROM messages WHERE instr(',' || blob_id || ',', ?) LIMIT 1",
                (f",{identity},",),
            )
            return found.fetchone() is not None
    except (StoreUnavailable, sqlite3.Error):
        return False  # a file that cannot be read grants nothing
