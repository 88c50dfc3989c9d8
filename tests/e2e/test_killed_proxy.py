"""The agent goes on when the proxy was killed; what was delivered whole is in the store."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN, Scene
from tests.fakes.script import play

pytestmark = [pytest.mark.timeout(300), needs_openmem]


@pytest.mark.real_agent
def test_with_worker_and_supervisor_killed_the_next_prompt_works(scene: Scene) -> None:
    """Issue 2, trial (b) and "Show it": both killed with SIGKILL."""
    scene.set_up()
    sid = scene.say(play("first", {"say": "One."})).session_id
    before = scene.proxy()
    assert before["running"]
    for name in ("supervisor_pid", "worker_pid"):
        os.kill(before[name], signal.SIGKILL)
    outcome = scene.say(play("second thoughts", {"say": "Two."}), "--resume", sid)
    assert outcome.result == "Two."
    after = scene.proxy()
    assert after["running"] and after["address"] == before["address"]
    assert after["supervisor_pid"] != before["supervisor_pid"]
    assert after["worker_pid"] != before["worker_pid"]
    assert len(scene.server.of(RUN)) == 2
    texts = [row["text"] for row in scene.rows(sid)]
    assert any(text.startswith("second thoughts") for text in texts)


@pytest.mark.real_agent
def test_a_proxy_killed_inside_a_turn_does_not_lose_the_turn(scene: Scene) -> None:
    """Design, section 7: a dead proxy must not strand the agent."""
    scene.set_up()
    pids = scene.proxy()
    kill = f"kill -9 {pids['worker_pid']} {pids['supervisor_pid']}"
    command = {"command": f"{kill}; echo gone", "description": "x"}
    steps = ({"call": {"name": "Bash", "input": command}}, {"say": "Still here."})
    prompt = play("a proxy dies now", *steps)
    first = scene.claude.run(prompt)
    # Within the turn no hook of ours runs, so the client may give up; the next prompt may not.
    assert first.status in (0, 1)
    again = scene.say(play("and now?", {"say": "Back."}), "--continue")
    assert again.result == "Back."
