"""Wiring Codex: what is written, what stays, and the way back to the byte."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from openmem.agents.base import Wanted
from openmem.agents.codex.places import (
    API,
    CHATGPT,
    CONTEXT_LIMIT,
    EVENTS,
    WITH_CONTEXT,
)
from openmem.agents.launchers import HOOK, MCP, hook_command, launcher_path
from openmem.base.errors import Refused, Unparseable
from openmem.plan.action import WriteFile
from tests.fakes.codex_person import CODEX, CONFIG, CUSTOM, CodexPerson, a_codex
from tests.fakes.toml_files import toml_files

URL = "http://127.0.0.1:8913/a/codex"
THEIRS: dict[str, Any] = {
    "hooks": {
        "SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "hello"}]}
        ],
        "PreToolUse": [{"hooks": [{"type": "command", "command": "look", "timeout": 3}]}],
    }
}


@pytest.fixture
def person(home: Path) -> CodexPerson:
    return a_codex(home)


def test_hooks_mcp_and_address_are_written_and_the_rest_stays(person: CodexPerson) -> None:
    """Issue 7 part 1."""
    person.wire()
    found = person.settings()
    assert found["openai_base_url"] == URL
    assert (found["model"], found["approval_policy"]) == ("gpt-6.2-sol", "on-request")
    assert found["projects"] == {"/work/app": {"trust_level": "trusted"}}
    assert found["mcp_servers"] == {
        "openmem": {
            "command": launcher_path(person.paths, MCP),
            "args": ["--stay"],
            "required": True,
            "startup_timeout_sec": 20,
        }
    }
    assert "# what I like\n" in person.config.read_text()
    for event, (ours, _, seconds) in EVENTS.items():
        (group,) = person.groups(event)
        (hook,) = group["hooks"]
        assert hook["command"] == hook_command(person.paths, ours, "codex")
        assert (hook["type"], hook["timeout"]) == ("command", seconds)
        assert hook.get("additionalContextLimit") == (
            CONTEXT_LIMIT if event in WITH_CONTEXT else None
        )
    wired = person.wired()
    assert (wired.hooks, wired.mcp, wired.port) == (tuple(EVENTS), True, 8913)
    assert wired.untrusted == tuple(EVENTS)  # the consent gate is not passed by itself
    assert "hooks" not in found


def test_wiring_twice_is_wiring_once(person: CodexPerson) -> None:
    """Design, section 4, Agent."""
    person.wire()
    before = person.tree()
    assert person.plan().is_empty
    assert person.wire(port=9001).actions and person.wired().port == 9001
    person.wire()
    assert person.tree() == before


def test_ours_are_appended_behind_hooks_of_others(person: CodexPerson) -> None:
    """Facts 1.2: trust is positional; a group put before another makes that one untrusted."""
    person.write(person.hooks, THEIRS)
    person.wire()
    first, second = person.groups("SessionStart")
    assert first == THEIRS["hooks"]["SessionStart"][0]
    assert HOOK in second["hooks"][0]["command"]
    theirs, guard = person.groups("PreToolUse")
    assert [theirs] == THEIRS["hooks"]["PreToolUse"]
    assert guard["hooks"][0]["command"].endswith("openmem-hook tool --agent codex")
    person.wire(port=9001)
    assert len(person.groups("SessionStart")) == 2


@pytest.mark.parametrize("how", ["undo", "uninstall", "unwire"])
@pytest.mark.parametrize("config", [CONFIG, CUSTOM, None, "", CONFIG.replace("\n", "\r\n")])
def test_the_way_back_gives_the_bytes_of_before(home: Path, how: str, config: str | None) -> None:
    """Design, section 4, Receipt; issue 7: uninstall byte-exact."""
    person = a_codex(home, config)
    if config is None:
        person.write(person.hooks, json.dumps(THEIRS))
    before = person.tree()
    person.wire(allow_tools=True)
    assert person.tree() != before
    getattr(person, how)()
    assert person.tree() == before
    if how == "unwire":
        assert not os.path.exists(launcher_path(person.paths, HOOK))


def test_a_provider_of_the_persons_keeps_its_name_and_keys(home: Path) -> None:
    """Issue 7 part 1: only `base_url` changes, the old value becomes the upstream."""
    person = a_codex(home, CUSTOM)
    detected = person.detect()
    assert (detected.upstream, detected.upstream_source) == ("https://gate.example/v1", "settings")
    person.wire()
    found = person.settings()
    assert "openai_base_url" not in found
    assert found["model_providers"]["gate"] == {
        "name": "Our gate",
        "base_url": URL,
        "env_key": "GATE_KEY",
        "query_params": {"api-version": "2026-01"},
    }
    assert "# keep this" in person.config.read_text()
    assert person.detect().upstream == ""  # already us
    person.wire(proxy=False)
    assert person.settings()["model_providers"]["gate"]["base_url"] == "https://gate.example/v1"


def test_a_provider_without_an_address_gets_one_and_loses_it_again(home: Path) -> None:
    """Config reference: without `base_url` a provider goes where the built-in one goes."""
    person = a_codex(home, 'model_provider = "gate"\n[model_providers.gate]\nname = "Gate"\n')
    before = person.config.read_bytes()
    person.wire(hooks=None, mcp=None)
    assert person.settings()["model_providers"]["gate"]["base_url"] == URL
    person.wire(hooks=None, mcp=None, proxy=False)
    assert person.config.read_bytes() == before


def test_another_provider_that_came_into_force_takes_the_address_along(home: Path) -> None:
    """Ours: the first one would go on to the second one's upstream otherwise."""
    person = a_codex(home, CUSTOM)
    person.wire(hooks=None, mcp=None)
    text = person.config.read_text().replace('model_provider = "gate"', 'model_provider = "lab"')
    text += '[model_providers.lab]\nname = "Lab"\nbase_url = "http://127.0.0.1:7/v1"\n'
    person.write(person.config, text)
    assert person.detect().upstream == "http://127.0.0.1:7/v1"
    assert person.wired().port == 0
    person.wire(hooks=None, mcp=None)
    found = person.settings()["model_providers"]
    assert found["lab"]["base_url"] == URL
    assert found["gate"]["base_url"] == "https://gate.example/v1"


