"""One contract, three systems: the machine, a dry run over it, and memory."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmem.base.errors import Missing, OpenmemError, PlanConflict, Refused
from openmem.base.io import ABSENT, digest_of, write_atomic
from openmem.plan.system import DryRunSystem, MemorySystem, Ran, RealSystem, System
from openmem.plan.system.memory import Node


@dataclass
class Machine:
    """A system under test. `root`: an empty folder in it."""

    system: System
    root: str
    file: Callable[[str, bytes, int], None]
    link: Callable[[str, str], None]


def _snapshot(folder: Path) -> list[tuple[str, int, bytes]]:
    found = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found.append((str(path), path.lstat().st_mode, data))
    return found


@pytest.fixture(params=["real", "dry-run", "memory"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    root = tmp_path / "machine"
    root.mkdir()

    def real_file(name: str, data: bytes, mode: int) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)

    def real_link(name: str, target: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)

    if request.param == "memory":
        memory = MemorySystem(
            {f"{root}/.keep": b""},
            programs={sys.executable: lambda argv: Ran(code=0, stdout="hi\n")},
        )
        memory.remove(f"{root}/.keep")

        def memory_file(name: str, data: bytes, mode: int) -> None:
            made = MemorySystem({f"{root}/{name}": data})
            memory.nodes = {**made.nodes, **memory.nodes, **{p: made.nodes[p] for p in made.files}}
            memory.nodes[f"{root}/{name}"] = Node(data=data, mode=mode)

        def memory_link(name: str, target: str) -> None:
            made = MemorySystem(links={f"{root}/{name}": target})
            memory.nodes = {**made.nodes, **memory.nodes}

        yield Machine(memory, str(root), memory_file, memory_link)
        return
    real = RealSystem(os.environ)
    system: System = real if request.param == "real" else DryRunSystem(real)
    under_test = Machine(system, str(root), real_file, real_link)
    setup_done: list[list[tuple[str, int, bytes]]] = []
    under_test.file = _noting(real_file, root, setup_done)
    under_test.link = _noting(real_link, root, setup_done)
    before = _snapshot(root)
    yield under_test
    if request.param == "dry-run":
        assert _snapshot(root) == (setup_done[-1] if setup_done else before)


def _noting(
    act: Callable[..., None], root: Path, done: list[list[tuple[str, int, bytes]]]
) -> Callable[..., None]:
    def noted(*args: object) -> None:
        act(*args)
        done.append(_snapshot(root))

    return noted


def test_nothing_is_read_as_none(machine: Machine) -> None:
    """Design, section 4: System."""
    system, root = machine.system, machine.root
    assert system.read(f"{root}/none") is None
    assert system.read(f"{root}/no/such/folder") is None
    assert system.stat(f"{root}/none") is None
    assert system.list(f"{root}/none") == []


def test_a_file_written_is_read_back_with_its_mode(machine: Machine) -> None:
    """Design, section 6: files 600."""
    system, path = machine.system, f"{machine.root}/new"
    system.write(path, b"one", expect=ABSENT)
    assert system.read(path) == b"one"
    found = system.stat(path)
    assert found and (found.kind, found.mode, found.size) == ("file", 0o600, 3)
    system.write(path, b"two", mode=0o640, expect=digest_of(b"one"))
    found = system.stat(path)
    assert system.read(path) == b"two" and found and found.mode == 0o640
    assert system.list(machine.root) == ["new"]


def test_mode_is_kept(machine: Machine) -> None:
    """Issue 2, part 2: mode and owner kept."""
    machine.file("settings", b"old", 0o640)
    machine.system.write(f"{machine.root}/settings", b"new", expect=digest_of(b"old"))
    found = machine.system.stat(f"{machine.root}/settings")
    assert found and found.mode == 0o640


def test_a_write_expecting_something_else_is_a_conflict_and_changes_nothing(
    machine: Machine,
) -> None:
    """Design, section 4: differs from what is there at apply → refused, nothing written."""
    machine.file("f", b"there", 0o644)
    system, path = machine.system, f"{machine.root}/f"
    for expect, words in ((digest_of(b"other"), "changed"), (ABSENT, "made by somebody else")):
        with pytest.raises(PlanConflict, match=words):
            system.write(path, b"ours", expect=expect)
    with pytest.raises(PlanConflict):
        system.remove(path, expect=digest_of(b"other"))
    assert system.read(path) == b"there"
    with pytest.raises(PlanConflict, match="removed"):
        system.write(f"{machine.root}/gone", b"ours", expect=digest_of(b"was"))
    assert system.list(machine.root) == ["f"]


def test_a_link_is_kept_and_its_target_written(machine: Machine) -> None:
    """Facts, user row 5: link kept, target changed, mode 0600."""
    machine.file("dotfiles/settings.json", b"old", 0o600)
    machine.link(".claude/settings.json", "../dotfiles/settings.json")
    machine.link("linked", ".claude")
    system = machine.system
    path = f"{machine.root}/linked/settings.json"
    found = system.stat(path)
    assert found and found.is_link
    assert found.real_path == os.path.join(machine.root, "dotfiles/settings.json")
    system.write(path, b"new", expect=digest_of(b"old"))
    assert system.read(f"{machine.root}/dotfiles/settings.json") == b"new"
    again = system.stat(path)
    assert again and again.is_link and again.mode == 0o600
    with pytest.raises(Refused, match="link"):
        system.remove(path)


def test_a_dangling_link_is_refused(machine: Machine) -> None:
    """Issue 2, bad input: a dangling link: exit 4, its bytes unchanged."""
    machine.link("settings.json", "nowhere/settings.json")
    machine.link("loop", "loop")
    for name in ("settings.json", "loop"):
        path = f"{machine.root}/{name}"
        for act in (
            lambda p: machine.system.read(p),
            lambda p: machine.system.check_writable(p),
            lambda p: machine.system.write(p, b"x"),
        ):
            with pytest.raises(Refused) as caught:
                act(path)
            assert caught.value.code == "dangling-link" and caught.value.exit_status == 4
        found = machine.system.stat(path)
        assert found and found.kind == "dangling"


def test_a_folder_behind_a_dangling_link_is_refused(machine: Machine) -> None:
    """Issue 2, bad input."""
    machine.link(".claude", "nowhere")
    with pytest.raises(Refused):
        machine.system.check_writable(f"{machine.root}/.claude/settings.json")


def test_what_is_read_only_is_refused(machine: Machine) -> None:
    """Issue 2, bad input: not writable: exit 4, its bytes unchanged."""
    machine.file("locked/f", b"x", 0o444)
    path = f"{machine.root}/locked/f"
    for act in (
        lambda: machine.system.check_writable(path),
        lambda: machine.system.write(path, b"y"),
        lambda: machine.system.remove(path),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.code == "not-writable"
    assert machine.system.read(path) == b"x"


def test_a_folder_is_no_file(machine: Machine) -> None:
    """Ours."""
    machine.file("d/f", b"x", 0o644)
    with pytest.raises(Refused, match="folder"):
        machine.system.read(f"{machine.root}/d")
    with pytest.raises(Refused, match="folder"):
        machine.system.write(f"{machine.root}/d", b"x")
    with pytest.raises(Refused):
        machine.system.check_writable(f"{machine.root}/d/f/below")


def test_folders_are_made_one_at_a_time_and_removed_when_empty(machine: Machine) -> None:
    """Facts, users section 4: never remove a folder that is not empty."""
    system, root = machine.system, machine.root
    with pytest.raises(OpenmemError):
        system.make_dir(f"{root}/a/b")
    system.make_dir(f"{root}/a")
    system.make_dir(f"{root}/a/b", mode=0o755)
    system.make_dir(f"{root}/a/b")  # there already: nothing happens
    found = system.stat(f"{root}/a/b")
    assert found and (found.kind, found.mode) == ("dir", 0o755)
    system.write(f"{root}/a/b/f", b"x")
    assert not system.remove_dir(f"{root}/a/b")
    system.remove(f"{root}/a/b/f", expect=digest_of(b"x"))
    assert system.remove_dir(f"{root}/a/b") and system.remove_dir(f"{root}/a")
    assert not system.remove_dir(f"{root}/a")
    assert system.list(root) == []
    with pytest.raises(FileNotFoundError):
        system.write(f"{root}/a/f", b"x")


def test_a_file_in_the_way_of_a_folder_is_refused(machine: Machine) -> None:
    """Ours."""
    machine.file("f", b"x", 0o644)
    with pytest.raises(Refused):
        machine.system.make_dir(f"{machine.root}/f")


def test_mode_can_be_set(machine: Machine) -> None:
    """Ours: a change of mode alone is a write too."""
    machine.file("f", b"x", 0o644)
    machine.system.write(f"{machine.root}/f", b"x", mode=0o600, expect=digest_of(b"x"))
    found = machine.system.stat(f"{machine.root}/f")
    assert found and found.mode == 0o600 and machine.system.read(f"{machine.root}/f") == b"x"


def test_a_program_is_probed_and_one_that_is_missing_is_said(machine: Machine) -> None:
    """Design, section 4: run a command (with a probe that tells whether it is needed)."""
    ran = machine.system.probe([sys.executable, "-c", "print('hi')"])
    assert (ran.code, ran.stdout) == (0, "hi\n")
    with pytest.raises(Missing) as caught:
        machine.system.probe(["/no/such/program"])
    assert caught.value.exit_status == 6


def test_two_do_not_hold_one_lock(tmp_path: Path) -> None:
    """Ours: two installers at once."""
    import subprocess

    path = str(tmp_path / "lock")
    code = (
        "import sys\nfrom openmem.base.io import locked\nfrom openmem.base.errors import Failed\n"
        "try:\n    with locked(sys.argv[1], timeout_seconds=0.1): print('got')\n"
        "except Failed: print('taken')\n"
    )
    argv = [sys.executable, "-c", code, path]
    with RealSystem(os.environ).lock(path):
        taken = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    free = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    assert (taken.stdout, free.stdout) == ("taken\n", "got\n")


def test_a_full_disk_is_told_with_the_file_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """House style, Errors; the system's own fault at a full disk names a descriptor only."""
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "settings.json"
    path.write_bytes(b"before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    writes: tuple[Callable[[], None], ...] = (
        lambda: RealSystem(os.environ).write(str(path), b"after"),
        lambda: write_atomic(str(path), b"after"),
    )
    for write in writes:
        with pytest.raises(OSError, match="No space left") as caught:
            write()
        assert caught.value.filename == str(path)
        assert list(folder.iterdir()) == [path] and path.read_bytes() == b"before"
