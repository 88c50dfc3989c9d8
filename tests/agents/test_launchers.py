"""The stored command runs our file, whatever its folder is called, and fails open without us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openmem.agents.launchers import (
    HOOK,
    MCP,
    hook_command,
    launcher_path,
    plan_launchers,
    rendered,
)
from openmem.base.assets import asset_path
from openmem.base.errors import Refused
from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.apply import apply
from openmem.plan.system import RealSystem

ODD = ["First Last", 'we"ird', "$(id)", "it's", "back\\slash", "`id`", "a;b&c|d", "$HOME", "ü", "*"]


def _paths(root: Path) -> Paths:
    return Paths({"HOME": str(root)})


def _install(paths: Paths) -> None:
    system = RealSystem({"HOME": paths.home})
    apply(Plan(actions=tuple(plan_launchers(system, paths, (HOOK, MCP)))), system, paths, label="t")


def _probe(folder: Path, name: str, text: str) -> str:
    program = folder / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize("name", ODD)
def test_the_stored_command_runs_our_file_and_nothing_else(tmp_path: Path, name: str) -> None:
    """Users' report 11: blanks, quotes, backslashes and $(…) in an installation's path."""
    paths = _paths(tmp_path / name)
    _probe(Path(launcher_path(paths, HOOK)).parent, HOOK, '#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    done = subprocess.run(
        ["/bin/sh", "-c", hook_command(paths, "stop", "claude-code")],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        launcher_path(paths, HOOK),
        "stop",
        "--agent",
        "claude-code",
    ]
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "home") == [name]


@pytest.mark.parametrize("name", ODD)
def test_an_installation_in_an_odd_folder_starts(tmp_path: Path, name: str) -> None:
    """Users' report 11: the script names interpreter and package by paths that need quoting."""
    paths = _paths(tmp_path / name)
    package = tmp_path / name / "lib"
    _probe(package, "openmem/hook/client.py", "")
    python = _probe(
        tmp_path / name, "python", '#!/bin/sh\nprintf "%s\\n" "$5" "$OPENMEM_STATE_DIR"\n'
    )
    script = tmp_path / name / "openmem-hook"
    script.write_bytes(rendered(HOOK, paths, python=python, root=str(package)))
    script.chmod(0o700)
    done = subprocess.run([script, "stop"], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines() == [str(package), paths.state_dir]


def test_the_launcher_runs_this_installation(tmp_path: Path) -> None:
    """Issue 2 part 6: launchers with an absolute interpreter; only `sh` is needed on PATH."""
    paths = _paths(tmp_path / "a home")
    _install(paths)
    command = hook_command(paths, "prompt", "claude-code")
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=b"junk",
        capture_output=True,
        env={"PATH": "/nowhere", "HOME": "/nowhere"},
        cwd=tmp_path,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # It looked at the state folder that it was written for, not at the one of HOME.
    assert "stdin is not a JSON object" in Path(paths.logs_dir, "hook.log").read_text()


@pytest.mark.parametrize("gone", ["interpreter", "package"])
def test_without_its_installation_the_launcher_takes_the_one_on_path(
    tmp_path: Path, gone: str
) -> None:
    """Issue 2 part 6: PATH fallback, as after an upgrade to another Python."""
    paths = _paths(tmp_path)
    lost = {"python": "/no/python"} if gone == "interpreter" else {"root": "/no/root"}
    script = tmp_path / "launcher"
    script.write_bytes(rendered(HOOK, paths, **lost))
    script.chmod(0o700)
    _probe(tmp_path / "bin", HOOK, '#!/bin/sh\necho "on path: $*"\n')
    done = subprocess.run(
        [script, "stop", "--agent", "claude-code"],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"},
        timeout=30,
        check=True,
    )
    assert done.stdout == "on path: stop --agent claude-code\n"


def test_without_any_installation_a_hook_ends_well_and_says_nothing(tmp_path: Path) -> None:
    """Design 4: hooks fail open; a removed package must not show an error on every prompt."""
    paths = _paths(tmp_path)
    script = tmp_path / "bin" / HOOK
    script.parent.mkdir()
    script.write_bytes(rendered(HOOK, paths, python="/no/python"))
    script.chmod(0o700)
    for path in ("/usr/bin:/bin", f"{script.parent}:/usr/bin:/bin"):  # it must not find itself
        done = subprocess.run(
            [script, "stop"], capture_output=True, env={"PATH": path}, timeout=30, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_without_any_installation_the_server_says_why(tmp_path: Path) -> None:
    """Ours: an MCP server that ends at once is shown to the person, so it may say why."""
    script = tmp_path / "launcher"
    script.write_bytes(rendered(MCP, _paths(tmp_path), python="/no/python"))
    script.chmod(0o700)
    done = subprocess.run(
        [script],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=30,
        check=False,
    )
    assert done.returncode == 127 and "not installed" in done.stderr


@pytest.mark.parametrize("name", [HOOK, MCP])
def test_a_launcher_is_valid_as_it_stands(name: str) -> None:
    """Design 3: `hooks/` holds scripts that a shell reads, and says what they are."""
    path = asset_path("hooks", name)
    done = subprocess.run(["/bin/sh", "-n", path], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.access(path, os.X_OK)
    assert f"# {name}: starts openmem's" in Path(path).read_text()


def test_installing_twice_is_installing_once(tmp_path: Path) -> None:
    """Design 4: plan(apply(plan)) is empty; the file is private and may be run."""
    paths = _paths(tmp_path)
    _install(paths)
    assert plan_launchers(RealSystem({"HOME": str(tmp_path)}), paths, (HOOK, MCP)) == []
    for name in (HOOK, MCP):
        path = Path(launcher_path(paths, name))
        assert path.stat().st_mode & 0o777 == 0o700
        assert sys.executable in path.read_text()


def test_a_path_that_no_shell_could_read_is_refused(tmp_path: Path) -> None:
    """Ours: bytes that are not UTF-8 cannot stand in a JSON file."""
    with pytest.raises(Refused):
        rendered(HOOK, Paths({"HOME": "/home/\udcff"}))
