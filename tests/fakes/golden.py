"""Texts that people rely on, kept as files. `UPDATE_GOLDEN=1` rewrites them; read the diff."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def assert_golden(path: Path, lines: Sequence[str], *, width: int = 80) -> None:
    """Compare lines with a file, and hold them to a width."""
    too_long = [line for line in lines if len(line) > width]
    assert not too_long, too_long
    text = "".join(f"{line}\n" for line in lines)
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
