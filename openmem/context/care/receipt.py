"""What a forgetting came to: counts and places, never content."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What was forgotten. `pending`: sessions whose freed bytes a reader still holds.

    `failed`: sessions in which nothing could be changed; what came before them is gone.
    `left`: places that hold it still, each with the reason.
    """

    sessions: tuple[str, ...] = ()
    rows: int = 0
    lines: int = 0
    blobs: int = 0
    files: int = 0
    tombstones: int = 0
    masked: int = 0
    pending: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether all that was asked for is gone from the stores."""
        return not (self.pending or self.failed)

    def __add__(self, other: ForgetReceipt) -> ForgetReceipt:
        return ForgetReceipt(
            sessions=tuple(dict.fromkeys(self.sessions + other.sessions)),
            rows=self.rows + other.rows,
            lines=self.lines + other.lines,
            blobs=self.blobs + other.blobs,
            files=self.files + other.files,
            tombstones=self.tombstones + other.tombstones,
            masked=self.masked + other.masked,
            pending=tuple(dict.fromkeys(self.pending + other.pending)),
            failed=tuple(dict.fromkeys(self.failed + other.failed)),
            left=tuple(dict.fromkeys(self.left + other.left)),
        )
