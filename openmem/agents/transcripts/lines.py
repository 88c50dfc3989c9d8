"""A transcript that holds a record a line, read on from a mark: what its readers share.

Invariant: each mark that is given can be read on from. Trap: a line that cannot be read, or holds a
message that cannot be understood, is a fault of its own and hides no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from openmem.context.formats.records import records
from openmem.context.formats.view import NotUnderstood
from openmem.context.transcript import Fault, Item, Mark, Piece

_MARK_BYTES = 1 << 20
_NO_OBJECT = "a record that is no object"


class Reading(ABC):
    """One pass over a file; a format says what its lines hold."""

    @property
    def is_between(self) -> bool:
        """Whether nothing is waiting, so that a later reading may begin here."""
        return True

    @abstractmethod
    def saved(self) -> dict[str, Any]:
        """Return what a later reading has to know."""

    @abstractmethod
    def pieces_of(self, value: Mapping[str, Any]) -> Iterator[Piece]:
        """Yield what a line says. NotUnderstood."""

    def rest(self) -> Iterator[Piece]:
        """Yield what is waiting at the end of the file."""
        yield from ()


def read_lines(path: str, mark: Mark, reading: Reading) -> Iterator[Item]:
    """Yield what a reading makes of a file's lines from a mark on, a mark now and then, and one
    at the end. OSError."""
    end, line, marked = mark.offset, mark.line, mark.offset
    with open(path, "rb") as file:
        for record in records(file, mark.offset, mark.line):
            if record.start >= max(end, marked + _MARK_BYTES) and reading.is_between:
                marked = record.start
                yield Mark(offset=record.start, line=record.line, state=reading.saved())
            end, line = record.end, record.line + 1
            if record.problem:
                yield Fault(line=record.line, offset=record.start, why=record.problem)
            elif isinstance(record.value, dict):
                try:
                    yield from reading.pieces_of(record.value)
                except NotUnderstood as error:
                    yield Fault(line=record.line, offset=record.start, why=str(error))
            else:
                yield Fault(line=record.line, offset=record.start, why=_NO_OBJECT)
        yield from reading.rest()
        yield Mark(offset=end, line=line, state=reading.saved())
