"""Finding Claude Code: its program, version, files, and where its requests go now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from openmem.agents.base import AGENTS, Wanted
from openmem.agents.claude_code import detect as detection
from openmem.base.errors import Failed
from openmem.plan.system import MemorySystem, Ran
from tests.agents.conftest import CLAUDE, Person

PACKAGE = json.dumps({"name": "@anthropic-ai/claude-code", "version": "2.1.332"})
NPM = "/usr/lib/node_modules/@anthropic-ai/claude-code"


def _machine(files: dict[str, str], **more: object) -> MemorySystem:
    system = MemorySystem(files, **more)  # type: ignore[arg-type]
    for path in files:
        if path.endswith(("/claude", "claude.exe", "cli.js")) or "/versions/" in path:
            node = system.nodes[path]
            system.nodes[path] = type(node)(data=node.data, mode=0o755)
    return system


def _environ(path: str = "/usr/bin:/bin") -> dict[str, str]:
    return {"HOME": "/home/u", "PATH": path}


def test_nothing_of_it_is_not_found() -> None:
    """Issue 2, bad input: no Claude Code: setup goes on."""
    assert CLAUDE.detect(_machine({}), _environ()) is None


def test_a_folder_or_a_plain_file_of_that_name_is_no_program() -> None:
    """Ours: PATH holds what it holds."""
    system = MemorySystem({"/usr/bin/claude": "text", "/bin/claude/x": ""})
    assert CLAUDE.detect(system, _environ()) is None


@pytest.mark.parametrize(
    ("files", "links", "binary"),
    [
        (
            {f"{NPM}/bin/claude.exe": "", f"{NPM}/package.json": PACKAGE},
            {"/usr/bin/claude": f"{NPM}/bin/claude.exe"},
            "/usr/bin/claude",
        ),
        (
            {f"{NPM}/cli.js": "", f"{NPM}/package.json": PACKAGE},
            {"/bin/claude": f"{NPM}/cli.js"},
            "/bin/claude",
        ),
        (
            {"/home/u/.local/share/claude/versions/2.1.332": ""},
            {"/home/u/.local/bin/claude": "/home/u/.local/share/claude/versions/2.1.332"},
            "/home/u/.local/bin/claude",
        ),
    ],
)
def test_the_version_is_read_without_running_the_program(
    files: dict[str, str], links: dict[str, str], binary: str
) -> None:
    """Brief of step 1: cheap: the package or the file's own name tells; both installers."""
    system = _machine(files, links=links)
    found = CLAUDE.detect(system, _environ())
    assert found is not None
    assert (found.binary, found.version) == (binary, "2.1.332")
    assert system.ran == []


@pytest.mark.parametrize(
    ("ran", "version"),
    [
        (Ran(code=0, stdout="2.2.0 (Claude Code)\n"), "2.2.0"),
        (Ran(code=1, stdout="2.2.0"), ""),
        (Ran(code=0, stdout="?"), ""),
        (None, ""),
    ],
)
def test_else_the_program_says_it(ran: Ran | None, version: str) -> None:
    """Ours: a program of unknown packaging; one that hangs or fails is found without a version."""

    def program(argv: Sequence[str]) -> Ran:
        assert list(argv) == ["/usr/bin/claude", "--version"]
        if ran is None:
            raise Failed("did not end")
        return ran

    package = json.dumps({"name": "something-else", "version": "9.9.9"})
    system = _machine(
        {"/usr/bin/claude": "", "/usr/bin/package.json": package},
        programs={"/usr/bin/claude": program},
    )
    found = CLAUDE.detect(system, _environ())
    assert found is not None and found.version == version


def test_settings_without_a_program_are_found_too(person: Person) -> None:
    """Ours: an editor brings its own program and shares these files."""
    found = person.detect()
    assert (found.binary, found.version) == ("", "")
    assert found.settings_file == str(person.settings)


