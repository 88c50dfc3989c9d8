"""The wheel as a person installs it: built, put into a fresh virtual environment and run there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.heavy, pytest.mark.timeout(600)]

# Installing needs the settings of pip that the machine gives; everything else is left out.
_ENVIRON = {
    name: value
    for name, value in os.environ.items()
    if name in ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE") or name.startswith("PIP_")
}


def _run(
    *command: str | Path, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        env=dict(_ENVIRON if environ is None else environ),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    environ = {**_ENVIRON, "HOME": str(folder)}
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, CHECKOUT)
    done = _run(*command, environ=environ)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh virtual environment with the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    environ = {**_ENVIRON, "HOME": str(folder.parent)}
    assert _run(sys.executable, "-m", "venv", folder, environ=environ).returncode == 0
    done = _run(folder / "bin/python", "-m", "pip", "install", "--quiet", wheel, environ=environ)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.fixture
def environ(tmp_path: Path, installed: Path) -> dict[str, str]:
    """An environment with a HOME of its own and nothing of the checkout."""
    home = tmp_path / "fresh-home"
    home.mkdir()
    path = f"{installed}:/usr/bin:/bin"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "NO_COLOR": "1"}


def test_the_wheel_holds_the_package_and_its_assets_and_no_tests(wheel: Path) -> None:
    """Issue 2, part 1: hooks/ and templates/ are force-included as openmem/_data."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.name.startswith("openmem_cli-")
    for folder in ("hooks", "templates"):
        shipped = {
            str(path.relative_to(CHECKOUT))
            for path in (CHECKOUT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        packed = {
            name.removeprefix("openmem/_data/") for name in names if f"_data/{folder}/" in name
        }
        assert packed == shipped
    assert not [name for name in names if name.split("/")[0] in ("tests", "docs", "hooks")]
    assert not [name for name in names if name.endswith(".pyc")]


def test_an_installed_command_finds_its_assets_and_their_modes(
    installed: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """Issue 2, part 1: found from an installation, launchers still executable."""
    script = (
        "import os, openmem\n"
        "from openmem.base.assets import asset_path\n"
        "print(os.path.dirname(openmem.__file__))\n"
        "for folder in ('hooks', 'templates'):\n"
        "    root = asset_path(folder)\n"
        "    for at, _, files in os.walk(root):\n"
        "        for name in files:\n"
        "            path = os.path.join(at, name)\n"
        "            print(folder + path[len(root):], int(os.access(path, os.X_OK)))\n"
    )
    done = _run(installed / "python", "-c", script, environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    package, *assets = done.stdout.splitlines()
    assert package.startswith(str(installed.parent))
    for line in assets:
        name, executable = line.rsplit(" ", 1)
        assert bool(int(executable)) is os.access(CHECKOUT / name, os.X_OK), name
    assert assets


def test_version_and_help_run_from_the_wheel(
    installed: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """Issue 2, part 1: one test installs the built wheel and runs from there."""
    version = _run(installed / "openmem", "--version", environ=environ, cwd=tmp_path)
    assert version.returncode == 0, version.stderr
    assert version.stdout.split()[-1][0].isdigit()
    shown = _run(installed / "openmem", "--help", environ=environ, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for command in ("setup", "undo", "uninstall", "context", "policy", "proxy", "doctor"):
        assert command in shown.stdout
    assert list(Path(environ["HOME"]).iterdir()) == []


def test_a_dry_run_of_setup_from_the_wheel_writes_nothing(
    installed: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """Design, section 5: a dry run changes no file."""
    command = (installed / "openmem", "setup", "--yes", "--dry-run")
    done = _run(*command, environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "policy.toml" in done.stdout + done.stderr
    assert list(Path(environ["HOME"]).iterdir()) == []


def test_the_hook_and_the_mcp_server_run_from_the_wheel(
    installed: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """Issue 2, parts 6 and 7: scripts of their own; a hook always exits 0."""
    hook = _run(
        installed / "openmem-hook", "stop", "--agent", "claude-code", environ=environ, cwd=tmp_path
    )
    assert hook.returncode == 0, hook.stderr
    assert hook.stdout == ""
    server = _run(installed / "openmem-mcp", environ=environ, cwd=tmp_path)
    assert server.returncode == 0, server.stderr  # standard input is at its end at once
