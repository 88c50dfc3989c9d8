"""Which bank a workspace has as it is moved, renamed, cloned and linked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from openmem.memory.facade import Memories
from openmem.memory.places import looks_moved_from, read_places
from tests.memory.conftest import Place, repository


def git(folder: Path, *words: str) -> None:
    name = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)


def hint(place: Place, folder: Path) -> str:
    scope = place.person(folder)
    return looks_moved_from(place.paths, scope.workspace, scope.bank)


def test_worktree_clone_and_subfolder_join_and_a_submodule_is_its_own(
    place: Place, memories: Memories, home: Path
) -> None:
    """Users' report 30."""
    site = place.site
    (site / "a").mkdir()
    (site / "a" / "x.txt").write_text("x")
    git(site, "add", ".")
    git(site, "commit", "-qm", "one")
    git(place.other, "commit", "--allow-empty", "-qm", "one")
    git(site, "worktree", "add", "-q", str(home / "elsewhere"), "-b", "topic")
    clone = repository(home / "clone", "https://github.com/acme/site")
    git(site, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(place.other), "sub")
    bank = place.person(site).bank
    assert bank == "github.com/acme/site"
    for folder in (site / "a", home / "elsewhere", clone):
        assert place.person(folder).bank == bank
    assert place.person(site / "sub").bank != bank
    plain = home / "a" / "api"
    plain.mkdir(parents=True)
    other = home / "b" / "api"
    other.mkdir(parents=True)
    assert place.person(plain).bank != place.person(other).bank


def test_a_renamed_folder_without_a_remote_is_recognised(
    place: Place, memories: Memories, home: Path
) -> None:
    """Users' report 31: renamed or moved, memory orphaned silently."""
    repo = home / "before"
    repo.mkdir()
    git(repo, "init", "-q")
    memories.add(place.person(repo), "Deploys need the VPN.")
    old = place.person(repo).bank
    assert hint(place, repo) == ""
    shutil.move(repo, home / "after")
    assert place.person(home / "after").bank != old
    assert hint(place, home / "after") == old
    repository(home / "third", "git@github.com:acme/third.git")
    assert hint(place, home / "third") == ""


def test_a_changed_remote_is_recognised(place: Place, memories: Memories) -> None:
    """Users' report 31: an organisation was renamed; ssh to https is the same anyway."""
    memories.add(place.person(), "Deploys need the VPN.")
    git(place.site, "remote", "set-url", "origin", "https://github.com/acme/site.git")
    assert hint(place, place.site) == "" and place.person().bank == "github.com/acme/site"
    git(place.site, "remote", "set-url", "origin", "https://github.com/newname/site.git")
    assert place.person().bank == "github.com/newname/site"
    assert hint(place, place.site) == "github.com/acme/site"


def test_a_place_is_noted_once_and_damage_costs_only_the_hint(
    place: Place, memories: Memories
) -> None:
    """Ours."""
    memories.add(place.person(), "Deploys need the VPN.")
    memories.add(place.person(), "Deploys take an hour.")
    assert [one.bank for one in read_places(place.paths)] == ["github.com/acme/site"]
    path = Path(place.paths.state_dir, "memory", "places.json")
    for text in ("", "{", "[1]", '[{"bank": 1}]'):
        path.write_text(text)
        assert read_places(place.paths) == []
