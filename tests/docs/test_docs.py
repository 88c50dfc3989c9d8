"""The docs say what the program does: every command in them exists, every command is in them."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from openmem.base.errors import EXIT_CODES
from tests.docs.reference import DOCS, commands, options_of, remade

ROOT = DOCS.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
MADE = [page for page in PAGES if "<!-- made from " in page.read_text(encoding="utf-8")]
COMMANDS: dict[str, Any] = dict(commands())
GROUPS = {path.split(" ", 1)[0] for path in COMMANDS if " " in path}
# Words that stand for something else in the docs: FILE, NAME, AGENT, …
_PLACEHOLDER = re.compile(r"^[A-Z][A-Z_]*$")


def named(page: Path) -> list[str]:
    """Return the command lines a page names: in code blocks and between backticks."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"`openmem [^`]*`\)? is not there yet", "", text)
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            for part in re.split(r"&&|\||;", line.split("#", 1)[0]):
                found += [part.strip()] if part.strip().startswith("openmem ") else []
    found += [" ".join(inline.split()) for inline in re.findall(r"`(openmem [^`]+)`", text)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_a_page_names_exists(page: Path) -> None:
    """House style, Docs: say what is true today."""
    for line in named(page):
        words = shlex.split(line.rstrip("…. "))[1:]
        if words[:1] and words[0].startswith("-"):
            assert words[0] in ("--version", "--help", "--install-completion"), line
            continue
        if words == ["…"] or not words or _PLACEHOLDER.match(words[0]) or words[0] == "COMMAND":
            continue
        name = words[0]
        if name in GROUPS and len(words) > 1:
            if words[1] in ("…", "*") or "|" in words[1]:
                continue
            name = f"{words[0]} {words[1]}"
        elif name in GROUPS:
            continue
        assert name in COMMANDS, f"{page.name}: {line}"
        known = {"--help", "-h"}
        for option in options_of(COMMANDS[name]):
            known |= {*option.opts, *option.secondary_opts}
        for word in words[1:]:
            if word.startswith("-") and word not in ("-", "--"):
                assert word.split("=")[0] in known, f"{page.name}: {line}"


@pytest.mark.parametrize("page", MADE, ids=lambda page: page.name)
def test_the_reference_is_what_the_program_says(page: Path) -> None:
    """Design, section 5; issue 2, part 1: reference pages held by tests."""
    text = page.read_text(encoding="utf-8")
    wanted = remade(text)
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "run UPDATE_GOLDEN=1 pytest tests/docs and read the diff"


def test_every_made_part_is_in_the_docs() -> None:
    """Ours: a page that loses its mark would be held by nothing."""
    marks = {mark for page in MADE for mark in re.findall(r"made from (\w+)", page.read_text())}
    assert marks == {"commands", "settings", "exits", "questions"}


def test_every_exit_code_is_explained() -> None:
    """Design, section 5."""
    text = (DOCS / "reference/exit-codes.md").read_text()
    assert all(f"| {code} |" in text for code in EXIT_CODES)


def test_every_tool_of_the_mcp_server_is_in_the_reference() -> None:
    """Issue 2, part 1."""
    from openmem.mcp.context_tools import context_tools

    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    names = [tool.name for tool in context_tools(os.environ)]
    assert names and all(f"`{name}`" in text for name in names)


def test_links_between_pages_lead_somewhere() -> None:
    """Ours."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://")):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Ours: a page nobody is led to is not read."""
    reached = {ROOT / "README.md"}
    pending = [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        for target in re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", page.read_text()):
            found = (page.parent / target).resolve()
            if found not in reached and found.exists():
                reached.add(found)
                pending.append(found)
    lost = [str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md") if page not in reached]
    assert lost == []
