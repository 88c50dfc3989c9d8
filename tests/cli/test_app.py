"""The door itself: exit codes, the envelope, help, faults of ours. Run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from openmem.base.errors import Unparseable
from openmem.cli import app as door
from openmem.cli.envelope import Result


def openmem(*words: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openmem", *words],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        timeout=60,
        check=False,
    )


def commands() -> list[tuple[str, Any]]:
    found = []

    def walk(node: Any, words: str) -> None:
        for name, child in node.commands.items():
            path = f"{words} {name}".strip()
            if getattr(child, "commands", None):
                walk(child, path)
            elif not child.hidden:
                found.append((path, child))

    walk(typer.main.get_command(door.app), "")
    return found


@pytest.fixture
def one_command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace what `config path` does; returns a function that sets the body's act."""
    from openmem.cli.commands import config

    acts: list[Any] = []

    def act() -> Any:
        return acts[0]()

    monkeypatch.setattr(config, "_shown", lambda value: act())
    return acts.append


def test_without_a_terminal_openmem_alone_prints_help() -> None:
    """Design, section 5."""
    run = openmem()
    assert run.returncode == 0 and "Usage: openmem" in run.stdout and run.stderr == ""


def test_every_command_says_what_it_does_its_effect_and_an_example() -> None:
    """House style, CLI output; users' contract: an effect label in help."""
    for path, command in commands():
        text = command.help or ""
        assert text[0].isupper() and "Effect: " in text, path
        example = text.split("Example: ")[-1]
        assert example.startswith("openmem "), path
        assert door.command_words(example.split()[1:]) == path


@pytest.mark.timeout(900)  # every command once; seconds each where the machine is busy
def test_help_fits_eighty_columns() -> None:
    """House style, CLI output."""
    for path, _ in commands():
        run = [line for line in openmem(*path.split(), "--help").stdout.splitlines()]
        assert run and all(len(line) <= 80 for line in run), path


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["polcy"], "'policy'"),
        (["policy"], "show"),
        (["config", "get"], "argument"),
        (["config", "get", "proxy.prt"], "proxy.port"),
        (["config", "show", "--orgin"], "--origin"),
    ],
)
def test_wrong_words_are_exit_2_and_name_what_would_do(words: list[str], named: str) -> None:
    """Design, section 5, exit codes."""
    run = openmem(*words)
    assert run.returncode == 2 and run.stdout == ""
    assert run.stderr.startswith("openmem: ") and named in run.stderr


def test_json_is_one_envelope_on_stdout_and_nothing_else() -> None:
    """Issue 2, JSON that scripts may rely on."""
    run = openmem("config", "get", "proxy.port", "--json")
    assert json.loads(run.stdout) == {
        "schema": 1,
        "command": "config get",
        "status": "success",
        "exit_code": 0,
        "data": {"name": "proxy.port", "value": 8913, "origin": "default"},
        "errors": [],
    }


def test_json_of_an_error_holds_code_message_and_hint() -> None:
    """Issue 2, JSON that scripts may rely on."""
    run = openmem("config", "get", "prot", "--json")
    told = json.loads(run.stdout)
    assert run.returncode == told["exit_code"] == 2
    assert (told["status"], told["data"], told["command"]) == ("error", None, "config get")
    assert set(told["errors"][0]) == {"code", "message", "hint"}
    assert told["errors"][0]["code"] == "usage"