def test_the_provider_of_the_profile_in_force_is_the_one_that_counts(home: Path) -> None:
    """Config reference: a profile may name another provider."""
    person = a_codex(home, f'profile = "work"\n{CUSTOM.splitlines()[2]}\n')
    text = CUSTOM.replace('model_provider = "gate"', 'profile = "work"')
    person.write(person.config, text + '[profiles.work]\nmodel_provider = "gate"\n')
    assert person.detect().upstream == "https://gate.example/v1"
    person.wire()
    assert person.settings()["model_providers"]["gate"]["base_url"] == URL
    other = text.replace('profile = "work"', "") + '[profiles.work]\nmodel_provider = "gate"\n'
    person.write(person.config, other)
    assert any('"work"' in warning for warning in person.detect().warnings)


def test_a_provider_that_cannot_be_routed_is_said_and_left(home: Path) -> None:
    """Ours: an address would not be used, so none is written and nobody is misled."""
    person = a_codex(home, 'model_provider = "amazon-bedrock"\n')
    assert any("Amazon Bedrock" in warning for warning in person.detect().warnings)
    person.wire()
    assert "8913" not in person.config.read_text()
    assert person.wired().hooks == tuple(EVENTS) and person.wired().port == 0


def test_approval_of_the_tools_is_the_persons_own(person: CodexPerson) -> None:
    """Issue 7 part 1: approval mode as the person chooses; nothing said, nothing written."""
    person.wire()
    server = person.settings()["mcp_servers"]["openmem"]
    assert "default_tools_approval_mode" not in server and not person.wired().allow_tools
    person.wire(hooks=None, proxy=None, allow_tools=True)
    server = person.settings()["mcp_servers"]["openmem"]
    assert server["default_tools_approval_mode"] == "approve"
    assert server["tools"] == {"memory_forget": {"approval_mode": "prompt"}}
    assert person.wired().allow_tools
    assert person.plan().is_empty  # nothing said keeps it
    person.wire(allow_tools=False)
    assert not person.wired().allow_tools


