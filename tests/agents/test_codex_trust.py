"""Trust in Codex's hooks: given only by a person's word, and only for what was shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.codex import ask_hooks, trust
from openmem.agents.codex.places import EVENTS, places_of
from openmem.agents.launchers import hook_command
from tests.fakes.codex import codex_binary, needs_codex
from tests.fakes.codex_person import CodexPerson, a_codex

# Seen with the real 0.171.0: hash of a handler without a matcher.
SEEN = {
    "SessionStart": (
        {"type": "command", "command": "/x/openmem-hook session-start --agent codex", "timeout": 5,
         "additionalContextLimit": 8000},
        "sha256:8ad88716c2aae5c26873a215c1ce0433d9bd0d6b773f1f9b71c3c0a3a65e66cc",
    ),
    "Stop": (
        {"type": "command", "command": "/x/openmem-hook stop --agent codex", "timeout": 5},
        "sha256:8b6d0ffb9209681dc4eb08cc921d6b566546a42d91803ab65b21602f3b1abe50",
    ),
}  # fmt: skip
# Stands in for Codex: an app-server that lists what it finds in its folder.
SERVER = r"""#!/bin/sh
[ "$1" = app-server ] || { echo "codex-cli 0.171.0"; exit 0; }
exec /usr/bin/env PYTHONPATH= python3 -c '
import hashlib, json, os, sys
spoil = os.path.dirname(sys.argv[1]) + "/spoil"
how = open(spoil).read() if os.path.exists(spoil) else ""
print(json.dumps({"method": "notice"}), flush=True)
for line in sys.stdin:
    told = json.loads(line)
    if told.get("method") != "hooks/list":
        continue
    if how == "silent":
        sys.exit(0)
    names = {"SessionStart": "session_start", "UserPromptSubmit": "user_prompt_submit",
             "PreToolUse": "pre_tool_use", "Stop": "stop"}
    found = json.load(open(os.environ["CODEX_HOME"] + "/hooks.json"))["hooks"]
    hooks = []
    for event, groups in found.items():
        handler = {"async": False, **groups[0]["hooks"][0]}
        text = json.dumps({"event_name": names[event], "hooks": [handler]}, sort_keys=True,
                          separators=(",", ":"))
        digest = "sha256:" + hashlib.sha256((text + how).encode()).hexdigest()
        hooks.append({"eventName": event[0].lower() + event[1:], "command": handler["command"],
                      "currentHash": digest})
    print(json.dumps({"id": 1, "result": {"data": [{"hooks": hooks}]}}), flush=True)
