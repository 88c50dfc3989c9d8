"""Fixtures: a store with the key that the writers use, and the commands that look at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from tests.fakes.conversation import KEY

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def paths(home: Path) -> Paths:
    found = Paths(dict(os.environ))
    write_key(found)
    return found


def write_key(paths: Paths) -> None:
    Path(paths.key_file).parent.mkdir(parents=True, exist_ok=True)
    Path(paths.key_file).write_text(KEY.hex())
    os.chmod(paths.key_file, 0o600)


@pytest.fixture
def run() -> Run:
    """Run `openmem WORDS --json`; return exit status and envelope."""

    def call(*words: str, said: str = "") -> tuple[int, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "openmem", *words, "--json"],
            input=said,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode != 70 and "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    return call


@pytest.fixture
def problems(run: Run) -> Callable[[], dict[str, str]]:
    """Return what `status` says of the stores, name → sentence; `doctor` must say it, too."""

    def look() -> dict[str, str]:
        _, status = run("status")
        found = {one["name"]: one["detail"] for one in status["data"]["store"]["problems"]}
        _, doctor = run("doctor", "--no-network")
        told = " ".join(one["detail"] for one in doctor["data"]["checks"])
        for name, detail in found.items():
            words = "shared mount" if name == "mount" else "GB free" if name == "disk" else detail
            assert words in told, f"the doctor does not say: {detail}"
        return found

    return look
