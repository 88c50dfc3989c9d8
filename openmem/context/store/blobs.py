"""Payloads kept once, as files named by what they hold.

Idea: an image is sent with every request of a session; its bytes stand in one file, rows name it.
Invariant: equal bytes, one file; the id is keyed, so a name on disk gives nothing away.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from dataclasses import dataclass

from openmem.base.io import ensure_private_dir, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths
from openmem.context.rows import blob_id_of

_ID = re.compile(r"[0-9a-f]{16}")
_EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "text/plain": "txt",
}
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
# Shorter runs are hashes, keys and signatures, which people look for; longer ones are payloads.
RUN_CHARACTERS = 8192
# The look-behind lets a run be tried once, from its beginning: without it the time is quadratic.
_RUN = re.compile(rf"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{{{RUN_CHARACTERS},}}+={{0,2}}")
_DATA_URI = re.compile(r"data:([\w.+-]{1,40}/[\w.+-]{1,60});base64,\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A payload: its id, media type ("" when unknown) and bytes."""

    id: str
    media: str
    data: bytes


def blob_of(key: bytes, data: bytes, media: str) -> Blob:
    """Return a payload with its id. An unknown media type is told from the first bytes."""
    return Blob(id=blob_id_of(key, data), media=media or media_of(data), data=data)


def media_of(data: bytes) -> str:
    """Return the media type that the first bytes show, "" when they show none."""
    for signature, media in _SIGNATURES:
        if data.startswith(signature):
            return media
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def describe(blob: Blob, kind: str) -> str:
    """Return the line that stands in a row for a payload."""
    return f"[{kind} {blob.media or 'of unknown type'}, {len(blob.data)} bytes, blob {blob.id}]"


def take_out_runs(key: bytes, text: str) -> tuple[str, tuple[Blob, ...]]:
    """Return a text with long base64 runs replaced by a line about them, and what they held."""
    if len(text) < RUN_CHARACTERS or not _has_line_of(text, RUN_CHARACTERS):
        return text, ()
    blobs: list[Blob] = []

    def replace(match: re.Match[str]) -> str:
        run = match.group()
        if not _is_mixed(run):
            return run
        lead = _DATA_URI.search(match.string, max(0, match.start() - 120), match.start())
        media = lead.group(1) if lead else ""
        try:
            data = base64.b64decode(run, validate=True)
        except (binascii.Error, ValueError):
            # Cut short, or some other alphabet that looks alike: kept as the text it is.
            data, media = run.encode("ascii"), "text/plain"
        blob = blob_of(key, data, media)
        blobs.append(blob)
        return describe(blob, "base64")

    return _RUN.sub(replace, text), tuple(blobs)


def _has_line_of(text: str, length: int) -> bool:
    """Return whether a line is as long: a tenth of the time that looking for a run takes."""
    return any(len(line) >= length for line in text.split("\n"))


def _is_mixed(run: str) -> bool:
    """Return whether a run looks like encoded bytes, not like a ruler, a hex dump or one word."""
    head = run[:512]
    return bool(re.search("[A-Z]", head) and re.search("[a-z]", head) and re.search("[0-9]", head))


def blob_file(paths: Paths, blob_id: str, media: str) -> str:
    """Return where a payload is kept."""
    return f"{paths.blobs_dir}/{blob_id}.{_EXTENSIONS.get(media, 'bin')}"


def write_blob(paths: Paths, blob: Blob) -> None:
    """Keep a payload; one that is there already is left alone."""
    path = blob_file(paths, blob.id, blob.media)
    if os.path.exists(path):
        return
    ensure_private_dir(paths.blobs_dir)
    write_atomic(path, blob.data)


def find_blob(paths: Paths, blob_id: str) -> Blob | None:
    """Return a payload by its id, None when there is none. Text files hold UTF-8."""
    if not _ID.fullmatch(blob_id):
        return None
    for media, extension in [*_EXTENSIONS.items(), ("", "bin")]:
        data = read_bytes_or_none(f"{paths.blobs_dir}/{blob_id}.{extension}")
        if data is not None:
            return Blob(id=blob_id, media=media, data=data)
    return None