def test_an_error_of_ours_keeps_its_exit_status_message_and_hint(
    one_command: Any, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """screens.md, An error."""

    def act() -> None:
        raise Unparseable(f"{home}/x.json", "a value is missing", line=14, column=3, hint="Mend.")

    one_command(act)
    assert door.run(["config", "show"]) == 4
    told = capsys.readouterr()
    assert told.out == "" and "~/x.json does not parse (line 14, column 3: a" in told.err
    assert told.err.rstrip().endswith("Mend.")


def test_a_fault_of_ours_is_reported_without_content(
    one_command: Any, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """Design, section 5: 70, a report file is written."""

    def act() -> None:
        prompt = "sk-ant-api03-secret prompt"
        raise RuntimeError(prompt)

    one_command(act)
    assert door.run(["config", "show", "--json"]) == 70
    told = capsys.readouterr()
    assert json.loads(told.out)["errors"][0]["code"] == "internal"
    report = next((home / ".local/share/openmem/logs").glob("fault-*.txt"))
    text = report.read_text()
    assert "RuntimeError" in text and "command openmem config show" in text
    assert "test_app.py" in text
    for secret in ("sk-ant", "prompt"):
        assert secret not in text + told.err + told.out
    assert report.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_is_130(one_command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Design, section 5, exit codes."""

    def act() -> None:
        raise KeyboardInterrupt

    one_command(act)
    assert door.run(["config", "show"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_ctrl_c_before_the_commands_are_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, by a person who is quicker than the imports."""
    from openmem import __main__

    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(door, "run", interrupted)
    assert __main__.main(["status"]) == 130
    assert capsys.readouterr().err == "openmem: interrupted.\n"


def test_ctrl_c_after_everything_was_written_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Design, section 4: what was done is never left to be guessed."""
    from openmem.setup import proof

    def interrupted(_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(proof, "prove_policy", interrupted)
    assert door.run(["setup", "--yes", "--no-proxy"]) == 130
    told = " ".join(capsys.readouterr().err.split())
    assert "everything is set up. Checks: openmem doctor. Back: openmem undo" in told
    assert (home / ".config/openmem/policy.toml").exists()


def test_a_full_disk_is_told_by_place_and_is_not_a_fault_of_ours(
    one_command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """House style, Errors."""

    def act() -> None:
        raise OSError(28, "No space left on device", "/x/y")

    one_command(act)
    assert door.run(["config", "show"]) == 1
    assert "/x/y: No space left on device." in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_error() -> None:
    """Ours: `openmem … | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [sys.executable, "-m", "openmem", "config", "show"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_change_goes_on_when_nobody_reads_its_words_any_more(home: Path) -> None:
    """Issue 2, part 2, as a user does it: `openmem … 2>&1 | head`; half a change is none."""
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run(
        [sys.executable, "-m", "openmem", "policy", "deny", str(home / "secret"), "--yes"],
        stdout=writer,
        stderr=writer,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert run.returncode == 0
    assert "secret" in (home / ".config/openmem/policy.toml").read_text()


@pytest.mark.parametrize("words", [["config", "show"], ["config", "--help"], ["context", "status"]])
def test_a_disk_too_full_for_the_answer_is_said_in_one_line(words: list[str]) -> None:
    """House style, Errors."""
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "openmem", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert run.returncode == 1
    assert "No space left on device." in run.stderr and run.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_an_empty_one(closed: str, home: Path) -> None:
    """Ours: services and schedulers start programs without; a file we open must not become one."""
    for words in ("config show", "config --help", "policy deny /somewhere --yes"):
        run = subprocess.run(
            ["sh", "-c", f'exec "$0" -m openmem {words} {closed}', sys.executable],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0
        assert "Traceback" not in run.stdout + run.stderr
    assert "/somewhere" in (home / ".config/openmem/policy.toml").read_text()


def test_help_and_version_load_nothing_heavy() -> None:
    """Issue 2, part 1: `--version` and `--help` under 0.25 s; a count of modules holds it here."""
    program = (
        "import sys; sys.argv = ['openmem', *{words!r}]; from openmem.__main__ import main; "
        "main(); print(','.join(sorted(sys.modules)), file=sys.stderr)"
    )
    heavy = {"rich", "questionary", "prompt_toolkit", "tomlkit", "docker", "yaml", "httpx"}
    heavy |= {"aiohttp", "uvicorn", "msgspec", "sqlite3", "asyncio", "ssl"}
    for words, most in ((["--help"], heavy), (["--version"], heavy | {"typer", "json"})):
        run = subprocess.run(
            [sys.executable, "-c", program.format(words=words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert not most & set(run.stderr.strip().split(","))


def test_on_windows_there_is_a_clear_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, Bad input."""
    from openmem import __main__

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "argv", ["openmem", "setup"])
    assert __main__.main() == 6
    assert "WSL" in capsys.readouterr().err


def test_a_result_with_problems_is_partial() -> None:
    """Issue 2: status success, partial or error."""
    from openmem.base.errors import StoreUnavailable
    from openmem.cli.envelope import envelope_of

    result = Result(data=1, problems=(StoreUnavailable("newer", hint="h"),))
    told = envelope_of("context search", result)
    assert (told["status"], told["exit_code"]) == ("partial", 0)
    assert told["errors"] == [{"code": "store-unavailable", "message": "newer", "hint": "h"}]
