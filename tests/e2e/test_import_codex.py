"""A real Codex session, recorded by the proxy and imported from its rollout: stored once."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmem.base.paths import Paths
from openmem.memory.ledger import Ledger
from tests.fakes.codex import needs_codex
from tests.fakes.codex_scene import CUSTOM, GATE, CodexScene, a_codex_scene
from tests.fakes.script import play

pytestmark = [pytest.mark.timeout(400), needs_codex]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[CodexScene]:
    with a_codex_scene(tmp_path, CUSTOM + GATE) as made:
        yield made


def _talk(scene: CodexScene) -> str:
    shell = {"think": "hm", "call": {"name": "exec_command", "input": {"cmd": "echo heron"}}}
    done = scene.run(play("the staging host is heron-42", shell, {"say": "The notes name it too."}))
    scene.run(
        play("and which port does it use?", {"say": "It listens on port 5432."}),
        resume=done.session_id,
    )
    return done.session_id


def _said(scene: CodexScene, sid: str) -> Counter[tuple[str, str, str]]:
    return Counter(
        (row["role"], row["kind"], row["text"]) for row in scene.rows(sid) if row["source"] is None
    )


def _import(scene: CodexScene) -> dict[str, Any]:
    done = scene.openmem("context", "import", "--agent", "codex", "--json")
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def test_the_same_session_by_proxy_and_by_rollout_is_stored_once(scene: CodexScene) -> None:
    """Issue 7, part 5: in both orders."""
    scene.install()
    sid = _talk(scene)
    before = _said(scene, sid)
    report = _import(scene)
    assert report["added"] == 0 and report["known"] > 6
    assert _said(scene, sid) == before
    shutil.rmtree(scene.state / "context")
    assert _import(scene)["added"] > 6
    imported = _said(scene, sid)
    scene.run(play("once more", {"say": "Once."}), resume=sid)
    new = _said(scene, sid) - imported
    words = [text.partition(" @@")[0] for role, _, text in new if role != "system"]
    assert sorted(words) == ["Once.", "once more"]


def test_a_turn_is_kept_as_passages(scene: CodexScene) -> None:
    """Issue 7, Show it: the turn is kept; the rollout is read by the child of the Stop hook."""
    scene.install("--trust-hooks")
    sid = _talk(scene)
    paths = Paths({"HOME": str(scene.home)})
    ends = time.monotonic() + 60
    while len(kept := _kept(paths, sid)) < 5 and time.monotonic() < ends:
        time.sleep(0.1)
    assert [text.partition(" @@")[0] for text in kept] == [
        "user: the staging host is heron-42",
        "assistant used: exec_command: echo heron",
        "assistant: The notes name it too.",
        "user: and which port does it use?",
        "assistant: It listens on port 5432.",
    ]


def _kept(paths: Paths, sid: str) -> list[str]:
    ledger = Ledger(paths, b"")
    try:
        if not ledger.exists():
            return []
        return [
            memory.text for bank, *_ in ledger.banks() for memory in ledger.of_session(bank, sid)
        ]
    finally:
        ledger.close()