def test_what_a_person_added_to_our_table_is_kept(person: CodexPerson) -> None:
    """Users' report: an entry that was tuned by hand survives an upgrade."""
    person.wire()
    text = person.config.read_text().replace("required = true", "required = false")
    person.write(person.config, text)
    assert person.plan().is_empty
    person.wire(port=9001)
    assert person.settings()["mcp_servers"]["openmem"]["required"] is False


def test_a_server_of_another_program_is_named_and_comes_back(person: CodexPerson) -> None:
    """Ours: two entries cannot share a name; whose it was is said."""
    person.write(person.config, '[mcp_servers.openmem]\ncommand = "theirs"\n')
    before = person.tree()
    plan = person.wire()
    assert any("of another program" in warning for warning in plan.warnings)
    person.unwire()
    assert person.tree() == before


def test_unwiring_leaves_what_came_after(person: CodexPerson) -> None:
    """Users' report: Codex writes its own settings all day, a person edits hooks meanwhile."""
    person.wire()
    text = person.config.read_text() + '\n[projects."/work/new"]\ntrust_level = "trusted"\n'
    person.write(person.config, text)
    document = json.loads(person.hooks.read_bytes())
    document["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "bell"}]})
    person.write(person.hooks, document)
    person.unwire()
    assert (
        person.config.read_text() == CONFIG + '\n[projects."/work/new"]\ntrust_level = "trusted"\n'
    )
    assert json.loads(person.hooks.read_bytes())["hooks"] == {
        "Stop": [{"hooks": [{"type": "command", "command": "bell"}]}]
    }
    assert person.wired().is_empty


def test_unwiring_without_receipts_takes_out_what_carries_our_mark(person: CodexPerson) -> None:
    """Ours: wired by another HOME, or with the state folder lost."""
    person.write(person.hooks, THEIRS)
    person.wire()
    (person.home / ".local/share/openmem").rename(person.home / "gone")
    person.unwire(upstream="https://gate.example")
    assert person.settings()["openai_base_url"] == "https://gate.example"
    assert "mcp_servers" not in person.settings()
    assert json.loads(person.hooks.read_bytes()) == THEIRS
    person.wire(hooks=None, mcp=None)
    (person.home / ".local/share/openmem").rename(person.home / "gone too")
    person.unwire(upstream=API)
    assert "openai_base_url" not in person.settings()


@pytest.mark.parametrize(
    ("name", "data"),
    [("config.toml", 'model = "x\n'), ("config.toml", "a = 1\na = 2\n"),
     ("hooks.json", "{"), ("hooks.json", "[]"), ("hooks.json", '{"hooks": {},}')],
)  # fmt: skip
def test_a_file_that_codex_would_not_read_is_refused_with_its_place(
    person: CodexPerson, name: str, data: str
) -> None:
    """Issue 7, Bad input: exit 4 with the place named, nothing written."""
    path = person.write(person.folder / name, data)
    before = person.tree()
    assert any(name in problem for problem in person.detect().problems)
    with pytest.raises(Unparseable) as told:
        person.plan()
    assert str(path) in told.value.message
    assert person.tree() == before
    assert name in person.wired().problem


def test_codex_home_moves_the_whole_tree(home: Path, tmp_path: Path) -> None:
    """Codex: CODEX_HOME."""
    person = CodexPerson(
        home=home,
        environ={"HOME": str(home), "PATH": "/x", "CODEX_HOME": str(tmp_path / "moved")},
    )
    person.write(tmp_path / "moved/config.toml", CONFIG)
    person.wire()
    assert (tmp_path / "moved/hooks.json").exists() and not (home / ".codex").exists()


@pytest.mark.parametrize(
    ("login", "environ", "first"),
    [
        (None, {}, API),
        ({"auth_mode": "apikey", "OPENAI_API_KEY": "secret-word"}, {}, API),
        ({"auth_mode": "chatgpt", "tokens": {"access_token": "secret-word"}}, {}, CHATGPT),
        ({"OPENAI_API_KEY": None, "tokens": {"access_token": "secret-word"}}, {}, CHATGPT),
        ({"auth_mode": "chatgpt"}, {"CODEX_API_KEY": "secret-word"}, API),
        ("not json", {}, API),
    ],
)
def test_where_codex_goes_by_itself_follows_its_login(
    person: CodexPerson, login: object, environ: dict[str, str], first: str
) -> None:
    """Trial with 0.171.0: with an address of its own, a ChatGPT login is sent there too."""
    if login is not None:
        person.write(person.folder / "auth.json", login)
    person.environ |= environ
    detected = person.detect()
    assert (detected.defaults[0], detected.upstream) == (first, first)
    assert detected.upstream_source == "default"
    person.wire()
    assert "secret-word" not in repr(detected)
    state = person.home / ".local/share/openmem"
    assert not any(b"secret-word" in p.read_bytes() for p in state.rglob("*") if p.is_file())


def test_a_project_with_a_provider_of_its_own_is_named(person: CodexPerson, tmp_path: Path) -> None:
    """Ours: a project's settings win over the person's; that is said, not undone."""
    project = tmp_path / "project"
    person.write(project / ".codex/config.toml", 'model_provider = "other"\n')
    plan = person.plan(projects=(str(project),))
    assert any(str(project) in warning for warning in plan.warnings)
    assert all(str(project) not in a.path for a in plan.actions if isinstance(a, WriteFile))


def test_nothing_is_found_where_there_is_no_codex(home: Path) -> None:
    """Agent, detect: None, and no folder made."""
    person = a_codex(home, None)
    assert CODEX.detect(person.system, person.environ) is None
    assert list(home.iterdir()) == []


def test_the_version_is_read_from_the_package(person: CodexPerson, tmp_path: Path) -> None:
    """npm: `bin/codex` is a link into the package; the program need not be run for it."""
    package = tmp_path / "lib/node_modules/@openai/codex"
    script = person.write(package / "bin/codex.js", "#!/bin/sh\nexit 9\n")
    script.chmod(0o755)
    person.write(package / "package.json", {"name": "@openai/codex", "version": "0.171.0"})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").symlink_to(script)
    person.environ["PATH"] = str(tmp_path / "bin")
    detected = person.detect()
    assert (detected.version, detected.binary) == ("0.171.0", str(tmp_path / "bin/codex"))


def test_notes_say_that_untrusted_hooks_do_not_run(person: CodexPerson) -> None:
    """Issue 7 part 1: `--yes` alone wires them untrusted and says so."""
    detected = person.detect()
    assert any("--trust-hooks" in note for note in CODEX.notes(detected, Wanted()))
    trusted = CODEX.notes(detected, Wanted(trust_hooks=True))
    assert not any("--trust-hooks" in note for note in trusted)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=toml_files())
def test_any_settings_file_comes_back_to_the_byte(home: Path, text: bytes) -> None:
    """Issue 7, Show it: wiring property tests for each agent's file format."""
    person = a_codex(home)
    person.write(person.config, text)
    before = person.config.read_bytes()
    try:
        person.wire(hooks=None)
    except Refused:  # what we would write into is no table
        assert person.config.read_bytes() == before
        return
    assert person.plan(hooks=None).is_empty
    assert person.wired().mcp and person.wired().port == 8913
    person.unwire()
    assert person.config.read_bytes() == before
