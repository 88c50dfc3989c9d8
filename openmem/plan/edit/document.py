"""What an editable document gives, whatever its format."""

from __future__ import annotations

from typing import Protocol, Self

from openmem.plan.action import Json, Keys


class Document(Protocol):
    """A parsed file. Every edit returns a new one whose bytes were parsed again and compared.

    `keys`: names in tables, numbers in lists. Unparseable when the place an edit needs is of
    another kind than the edit expects.
    """

    @property
    def data(self) -> bytes: ...

    def has(self, keys: Keys) -> bool:
        """Return whether something stands at `keys`."""
        ...

    def value(self, keys: Keys = ()) -> Json:
        """Return the value at `keys`. NotFound when nothing is there."""
        ...

    def text(self, keys: Keys) -> str:
        """Return the source text of the value at `keys`."""
        ...

    def blank(self, keys: Keys) -> str:
        """Return what stands between the brackets of an empty table or list, "" if not empty."""
        ...

    def set(self, keys: Keys, value: Json) -> Self:
        """Return it with the value at `keys`; missing tables above it are made."""
        ...

    def set_text(self, keys: Keys, text: str, *, index: int = -1) -> Self:
        """Return it with a value given as source text; `index`: its place if it is new."""
        ...

    def append(self, keys: Keys, value: Json) -> Self:
        """Return it with the value last in the list at `keys`, which is made if missing."""
        ...

    def remove(self, keys: Keys, *, blank: str = "") -> Self:
        """Return it without what stands at `keys`; `blank` fills brackets that become empty."""
        ...
