"""Fences for every test: a HOME of its own, no inherited openmem or agent settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_DROPPED_PREFIXES = ("OPENMEM_", "ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "XDG_", "GIT_")
_DROPPED = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh HOME; state and settings of openmem fall below it."""
    for name in list(os.environ):
        if name.startswith(_DROPPED_PREFIXES) or name in _DROPPED:
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    yield folder
