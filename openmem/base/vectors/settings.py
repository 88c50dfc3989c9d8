"""Which model makes vectors, where, and with which key; and whether there is one at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from openmem.base.config import Config
from openmem.base.errors import InvalidConfig

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSettings:
    """`url`: the base of an OpenAI-compatible API. `key`: a reference, `env:NAME` or `file:PATH`.

    `timeout_seconds`: for one row; a call for more may take as many times that.
    `max_characters`: of a row's head that are sent. `ranks`: searches use them without being asked.
    """

    model: str = ""
    url: str = "http://127.0.0.1:11434/v1"
    key: str = ""
    timeout_seconds: float = 30.0
    max_characters: int = 4_000
    ranks: bool = False

    @property
    def is_on(self) -> bool:
        return bool(self.model)

    @property
    def is_local(self) -> bool:
        """Whether the words stay on this machine."""
        from urllib.parse import urlsplit  # 5 ms that only a person with vectors pays

        return (urlsplit(self.url).hostname or "") in _LOOPBACK


def vector_settings(config: Config) -> VectorSettings:
    """Return the person's settings."""
    return VectorSettings(
        model=config.text("vectors.model"),
        url=config.text("vectors.url"),
        key=config.text("vectors.key"),
        timeout_seconds=float(config.get("vectors.timeout_seconds")),
        max_characters=config.number("vectors.max_characters"),
        ranks=config.flag("vectors.rank"),
    )


def read_key(reference: str, environ: Mapping[str, str]) -> str:
    """Return the key that a reference names, "" for none. InvalidConfig when it is not there."""
    if not reference:
        return ""
    kind, _, name = reference.partition(":")
    if kind == "env" and name in environ:
        return environ[name].strip()
    if kind == "file":
        try:
            with open(os.path.expanduser(name), encoding="utf-8") as file:
                return file.read(10_000).strip()
        except (OSError, UnicodeDecodeError):
            pass  # said below, with the reference
    raise InvalidConfig(
        f"vectors.key is {reference!r}, which names no key here.",
        hint="Write env:NAME or file:PATH.",
    )