' "$0"
"""


def stand_in(folder: Path, how: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    program = folder / "codex"
    program.write_text(SERVER)
    program.chmod(0o755)
    if how:
        (folder / "spoil").write_text(how)
    return program


@pytest.fixture
def person(home: Path, tmp_path: Path) -> CodexPerson:
    person = a_codex(home)
    stand_in(tmp_path / "bin")
    person.environ["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return person


@pytest.mark.parametrize("event", SEEN)
def test_our_hash_is_the_one_that_codex_computes(event: str) -> None:
    """Facts 1.2, and a trial with 0.171.0."""
    value, wanted = SEEN[event]
    assert trust.hash_of(event, value) == wanted


def test_nothing_is_trusted_without_a_word(person: CodexPerson) -> None:
    """Issue 7 part 1: `--yes` alone wires them untrusted."""
    person.wire()
    assert person.wired().untrusted == tuple(EVENTS)
    assert "trusted_hash" not in person.config.read_text()


def test_a_word_trusts_exactly_our_hooks_and_says_what_they_run(person: CodexPerson) -> None:
    """Issue 7 part 1: only after the exact commands were shown, hash as check."""
    person.write(
        person.hooks, {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}
    )
    plan = person.wire(trust_hooks=True)
    assert person.wired().untrusted == ()
    state = person.settings()["hooks"]["state"]
    assert set(state) == {
        f"{person.hooks}:session_start:0:0",
        f"{person.hooks}:user_prompt_submit:0:0",
        f"{person.hooks}:pre_tool_use:0:0",
        f"{person.hooks}:stop:1:0",
    }
    (said,) = (warning for warning in plan.warnings if "without asking" in warning)
    for ours, _, _ in EVENTS.values():
        assert hook_command(person.paths, ours, "codex") in said
    assert person.plan(trust_hooks=True).is_empty
    assert person.plan().is_empty  # nothing said later keeps it


def test_taking_them_out_takes_the_trust_along(person: CodexPerson) -> None:
    """Issue 7: `uninstall` takes out only ours, to the byte; also trust that Codex wrote down."""
    before = person.tree()
    person.wire(trust_hooks=True)
    person.unwire()
    assert person.tree() == before
    person.wire()
    found = trust.our_hooks(places_of(person.detect()), json.loads(person.hooks.read_bytes()),
                            person.paths)  # fmt: skip
    text = person.config.read_text()
    for hook in found:
        text += f'\n[hooks.state."{hook.key}"]\ntrusted_hash = "{hook.hash}"\n'
    text += '\n[hooks.state."/somebody/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:aa"\n'
    person.write(person.config, text)
    assert person.wired().untrusted == ()
    person.unwire()
    assert list(person.settings()["hooks"]["state"]) == ["/somebody/hooks.json:stop:0:0"]


@pytest.mark.parametrize("how", ["silent", "another way to hash"])
def test_where_codex_does_not_agree_nothing_is_trusted(
    person: CodexPerson, tmp_path: Path, how: str
) -> None:
    """Ours: a newer Codex may hash more than we showed; then it is not ours to say."""
    stand_in(tmp_path / "bin", how)
    plan = person.wire(trust_hooks=True)
    assert person.wired().untrusted == tuple(EVENTS)
    assert any("/hooks" in warning for warning in plan.warnings)


def test_without_the_program_nothing_is_trusted(home: Path) -> None:
    """Ours: nobody could confirm it."""
    person = a_codex(home)
    plan = person.wire(trust_hooks=True)
    assert person.wired().untrusted == tuple(EVENTS)
    assert any("not found" in warning for warning in plan.warnings)


def test_a_hook_that_moved_or_was_changed_is_untrusted_again(person: CodexPerson) -> None:
    """Facts 1.2: trust is positional, and over every part of the handler."""
    person.wire(trust_hooks=True)
    document = json.loads(person.hooks.read_bytes())
    document["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "x"}]})
    person.write(person.hooks, document)
    assert person.wired().untrusted == ("Stop",)
    person.wire(trust_hooks=True)
    assert person.wired().untrusted == ()
    document["hooks"]["SessionStart"][0]["matcher"] = "startup"
    person.write(person.hooks, document)
    assert person.wired().untrusted == ("SessionStart",)


def test_a_hook_that_was_switched_off_counts_as_passed_over(person: CodexPerson) -> None:
    """Codex: `enabled = false` beside the hash."""
    person.wire(trust_hooks=True)
    text = person.config.read_text()
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if ":stop:" in line)
    lines.insert(at + 1, "enabled = false")
    person.write(person.config, "\n".join(lines))
    assert person.wired().untrusted == ("Stop",)


def test_asking_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: nothing of the person's is read or written, and no folder stays."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    program = stand_in(tmp_path / "bin")
    shown: dict[str, Any] = {"hooks": {"Stop": [{"hooks": [SEEN["Stop"][0]]}]}}
    assert ask_hooks.main([str(program), json.dumps(shown)]) == 0
    (hook,) = json.loads(capsys.readouterr().out)
    assert hook["currentHash"] == SEEN["Stop"][1]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert ask_hooks.main(["/bin/true", json.dumps(shown)]) == 1
    assert list((tmp_path / "tmp").iterdir()) == []


@needs_codex
def test_the_real_codex_agrees(home: Path) -> None:
    """Facts 1.2: through its own app-server, with nothing of the person's touched."""
    binary = codex_binary()
    assert binary is not None
    person = a_codex(home)
    person.environ["PATH"] = f"{Path(binary).parent}:{os.environ['PATH']}"
    before = person.tree()
    plan = person.plan(trust_hooks=True)
    assert person.tree() == before
    assert any("without asking" in warning for warning in plan.warnings)
    person.wire(trust_hooks=True)
    assert person.wired().untrusted == ()
