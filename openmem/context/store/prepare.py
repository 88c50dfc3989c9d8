"""From a block as it was said to a row as it is stored: payloads out, secrets masked, lines cut.

Invariant: nothing reaches the database that did not pass here; a fault in redaction is raised, and
then nothing of the request is stored.
Trap: keys are made from the original, digests from what is stored; masking more one day must not
give a row another key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openmem.base.frame import carries_own_text, is_own_tool
from openmem.base.redact import Redacted
from openmem.context.rows import Block, KeyedBlock, digest_of_text
from openmem.context.store.blobs import Blob, blob_of, describe, take_out_runs
from openmem.context.store.schema import LAST_LINE

Redact = Callable[[str, bytes], Redacted]
FORGOTTEN = -1
"""`masked` of a row whose text was forgotten: the place in the chain stays, nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A row ready to be stored. `lines`: of the stored text; joined by line feeds they give it.

    `size`: bytes of the stored text in UTF-8. `digest`: of the stored text, 32 hex. `masked`:
    secrets masked in it, or `FORGOTTEN`.
    """

    keyed: KeyedBlock
    lines: list[str]
    size: int
    digest: str
    masked: int
    echo: bool
    is_ascii: bool = True
    blobs: tuple[Blob, ...] = ()

    @property
    def block(self) -> Block:
        return self.keyed.block


def prepare(keyed: KeyedBlock, key: bytes, redact: Redact) -> Prepared:
    """Return a keyed block as it will be stored."""
    block = keyed.block
    masked = 0
    if block.payload is not None:
        blobs: tuple[Blob, ...] = (blob_of(key, block.payload, block.media),)
        text = describe(blobs[0], block.kind)
    else:
        text, blobs = take_out_runs(key, block.text)
        redacted = redact(text, key)
        text, masked = redacted.text, redacted.count
    is_ascii = text.isascii()
    return Prepared(
        keyed=keyed,
        # Only line feeds end a line: pasted text holds other characters that some call line ends.
        lines=text.split("\n", LAST_LINE - 1),
        size=len(text) if is_ascii else len(text.encode("utf-8")),
        digest=digest_of_text(key, text),
        masked=masked,
        echo=is_echo(block),
        is_ascii=is_ascii,
        blobs=blobs,
    )


def emptied(row: Prepared, key: bytes) -> Prepared:
    """Return a row as it is stored when its content was forgotten before."""
    return Prepared(
        keyed=row.keyed,
        lines=[],
        size=0,
        digest=digest_of_text(key, ""),
        masked=FORGOTTEN,
        echo=row.echo,
    )


def is_echo(block: Block) -> bool:
    """Return whether a block only repeats what openmem said: our tools, our frame, our pointer."""
    return is_own_tool(block.name) or carries_own_text(block.text)
