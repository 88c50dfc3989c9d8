"""The pages that describe the whole project say what is so."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from openmem.cli.app import run

CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
PACKAGES = sorted(p.parent.name for p in (CHECKOUT / "openmem").glob("*/__init__.py"))


def _commands(page: str) -> list[str]:
    """The indented lines of a page, which are commands."""
    return [line.strip() for line in page.splitlines() if re.match(r" {4}\S", line)]


def test_the_second_command_of_the_readme_is_what_ci_runs() -> None:
    """Issue 2, part 1: `.ci/run` → the README's test command."""
    text = (CHECKOUT / "README.md").read_text()
    section = text.split("## Two commands")[1].split("\n## ")[0]
    commands = _commands(section)
    assert commands[0] == "pipx install . && openmem setup --yes"
    assert commands[-1] == "bash .ci/run"
    script = CHECKOUT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "set -euo pipefail" in script.read_text()


def test_architecture_names_every_package_and_no_other() -> None:
    """Issue 2, part 1: docs with architecture.md; ours: held by a test."""
    text = (CHECKOUT / "docs/architecture.md").read_text()
    table = text.split("| floor |")[1].split("\n\n")[0]
    assert sorted(set(re.findall(r"`([a-z_]+)/`", table))) == PACKAGES


def test_the_floors_of_the_page_are_those_of_the_contract() -> None:
    """Design, section 3: import-linter contracts hold the floors."""
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    wanted = {
        name.strip().removeprefix("openmem."): 5 - at
        for at, layer in enumerate(contract)
        for name in re.split(r"[:|]", layer)
    }
    text = (CHECKOUT / "docs/architecture.md").read_text()
    shown = {
        name: int(floor)
        for floor, names in re.findall(r"^\| (\d) \| ([^|]+)\|", text, re.MULTILINE)
        for name in re.findall(r"`([a-z_]+)/`", names)
    }
    assert shown == wanted


def test_invariants_fit_two_screens_and_name_tests_that_exist() -> None:
    """Issue 2, part 1: invariants.md under two screens."""
    text = (CHECKOUT / "docs/invariants.md").read_text()
    lines = text.splitlines()
    assert len(lines) <= 2 * 40 and max(map(len, lines)) <= 84
    for name in set(re.findall(r"`(tests/[a-z0-9_./]+)`", text)):
        path = CHECKOUT / name
        assert path.is_file() or list(path.glob("test_*.py")), name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(CHECKOUT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """House style: a change without its page is not finished."""
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_command_of_the_readme_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """House style, docs: say what is true today."""
    text = (CHECKOUT / "README.md").read_text()
    lines = [line.split("#")[0] for line in _commands(text)]
    commands = {part.strip() for line in lines for part in line.split("&&")}
    commands |= set(re.findall(r"`(openmem [^`…]+?)`", text))
    ours = sorted(c for c in commands if c.startswith("openmem "))
    assert len(ours) > 8
    for line in ours:
        words = shlex.split(line)[1:]
        names = list(itertools.takewhile(lambda word: re.fullmatch(r"[a-z-]+", word), words))
        flags = [word for word in words if word.startswith("--")]
        assert run([*names[:2], "--help"]) == 0 or run([*names[:1], "--help"]) == 0, line
        shown = capsys.readouterr().out
        for flag in flags:
            assert flag in shown, line
