"""Answers become one plan, in a safe order; in memory, with no machine behind it."""

from __future__ import annotations

import pytest

from openmem.agents.agent import Detected
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.plan.action import Plan, RunCommand, WriteFile
from openmem.plan.system import MemorySystem
from openmem.setup.answers import gather
from openmem.setup.facts import Facts, KnownAgent
from openmem.setup.questions import Answer
from openmem.setup.resolve import Choice, decide, resolve

HOME = "/home/u"
CLAUDE = KnownAgent(
    name="claude-code",
    title="Claude Code",
    detected=Detected(
        name="claude-code",
        title="Claude Code",
        config_dir=f"{HOME}/.claude",
        settings_file=f"{HOME}/.claude/settings.json",
        mcp_file=f"{HOME}/.claude.json",
    ),
)
FACTS = Facts(agents=(CLAUDE,))


def choice_of(facts: Facts = FACTS, **flags: Answer) -> Choice:
    answered = gather(facts, flags=flags, file={}, ask=None, takes_defaults=True)
    return decide(facts, answered, free=answered.number("port"))


def planned(
    files: dict[str, str] | None = None, facts: Facts = FACTS, **flags: Answer
) -> tuple[Plan, MemorySystem]:
    system = MemorySystem(
        {f"{HOME}/.claude/settings.json": "{}", **(files or {})}, environ={"HOME": HOME}
    )
    plan = resolve(system, Paths({"HOME": HOME}), facts, choice_of(facts, **flags))
    return plan, system


def written(plan: Plan) -> list[str]:
    return [action.path for action in plan.actions if isinstance(action, WriteFile)]


def test_the_proxy_is_started_before_an_agent_is_sent_to_it() -> None:
    """Users' report 9: no agent at a closed door."""
    plan, _ = planned()
    kinds = [type(action) for action in plan.actions]
    started = kinds.index(RunCommand)
    agents = [
        number
        for number, action in enumerate(plan.actions)
        if isinstance(action, WriteFile) and action.path.endswith("settings.json")
    ]
    assert agents and all(number > started for number in agents)
    assert written(plan)[:2] == [
        f"{HOME}/.config/openmem/policy.toml",
        f"{HOME}/.config/openmem/config.toml",
    ]


def test_permissions_are_touched_only_on_a_word() -> None:
    """Issue 2, part 6: the permission entry only with --allow-tools or a yes."""
    assert choice_of().allow_tools is None
    assert choice_of(allow_tools=True).allow_tools is True
    assert choice_of(allow_tools=False).allow_tools is False
    plan, _ = planned()
    assert not any(b"permissions" in a.data for a in plan.actions if isinstance(a, WriteFile))
    plan, _ = planned(allow_tools=True)
    assert any(b"permissions" in a.data for a in plan.actions if isinstance(a, WriteFile))


def test_without_the_proxy_no_address_and_no_process() -> None:
    """Design, section 5: --no-proxy."""
    plan, _ = planned(proxy=False)
    assert not any(isinstance(action, RunCommand) for action in plan.actions)
    assert not any(b"BASE_URL" in a.data for a in plan.actions if isinstance(a, WriteFile))


def test_a_policy_that_exists_is_not_touched() -> None:
    """Ours: the file belongs to the person once it exists."""
    path = f"{HOME}/.config/openmem/policy.toml"
    facts = Facts(agents=(CLAUDE,), has_policy=True)
    plan, _ = planned({path: "version = 1\n"}, facts)
    assert path not in written(plan)
    plan, _ = planned({path: "version = 1\n"}, facts, store_git=True)
    assert path in written(plan)


def test_an_agent_left_out_is_not_planned() -> None:
    """Design, section 5: --without AGENT."""
    plan, _ = planned(agents=())
    assert not any(".claude" in path for path in written(plan))


def test_a_refusal_says_how_to_leave_the_agent_out() -> None:
    """screens.md, An error."""
    with pytest.raises(OpenmemError) as told:
        planned({f"{HOME}/.claude/settings.json": '{"a":}'})
    assert told.value.exit_status == 4
    assert "--without claude-code" in told.value.hint and "line 1" in told.value.message


def test_planning_changes_nothing() -> None:
    """Design, section 5: a dry run changes no file."""
    _, system = planned()
    assert system.read(f"{HOME}/.claude/settings.json") == b"{}" and system.ran == []
    assert system.stat(f"{HOME}/.config") is None
