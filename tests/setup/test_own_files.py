"""policy.toml and config.toml: made once, then edited in the person's own text."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from openmem.base.config import load_config
from openmem.base.errors import InvalidConfig, NotFound
from openmem.base.paths import Paths
from openmem.base.policy import decide, load_policy
from openmem.base.workspace import Workspace
from openmem.plan.action import Action, Plan
from openmem.plan.apply import apply
from openmem.plan.receipt import plan_undo
from openmem.plan.system import MemorySystem, RealSystem
from openmem.setup.own_files import (
    plan_config,
    plan_policy,
    plan_route,
    plan_rule,
    plan_setting,
    plan_unset,
)

GIT = Workspace(folder="/src/site", git_root="/src/site", remotes=("github.com/acme/site",))
OTHER = Workspace(folder="/srv/notes")


@pytest.fixture
def machine(home: Path) -> tuple[RealSystem, Paths]:
    return RealSystem(os.environ), Paths(os.environ)


def carry_out(machine: tuple[RealSystem, Paths], actions: list[Action]) -> None:
    apply(Plan(actions=tuple(actions)), *machine, label="test")


def test_a_new_policy_says_git_yes_and_everything_else_no(
    machine: tuple[RealSystem, Paths],
) -> None:
    """Issue 2: policy, git repositories yes, everything else no."""
    system, paths = machine
    carry_out(machine, plan_policy(system, paths, store_git=True, store_other=False))
    policy = load_policy(paths.policy_file, paths.home)
    assert policy.problem == ""
    assert decide(policy, GIT).store and decide(policy, GIT).recall and decide(policy, GIT).retain
    assert not decide(policy, OTHER).store and not decide(policy, None).store
    assert os.stat(paths.policy_file).st_mode & 0o777 == 0o600
    assert plan_policy(system, paths, store_git=True, store_other=False) == []


def test_an_existing_policy_is_kept_and_only_what_is_said_changes(
    machine: tuple[RealSystem, Paths],
) -> None:
    """Ours: the file belongs to the person once it exists."""
    system, paths = machine
    os.makedirs(paths.config_dir)
    text = "# mine\nversion = 1\n\n[defaults.git]\nstore = false # not yet\nrecall = true\n"
    Path(paths.policy_file).write_text(text)
    assert plan_policy(system, paths, store_git=None, store_other=None) == []
    carry_out(machine, plan_policy(system, paths, store_git=True, store_other=None))
    changed = Path(paths.policy_file).read_text()
    assert "# mine" in changed and "# not yet" in changed
    assert tomllib.loads(changed)["defaults"] == {
        "git": {"store": True, "recall": True, "retain": True}
    }
    carry_out(machine, list(plan_undo(system, paths).actions))
    assert Path(paths.policy_file).read_text() == text


@pytest.mark.parametrize("text", ["version = [", "version = 9", "version = 1\nsurprise = 1"])
def test_a_policy_that_cannot_be_used_is_refused_and_stays(
    machine: tuple[RealSystem, Paths], text: str
) -> None:
    """Issue 2, Bad input."""
    system, paths = machine
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(text)
    for plan in (
        lambda: plan_policy(system, paths, store_git=True, store_other=None),
        lambda: plan_rule(system, paths, path="/x", remote=None, uses={"store": True}, reason=""),
    ):
        with pytest.raises(InvalidConfig, match=r"policy\.toml.*Nothing was written"):
            plan()
    assert Path(paths.policy_file).read_text() == text


def test_a_rule_is_added_once_and_then_changed(machine: tuple[RealSystem, Paths]) -> None:
    """Issue 2, part 3: policy allow and deny."""
    system, paths = machine
    carry_out(machine, plan_policy(system, paths, store_git=True, store_other=False))

    def rule(uses: dict[str, bool], reason: str = "") -> list[Action]:
        return plan_rule(system, paths, path="/srv/notes", remote=None, uses=uses, reason=reason)

    carry_out(machine, rule({"store": True, "recall": True}))
    assert decide(load_policy(paths.policy_file, paths.home), OTHER).store
    carry_out(machine, rule({"store": False}, "client"))
    policy = load_policy(paths.policy_file, paths.home)
    assert len(policy.rules) == 1 and "client" in decide(policy, OTHER).reasons["store"]
    assert not decide(policy, OTHER).store and decide(policy, OTHER).recall
    assert rule({"store": False}) == []
    remote = plan_rule(
        system, paths, path=None, remote="github.com/acme/*", uses={"store": False}, reason=""
    )
    carry_out(machine, remote)
    assert not decide(load_policy(paths.policy_file, paths.home), GIT).store
    assert Path(paths.policy_file).read_text().startswith("# Who may be stored")


def test_a_rule_without_a_policy_makes_one_that_denies_all_else(
    machine: tuple[RealSystem, Paths],
) -> None:
    """Design, section 4: the gate fails closed; `policy allow` opens what it names only."""
    system, paths = machine
    odd = '/srv/my "notes"\\x'
    carry_out(
        machine,
        plan_rule(system, paths, path=odd, remote=None, uses={"store": True}, reason="ü"),
    )
    policy = load_policy(paths.policy_file, paths.home)
    assert policy.problem == "" and policy.rules[0].path == odd
    assert not decide(policy, GIT).store and decide(policy, Workspace(folder=odd)).store


def test_settings_are_stated_and_the_rest_of_the_file_stays(
    machine: tuple[RealSystem, Paths],
) -> None:
    """Users' reports 2 and 6, for our own file."""
    system, paths = machine
    os.makedirs(paths.config_dir)
    text = "# mine\n[proxy]\nenabled = false  # for now\n"
    Path(paths.config_file).write_text(text)
    os.chmod(paths.config_file, 0o640)
    values = {"provider": "local", "proxy.port": 8914, "proxy.enabled": True}
    routes = {"claude-code": "https://gateway.test"}

    def plan() -> list[Action]:
        return plan_config(system, paths, values=values, routes=routes, why="w")

    carry_out(machine, plan())
    assert plan() == []
    config = load_config(paths.config_file, {})
    assert config.number("proxy.port") == 8914 and config.flag("proxy.enabled")
    assert config.routes == routes
    changed = Path(paths.config_file).read_text()
    assert "# mine\n" in changed and "# for now" in changed
    assert os.stat(paths.config_file).st_mode & 0o777 == 0o640
    carry_out(machine, list(plan_undo(system, paths).actions))
    assert Path(paths.config_file).read_text() == text


