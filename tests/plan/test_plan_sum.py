"""What two plans come to together."""

from __future__ import annotations

from openmem.plan.action import ABSENT, Left, Plan, WriteFile


def write(data: bytes, before: str = ABSENT) -> Plan:
    return Plan(actions=(WriteFile(path="/x", before=before, data=data, why="w"),))


def test_a_write_that_both_plans_hold_is_done_once() -> None:
    """Ours: agents share their launchers; the second write would meet what the first one left."""
    assert (write(b"a") + write(b"a")).actions == write(b"a").actions


def test_two_writes_that_differ_are_both_kept() -> None:
    """The other way: which of them is right is not the sum's to say."""
    assert len((write(b"a") + write(b"b")).actions) == 2


def test_what_both_plans_leave_is_said_once() -> None:
    """Ours: uninstall named a folder of Codex's twice."""
    plan = Plan(left=(Left(path="/x", why="it holds files of others"),))
    assert (plan + plan).left == plan.left
