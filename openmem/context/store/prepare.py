"""From a block as it was said to a row as it is stored: payloads out, secrets masked, lines cut.

Invariant: nothing reaches the database that did not pass here; a fault in redaction is raised, and
then nothing of the request is stored.
Trap: keys are made from the original, digests from what is stored; masking more one day must not
give a row another key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from openmem.base.frame import carries_own_text, is_own_tool
from openmem.base.redact import Redacted
from openmem.context.rows import Block, KeyedBlock, digest_of_text
from openmem.context.store.blobs import Blob, blob_of, describe, take_out_runs

Redact = Callable[[str, bytes], Redacted]
FORGOTTEN = -1
"""`masked` of a row whose text was forgotten: the place in the chain stays, nothing else."""


class Masked(NamedTuple):
    """A row as far as it has to be known to be told to another process, as an import does.

    Keys, role, kind and name as of the `KeyedBlock`. `text`: as it will be stored, `masked`: how
    many secrets were masked in it.
    """

    fingerprint: str
    content_key: str
    role: str
    kind: str
    name: str
    text: str
    masked: int
    echo: bool
    blobs: tuple[Blob, ...] = ()


class Prepared(NamedTuple):
    """A row ready to be stored: what `Masked` says, and of the text its bytes in UTF-8 (`size`) and
    `digest` (32 hex). `masked` may be `FORGOTTEN`.
    """

    fingerprint: str
    content_key: str
    role: str
    kind: str
    name: str
    text: str
    size: int
    digest: str
    masked: int
    echo: bool
    is_ascii: bool = True
    blobs: tuple[Blob, ...] = ()


Row = Masked | Prepared


def prepare(keyed: KeyedBlock, key: bytes, redact: Redact) -> Prepared:
    """Return a keyed block as it will be stored."""
    return finished(mask(keyed, key, redact), key)


def mask(keyed: KeyedBlock, key: bytes, redact: Redact) -> Masked:
    """Return a keyed block without payloads and secrets."""
    block = keyed.block
    masked = 0
    if block.payload is not None:
        blobs: tuple[Blob, ...] = (blob_of(key, block.payload, block.media),)
        text = describe(blobs[0], block.kind)
    else:
        text, blobs = take_out_runs(key, block.text)
        redacted = redact(text, key)
        text, masked = redacted.text, redacted.count
    return Masked(
        fingerprint=keyed.fingerprint,
        content_key=keyed.content_key,
        role=block.role,
        kind=block.kind,
        name=block.name,
        text=text,
        masked=masked,
        echo=is_echo(block),
        blobs=blobs,
    )


def size_of(rows: Iterable[Row]) -> int:
    """Return how many characters of text rows hold."""
    return sum(len(row.text) for row in rows)


def finished(row: Row, key: bytes) -> Prepared:
    """Return a masked row as it will be stored; one that is finished already as it is."""
    if isinstance(row, Prepared):
        return row
    text = row.text
    is_ascii = text.isascii()
    return Prepared(
        fingerprint=row.fingerprint,
        content_key=row.content_key,
        role=row.role,
        kind=row.kind,
        name=row.name,
        text=text,
        size=len(text) if is_ascii else len(text.encode("utf-8")),
        digest=digest_of_text(key, text),
        masked=row.masked,
        echo=row.echo,
        is_ascii=is_ascii,
        blobs=row.blobs,
    )


def emptied(row: Prepared, key: bytes) -> Prepared:
    """Return a row as it is stored when its content was forgotten before."""
    return row._replace(
        text="", size=0, digest=digest_of_text(key, ""), masked=FORGOTTEN, is_ascii=True, blobs=()
    )


def is_echo(block: Block) -> bool:
    """Return whether a block only repeats what openmem said: our tools, our frame, our pointer."""
    return is_own_tool(block.name) or carries_own_text(block.text)