def test_a_setting_can_be_stated_and_taken_out(machine: tuple[RealSystem, Paths]) -> None:
    """Issue 2, part 8: config set."""
    system, paths = machine
    carry_out(machine, plan_setting(system, paths, "proxy.port", 9001))
    carry_out(machine, plan_route(system, paths, "claude-code", "https://x.test"))
    assert load_config(paths.config_file, {}).number("proxy.port") == 9001
    assert os.stat(paths.config_file).st_mode & 0o777 == 0o600
    carry_out(machine, plan_unset(system, paths, "proxy.port"))
    config = load_config(paths.config_file, {})
    assert config.number("proxy.port") == 8913 and config.routes
    with pytest.raises(NotFound, match=r"proxy\.port"):
        plan_unset(system, paths, "proxy.port")
    with pytest.raises(InvalidConfig, match=r"proxy\.port"):
        plan_setting(system, paths, "proxy.port", 70000)


def test_planning_writes_nothing(home: Path) -> None:
    """Design, section 5: a dry run changes no file."""
    system = MemorySystem({}, environ={"HOME": "/home/dev"})
    paths = Paths({"HOME": "/home/dev"})
    assert plan_policy(system, paths, store_git=True, store_other=False)
    assert plan_setting(system, paths, "proxy.port", 9001)
    assert list(home.iterdir()) == []
