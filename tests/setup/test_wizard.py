"""The wizard on a terminal: asks, can be left at every question, carries out what was answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from openmem.setup.provider_questions import PROVIDER_QUESTIONS
from openmem.setup.questions import BY_NAME, QUESTIONS
from tests.fakes.engine_socket import fake_engine
from tests.setup.conftest import USER_SETTINGS, Machine

pytestmark = pytest.mark.heavy

OF_A_PROVIDER = {question.name for question in PROVIDER_QUESTIONS}
# Asked where there is a service manager, and where there is Codex.
ELSEWHERE = {"service", "trust_hooks", "provider_plugin"}
ASKED = [q.ask for q in QUESTIONS if q.name not in OF_A_PROVIDER | ELSEWHERE]


@pytest.fixture
def terminal(machine: Machine) -> Iterator[pexpect.spawn]:
    """`openmem` alone on a terminal of 100 columns."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "openmem"],
        env=machine.environ(TERM="xterm", COLUMNS="100", LINES="60"),  # type: ignore[arg-type]
        cwd=str(machine.home),
        dimensions=(60, 100),
        encoding="utf-8",
        timeout=30,
    )
    yield child
    child.close(force=True)


def ended(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.wait()
    return int(child.exitstatus if child.exitstatus is not None else -1)


def expect(child: pexpect.spawn, words: str) -> None:
    child.expect_exact(words[:40])


@pytest.mark.parametrize("number", range(len(ASKED) + 1))
def test_ctrl_c_at_any_question_writes_nothing(
    machine: Machine, terminal: pexpect.spawn, number: int
) -> None:
    """Issue 2; copier's tests of prompts: each question is left by Ctrl-C."""
    before = machine.snapshot()
    for words in ASKED[:number]:
        expect(terminal, words)
        terminal.send("\r")
    expect(terminal, [*ASKED, "Write this?"][number])
    terminal.sendintr()
    assert ended(terminal) == 130
    assert machine.snapshot() == before


def test_a_no_at_the_end_writes_nothing(machine: Machine, terminal: pexpect.spawn) -> None:
    """Ours: the plan is shown before anybody agrees to it."""
    before = machine.snapshot()
    for words in ASKED:
        expect(terminal, words)
        terminal.send("\r")
    terminal.expect_exact("Nothing is written yet.")
    expect(terminal, "Write this?")
    terminal.send("n")
    assert ended(terminal) == 130
    assert machine.snapshot() == before


def test_what_was_answered_is_carried_out(machine: Machine, terminal: pexpect.spawn) -> None:
    """Ours: no hooks, tools allowed, a port typed over the default, other folders too."""
    for words in ASKED:
        expect(terminal, words)
        if "session hooks" in words:
            terminal.send("n")
        elif "without asking" in words or "every other folder" in words:
            terminal.send("y")
        elif "On which port" in words:
            terminal.send("\x15" + str(machine.port) + "\r")
        else:
            terminal.send("\r")
    expect(terminal, "Write this?")
    terminal.send("y")
    terminal.expect_exact("Then:  openmem context status", timeout=60)
    assert ended(terminal) == 0
    settings = machine.settings.read_text()
    assert "openmem-hook" not in settings and "mcp__openmem" in settings
    assert f":{machine.port}/a/claude-code" in settings
    explained = machine("policy", "explain", str(machine.home), "--json").data
    assert explained["decisions"]["store"]["allowed"] is True
    assert machine("undo", "--yes").status == 0
    assert machine.settings.read_text() == USER_SETTINGS


def test_a_wrong_port_is_asked_again(machine: Machine, terminal: pexpect.spawn) -> None:
    """Ours: a validator says what was expected."""
    for words in ASKED:
        expect(terminal, words)
        if "On which port" in words:
            break
        terminal.send("\r")
    terminal.send("\x15" + "99999\r")
    terminal.expect_exact("expected 1 to 65535")
    terminal.sendintr()
    assert ended(terminal) == 130


# What the wizard asks for a stack of openmem's own, and the keys that answer it.
OF_A_STACK = {
    "provider_url": "\r",
    "provider_port": "\r",
    "model_api": "\r",
    "model_url": "http://models.example/v1\r",
    "model": "m\r",
    "model_key_env": "\r",
    "model_key_file": "-\r",
    "embeddings": "\r",
}


@pytest.mark.parametrize(
    ("downs", "provider"), list(enumerate(["hindsight", "mem0", "cognee"], start=1))
)
def test_each_provider_is_asked_for_what_it_needs(
    machine: Machine, terminal: pexpect.spawn, downs: int, provider: str
) -> None:
    """Issue 6: the wizard through every provider; a key is typed unseen."""
    before = machine.snapshot()
    secret = "typed-key-0123456789abcdef"
    expect(terminal, BY_NAME["provider"].ask)
    terminal.send("\x1b[B" * downs + "\r")
    for name, keys in OF_A_STACK.items():
        expect(terminal, BY_NAME[name].ask)
        terminal.send(keys)
    if provider == "mem0":
        expect(terminal, BY_NAME["infer"].ask)
        terminal.send("\r")
    for words in ASKED[1:]:
        expect(terminal, words)
        terminal.send("\r")
    expect(terminal, "The model's key")
    terminal.send(secret + "\r")
    # There is no engine here: the plan is not even offered, and nothing is written.
    terminal.expect_exact("docker")
    assert ended(terminal) == 6
    assert secret not in str(terminal.before)
    assert machine.snapshot() == before


def test_planned_providers_are_shown_and_cannot_be_chosen(
    machine: Machine, terminal: pexpect.spawn
) -> None:
    """Issue 6, part 6: listed as planned."""
    before = machine.snapshot()
    expect(terminal, BY_NAME["provider"].ask)
    for name in ("graphiti", "letta", "zep"):
        terminal.expect_exact(f"{name} (planned)")
    # Up from the first comes the last that can be chosen, past those that cannot.
    terminal.send("\x1b[A\r")
    expect(terminal, BY_NAME["provider_url"].ask)
    assert "cognee" in str(terminal.before)
    terminal.sendintr()
    assert ended(terminal) == 130
    assert machine.snapshot() == before


@pytest.mark.parametrize("place", ["The model's key", "Write this?", "fetching"])
def test_ctrl_c_after_the_questions_writes_nothing(
    machine: Machine, tmp_path: Path, place: str
) -> None:
    """Issue 6: Ctrl-C at each question, at the key, at the plan, and while images are fetched."""
    with fake_engine(tmp_path / "engine") as fake:
        before = machine.snapshot()
        fake.change(is_slow=True)
        words = ["-m", "openmem", "setup", "--provider", "hindsight", "--model", "m"]
        words += ["--model-url", "http://models.example/v1", "--model-key-file", "-"]
        given = ("provider_url", "provider_port", "model_api", "embeddings")
        child = pexpect.spawn(
            sys.executable,
            words,
            env=machine.environ(  # type: ignore[arg-type]
                TERM="xterm",
                COLUMNS="100",
                LINES="60",
                PATH=f"{fake.bin}:/usr/bin:/bin",
                DOCKER_HOST=f"unix://{fake.socket}",
            ),
            cwd=str(machine.home),
            dimensions=(60, 100),
            encoding="utf-8",
            timeout=30,
        )
        try:
            for name in given:
                expect(child, BY_NAME[name].ask)
                child.send("\r")
            for asked in ASKED[1:]:
                expect(child, asked)
                child.send("\r")
            for words_of, keys in (("The model's key", "k-123\r"), ("Write this?", "y")):
                expect(child, words_of)
                if words_of == place:
                    break
                child.send(keys)
            else:
                child.expect_exact("fetching")
            child.sendintr()
            assert ended(child) == 130
        finally:
            child.close(force=True)
        assert machine.snapshot() == before and fake.commands() == []


@pytest.mark.parametrize("number", range(len(OF_A_STACK)))
def test_ctrl_c_at_any_question_of_a_provider_writes_nothing(
    machine: Machine, terminal: pexpect.spawn, number: int
) -> None:
    """Issue 6: Ctrl-C at each question (nothing written)."""
    before = machine.snapshot()
    expect(terminal, BY_NAME["provider"].ask)
    terminal.send("\x1b[B\r")
    for name, keys in list(OF_A_STACK.items())[:number]:
        expect(terminal, BY_NAME[name].ask)
        terminal.send(keys)
    expect(terminal, BY_NAME[list(OF_A_STACK)[number]].ask)
    terminal.sendintr()
    assert ended(terminal) == 130
    assert machine.snapshot() == before
