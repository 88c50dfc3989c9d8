"""What the proxy tells the recorder of a request besides its body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openmem.context.formats.view import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the proxy tells of a request besides its body; `headers`: `IDENTITY_HEADERS` only."""

    route: str
    wire: Wire = "messages"
    headers: Mapping[str, str]
