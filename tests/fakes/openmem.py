"""Runs the installed `openmem` of this checkout in a HOME of a test, as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.claude import CHECKOUT


def openmem_bin() -> Path | None:
    """Return the `bin` folder that holds the installed commands, None when there is none."""
    for folder in (Path(sys.executable).parent, CHECKOUT / ".venv/bin"):
        if (folder / "openmem").exists():
            return folder
    return None


needs_openmem = pytest.mark.skipif(
    openmem_bin() is None and "CI" not in os.environ,
    reason="openmem is not installed here (2026-11-30); bash .ci/run installs it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one command gave."""

    status: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """The `data` of the JSON envelope."""
        return json.loads(self.stdout)["data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Openmem:
    """The commands in one HOME. `environ`: the whole environment; HOME is put in."""

    home: Path
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, timeout_seconds: float = 60, stdin: str = "") -> Outcome:
        """Run a command to its end; whatever its exit status."""
        found = openmem_bin()
        assert found is not None
        done = subprocess.run(
            [str(found / "openmem"), *words],
            cwd=self.folder,
            env={**self.environ, "HOME": str(self.home), "NO_COLOR": "1"},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )
        return Outcome(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def ok(self, *words: str, timeout_seconds: float = 60) -> Outcome:
        """Run a command that must succeed."""
        done = self(*words, timeout_seconds=timeout_seconds)
        assert done.status == 0, (words, done)
        return done
