"""Which bank a workspace has: one function for reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmem.base.policy import Policy, bank_of, load_policy, may_read_bank
from openmem.base.workspace import Workspace

HEAD = "version = 1\n[defaults.git]\nrecall = true\n"
SITE = Workspace(
    folder="/src/site/web",
    git_root="/src/site",
    common_dir="/src/site/.git",
    remotes=("github.com/acme/site",),
)


def policy_of(home: Path, text: str) -> Policy:
    path = home / "policy.toml"
    path.write_text(HEAD + text)
    return load_policy(str(path), str(home))


def test_without_a_link_the_bank_is_the_workspaces_own(home: Path) -> None:
    """Design, section 8."""
    assert bank_of(policy_of(home, ""), SITE) == "github.com/acme/site"


def test_the_most_specific_folder_decides_then_a_remote(home: Path) -> None:
    """Design, section 8: mappings in the settings override."""
    by_remote = '[[links]]\nremote = "github.com/acme/*"\nbank = "acme"\n'
    by_root = '[[links]]\npath = "/src/site"\nbank = "root"\n'
    by_folder = '[[links]]\npath = "/src/site/web"\nbank = "web"\n'
    assert bank_of(policy_of(home, by_remote), SITE) == "acme"
    assert bank_of(policy_of(home, by_remote + by_root), SITE) == "root"
    assert bank_of(policy_of(home, by_root + by_folder + by_remote), SITE) == "web"


def test_a_link_moves_what_may_be_read(home: Path) -> None:
    """Design, section 8: a model cannot name a bank that the policy does not grant."""
    policy = policy_of(home, '[[links]]\npath = "/src/site"\nbank = "other"\n')
    assert may_read_bank(policy, SITE, "other")
    assert not may_read_bank(policy, SITE, "github.com/acme/site")


def test_a_worktree_elsewhere_follows_the_link_of_its_repository(home: Path) -> None:
    """Users' report 30."""
    worktree = Workspace(
        folder="/tmp/w", git_root="/tmp/w", common_dir="/src/site/.git", remotes=()
    )
    policy = policy_of(home, '[[links]]\npath = "/src/site"\nbank = "other"\n')
    assert bank_of(policy, worktree) == "other"


@pytest.mark.parametrize(
    "link",
    [
        'path = "/x"',
        'bank = "b"',
        'path = "/x"\nremote = "y"\nbank = "b"',
        'path = "relative"\nbank = "b"',
        'path = "/x"\nbank = "two words"',
        'path = "/x"\nbank = "b"\nwhy = "?"',
        'path = "/x"\nbank = ""',
    ],
)
def test_a_link_that_cannot_be_used_denies_everything(home: Path, link: str) -> None:
    """Design, section 4: fails closed."""
    policy = policy_of(home, f"[[links]]\n{link}\n")
    assert "links[1]" in policy.problem or "not absolute" in policy.problem
