"""A real session of OpenCode, by the proxy and by its database: it is stored once."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.opencode import needs_opencode
from tests.fakes.opencode_scene import OpenCodeScene, an_opencode_scene
from tests.fakes.script import play

pytestmark = [pytest.mark.timeout(600), needs_opencode]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[OpenCodeScene]:
    with an_opencode_scene(tmp_path) as made:
        yield made


def _said(scene: OpenCodeScene, sid: str) -> Counter[tuple[str, str, str]]:
    return Counter(
        (row["role"], row["kind"], row["text"])
        for row in scene.rows(sid)
        if row["role"] != "system" and row["source"] is None
    )


def _import(scene: OpenCodeScene) -> dict[str, Any]:
    data: dict[str, Any] = scene.data("context", "import", "--agent", "opencode")
    return data


def test_the_same_session_by_proxy_and_by_database_is_stored_once(scene: OpenCodeScene) -> None:
    """Issue 7, part 5: in both orders, with two calls in one step, a sub-agent and a resume."""
    scene.install("--agent", "opencode")

    def call(tool: str, **given: Any) -> dict[str, Any]:
        return {"name": tool, "input": given}

    both = [call("bash", command=f"echo {word}", description="d") for word in ("a", "b")]
    task = call("task", description="count", prompt=play("count things", {"say": "Counted."}),
                subagent_type="general")  # fmt: skip
    first = play("begin", {"think": "two", "say": "Both.", "calls": both}, {"call": task},
                 {"say": "Begun."})  # fmt: skip
    sid = scene.run(first).session_id
    scene.run(play("and go on", {"say": "Gone on."}), resume=sid)
    before = _said(scene, sid)
    report = _import(scene)
    assert _said(scene, sid) == before
    assert report["added"] == 0 and report["known"] > 8
    shutil.rmtree(scene.state / "context")
    _import(scene)
    imported = _said(scene, sid)
    assert not before - imported
    scene.run(play("once more", {"say": "Once."}), resume=sid)
    new = _said(scene, sid) - imported
    assert sorted(text.partition(" @@")[0] for _, _, text in new) == ["Once.", "once more"]
