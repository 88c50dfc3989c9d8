"""Real session files of agents, for whoever has some.

They are not part of this project: `OPENMEM_TEST_TRANSCRIPTS` names a folder with
`claude-code/*.jsonl`, `codex/*.jsonl`, `opencode/*.json` and so on; without it there is nothing to
read, and the tests that need them are left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("OPENMEM_TEST_TRANSCRIPTS", "/nonexistent"))
needs_session_files = pytest.mark.skipif(
    not FOLDER.exists(), reason="OPENMEM_TEST_TRANSCRIPTS names no folder (2026-11-30)"
)


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every JSON object that begins a line or stands behind another one."""
    decoder = json.JSONDecoder(strict=False)
    for line in path.read_bytes().split(b"\n"):
        text, at = line.decode("utf-8", "replace").strip(), 0
        while at < len(text) and text[at] == "{":
            try:
                value, at = decoder.raw_decode(text, at)
            except ValueError:
                break
            yield value