@pytest.mark.parametrize(
    ("settings", "shell", "expected"),
    [
        (None, None, ("https://api.anthropic.com", "default")),
        (None, "https://gate.example/", ("https://gate.example", "environment")),
        ("https://own.example", "https://gate.example", ("https://own.example", "settings")),
        ("", "https://gate.example", ("https://gate.example", "environment")),
        ("http://127.0.0.1:8913/a/claude-code", None, ("", "settings")),
        (None, "http://127.0.0.1:8913/a/claude-code", ("https://api.anthropic.com", "default")),
        ("http://127.0.0.1:8787", None, ("http://127.0.0.1:8787", "settings")),
    ],
)
def test_the_address_in_force_is_the_upstream(
    person: Person, settings: str | None, shell: str | None, expected: tuple[str, str]
) -> None:
    """Issue 2 part 5: the base URL that was in force before us; the settings win over the shell.

    Setup run inside a session of Claude Code finds our own address in its environment: never that.
    """
    if settings is not None:
        person.write(person.settings, {"env": {"ANTHROPIC_BASE_URL": settings}})
    if shell is not None:
        person.environ["ANTHROPIC_BASE_URL"] = shell
    found = person.detect()
    assert (found.upstream, found.upstream_source) == expected


def test_both_files_are_judged(person: Person) -> None:
    """Issue 2 part 6: what keeps us from wiring is named with file and place."""
    person.write(person.settings, "{,}")
    person.write(person.state, '{"a": 1,}')
    problems = person.detect().problems
    assert len(problems) == 2
    assert "settings.json" in problems[0] and "line 1, column 2" in problems[0]
    assert ".claude.json" in problems[1] and "line 1" in problems[1]


def test_a_read_only_file_is_a_problem(person: Person) -> None:
    """Issue 2, bad input: not writable."""
    person.write(person.settings, "{}").chmod(0o444)
    (problem,) = person.detect().problems
    assert "not writable" in problem


def test_detection_changes_nothing(person: Person) -> None:
    """Design 5: a dry run changes no file."""
    before = person.tree()
    person.detect()
    assert person.tree() == before


def test_another_cloud_is_said(person: Person) -> None:
    """Ours: with Bedrock and its like the base URL is not used, so nothing is recorded."""
    person.write(person.settings, {"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}})
    (warning,) = person.detect().warnings
    assert "Amazon Bedrock" in warning
    person.write(person.settings, {"env": {"CLAUDE_CODE_USE_BEDROCK": "0"}})
    assert person.detect().warnings == ()


def test_hooks_that_are_switched_off_are_said(person: Person) -> None:
    """Ours: wiring that cannot work must not look as if it did."""
    person.write(person.settings, {"disableAllHooks": True})
    assert any("disableAllHooks" in warning for warning in person.detect().warnings)


def test_what_an_organisation_overrules_is_said(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: managed settings win over the person's."""
    managed = tmp_path / "managed-settings.json"
    monkeypatch.setattr(detection, "managed_settings", lambda: str(managed))
    managed.write_text(
        '{"env": {"ANTHROPIC_BASE_URL": "https://corp"}, "allowManagedHooksOnly": true}'
    )
    warnings = person.detect().warnings
    assert len(warnings) == 2 and all("managed-settings.json" in text for text in warnings)
    managed.write_text("not json")
    assert person.detect().warnings == ()


def test_the_notes_say_what_is_switched_off_and_whose_address_it_was(person: Person) -> None:
    """Issue 2 part 6: setup says in one screen what a base URL of its own switches off."""
    person.environ["ANTHROPIC_BASE_URL"] = "https://gate.example"
    found = person.detect()
    notes = CLAUDE.notes(found, Wanted())
    text = " ".join(notes)
    assert "remote control" in text and "tool loading on demand" in text
    assert "https://gate.example" in text and "your shell" in text
    assert "--allow-tools" in text
    assert CLAUDE.notes(found, Wanted(proxy=False, allow_tools=True)) == ()
    assert sum(len(note) // 76 + 1 for note in notes) <= 12


def test_the_registry_names_its_agents() -> None:
    """Brief: AGENTS, by the name that routes and flags use."""
    assert {name: agent.name for name, agent in AGENTS.items()} == {
        "claude-code": "claude-code",
        "codex": "codex",
        "opencode": "opencode",
        "cursor": "cursor",
    }
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
    assert AGENTS["claude-code"].events == events
