"""Rows of an import, masked as the recorder masks its own: forgotten words, too."""

from __future__ import annotations

from openmem.base.paths import Paths
from openmem.base.redact import Redacted, redact
from openmem.context.rows import KeyedBlock
from openmem.context.store.prepare import Masked, mask
from openmem.context.store.tombstones import FORGOTTEN_RULE, Tombstones


class Masker:
    """Masks secrets and forgotten words, as of now. StoreUnavailable: nothing is masked."""

    def __init__(self, paths: Paths, key: bytes) -> None:
        self._key = key
        self._tombstones = Tombstones(paths, key)

    def masked(self, keyed: list[KeyedBlock]) -> list[Masked]:
        """Return blocks with what may be stored of them."""
        self._tombstones.refresh()
        return [mask(one, self._key, self._mask) for one in keyed]

    def close(self) -> None:
        """Let go of the file of what was forgotten."""
        self._tombstones.close()

    def _mask(self, text: str, key: bytes) -> Redacted:
        text, forgotten = self._tombstones.masked(text)
        redacted = redact(text, key)
        if not forgotten:
            return redacted
        return Redacted(redacted.text, (*redacted.kinds, *[FORGOTTEN_RULE] * forgotten))
