"""The versions that stacks run, from the one table that ships with openmem.

`python -m openmem.stack.pins NAME TAG` changes one in the table and in the templates of a checkout.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.base.assets import asset_path, read_asset
from openmem.base.errors import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pinned thing: an image, or a source that an image is built from. `speaks`: the version
    of its interface that the adapter was written for, "" where none matters."""

    name: str
    tag: str
    image: str = ""
    source: str = ""
    speaks: str = ""

    @property
    def reference(self) -> str:
        """How the template names it."""
        return f"{self.image}:{self.tag}" if self.image else f"{self.source}#{self.tag}"


def pins(text: str = "") -> Mapping[str, Pin]:
    """Return every pin by name. `text`: of the table, "" for the one that ships."""
    document = tomllib.loads(text or read_asset("templates", "pins.toml"))
    return {name: Pin(name=name, **values) for name, values in document.items()}


_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def repinned(text: str, pin: Pin, tag: str) -> str:
    """Return a template or the table with another tag for one pin. Usage when it is no tag."""
    if not _TAG.fullmatch(tag):
        raise Usage(f"{tag!r} is no tag.")
    text = text.replace(pin.reference, pin.reference[: -len(pin.tag)] + tag)
    if pin.source:
        text = text.replace(f"openmem-{pin.name}:{pin.tag}", f"openmem-{pin.name}:{tag}")
    table = re.compile(rf'(?ms)(^\[{re.escape(pin.name)}\]$.*?^tag = ")[^"]*(")')
    return table.sub(lambda match: match[1] + tag + match[2], text, count=1)


def main(argv: Sequence[str]) -> int:
    """Change one pin in the files of this checkout; returns an exit status."""
    import glob

    name, tag = argv
    known = pins()
    if name not in known:
        raise Usage(f"there is no pin {name!r}.", hint=f"Known: {', '.join(known)}.")
    folder = asset_path("templates")
    for path in [f"{folder}/pins.toml", *glob.glob(f"{folder}/compose/*.yaml")]:
        with open(path, encoding="utf-8") as file:
            old = file.read()
        new = repinned(old, known[name], tag)
        if new != old:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
