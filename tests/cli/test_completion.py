"""Completion goes through the plan, and its words are the commands that exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openmem.cli.app import run


def completed(script: Path, *words: str) -> set[str]:
    """Return what bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in ("openmem", *words))
    program = (
        f"source '{script}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _openmem; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, timeout=20, check=True
    )
    return set(done.stdout.split())


def test_bash_completes_commands_groups_and_options(home: Path) -> None:
    """Users' contract, Completion."""
    assert run(["completion", "bash", "--yes"]) == 0
    script = home / ".local/share/bash-completion/completions/openmem"
    assert completed(script, "cont") == {"context"}
    assert {"status", "search", "show"} <= completed(script, "context", "s")
    assert completed(script, "policy", "e") == {"explain"}
    assert completed(script, "context", "search", "key", "--in") == {
        "--in-context",
        "--include-echo",
    }
    assert completed(script, "setup", "--no-prox") == {"--no-proxy"}
    assert "--smoke-test" not in completed(script, "undo", "--")


def test_it_goes_through_the_plan_and_can_be_undone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users' contract: `--install-completion` must go through the plan too."""
    assert run(["--install-completion", "fish", "--dry-run"]) == 0
    assert list(home.iterdir()) == [] and "openmem.fish" in capsys.readouterr().out
    assert run(["--install-completion", "fish"]) == 0
    assert (home / ".config/fish/completions/openmem.fish").exists()
    assert run(["undo", "--yes"]) == 0
    assert not (home / ".config/fish").exists()


def test_zsh_is_told_what_to_add_by_hand_and_no_rc_file_is_touched(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ours: start-up files of shells are the person's own."""
    (home / ".zshrc").write_text("# mine\n")
    assert run(["completion", "zsh"]) == 0
    assert "fpath=(" in capsys.readouterr().err
    assert (home / ".zshrc").read_text() == "# mine\n"


def test_an_unknown_shell_is_wrong_usage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Design, section 5."""
    assert run(["completion", "csh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err
