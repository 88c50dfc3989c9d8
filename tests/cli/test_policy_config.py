"""`openmem policy` and `openmem config` as a person runs them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmem.cli.app import run


@pytest.fixture
def data(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def of(*words: str) -> Any:
        capsys.readouterr()
        assert run([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["data"]

    return of


def test_without_a_policy_everything_is_no_and_it_is_said(
    home: Path, data: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, part 3: missing → no, and status says so."""
    assert data("policy", "show")["problem"]
    explained = data("policy", "explain", str(home))
    assert not any(answer["allowed"] for answer in explained["decisions"].values())
    assert run(["status"]) == 0
    assert "nothing is stored" in capsys.readouterr().out


def test_allow_opens_one_folder_and_its_neighbour_stays_closed(
    home: Path, data: Callable[..., Any]
) -> None:
    """Issue 2, part 3: policy allow; for each does a does not."""
    mine, neighbour = home / "notes", home / "notes-private"
    mine.mkdir()
    neighbour.mkdir()
    assert run(["policy", "allow", str(mine), "--why", "my own"]) == 0
    inside = data("policy", "explain", str(mine / "deep"))["decisions"]
    assert all(answer["allowed"] for answer in inside.values())
    assert "my own" in inside["store"]["why"]
    outside = data("policy", "explain", str(neighbour))["decisions"]
    assert not any(answer["allowed"] for answer in outside.values())


def test_deny_one_use_leaves_the_others(home: Path, data: Callable[..., Any]) -> None:
    """Issue 2, part 3: each use by itself."""
    folder = home / "src"
    folder.mkdir()
    assert run(["policy", "allow", str(folder)]) == 0
    assert run(["policy", "deny", str(folder), "--use", "retain"]) == 0
    decisions = data("policy", "explain", str(folder))["decisions"]
    assert {use: answer["allowed"] for use, answer in decisions.items()} == {
        "store": True,
        "recall": True,
        "retain": False,
    }
    assert len(data("policy", "show")["rules"]) == 1


def test_a_rule_by_remote_reaches_every_clone(home: Path, data: Callable[..., Any]) -> None:
    """Issue 2, part 3: rules by path or remote."""
    clone = home / "clone"
    clone.mkdir()
    for words in (["init", "-q"], ["remote", "add", "origin", "git@github.com:acme/site.git"]):
        subprocess.run(["git", *words], cwd=clone, check=True, stdin=subprocess.DEVNULL)
    assert run(["policy", "allow", "--remote", "github.com/acme/*"]) == 0
    explained = data("policy", "explain", str(clone))
    assert explained["bank"] == "github.com/acme/site"
    assert explained["decisions"]["store"]["allowed"] is True


@pytest.mark.parametrize(
    "words",
    [
        ["policy", "allow"],
        ["policy", "allow", "/x", "--remote", "y"],
        ["policy", "deny", "/x", "--use", "everything"],
        ["config", "set", "proxy.port"],
        ["config", "set", "proxy.port", "1", "--unset"],
        ["config", "set", "proxy.prt", "1"],
        ["config", "set", "routes.claude-code.upstream", "ftp://x"],
    ],
)
def test_wrong_words_are_exit_2_and_write_nothing(home: Path, words: list[str]) -> None:
    """Design, section 5."""
    assert run(words) == 2
    assert list(home.iterdir()) == []


def test_a_setting_is_written_read_with_its_origin_and_taken_out(
    home: Path, data: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 5: precedence; config show --origin prints the winner and its source."""
    path = data("config", "path")["path"]
    assert run(["config", "set", "proxy.port", "9001"]) == 0
    assert data("config", "get", "proxy.port") == {
        "name": "proxy.port",
        "value": 9001,
        "origin": path,
    }
    monkeypatch.setenv("OPENMEM_PROXY_PORT", "9002")
    shown = data("config", "show")["settings"]["proxy.port"]
    assert shown == {"value": 9002, "origin": "OPENMEM_PROXY_PORT"}
    monkeypatch.delenv("OPENMEM_PROXY_PORT")
    assert run(["config", "set", "proxy.port", "--unset"]) == 0
    assert data("config", "get", "proxy.port")["origin"] == "default"
    assert run(["config", "set", "routes.claude-code.upstream", "https://gateway.test"]) == 0
    assert data("config", "show")["routes"] == {"claude-code": "https://gateway.test"}


def test_a_project_file_narrows_and_never_widens(
    home: Path, tmp_path: Path, data: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 5: project file may only narrow."""
    project = tmp_path / "project"
    project.mkdir()
    (project / ".openmem.toml").write_text("[proxy]\nenabled = false\nport = 80\n")
    monkeypatch.chdir(project)
    settings = data("config", "show")["settings"]
    assert settings["proxy.enabled"]["value"] is False
    assert settings["proxy.port"] == {"value": 8913, "origin": "default"}


def test_settings_that_do_not_parse_are_refused_and_stay(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 2, Bad input: exit 4, bytes unchanged, the place named."""
    path = home / ".config/openmem/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[proxy\nport = 1\n")
    for words in (["show"], ["get", "proxy.port"], ["set", "proxy.port", "9001"]):
        assert run(["config", *words]) == 4
        assert "~/.config/openmem/config.toml" in capsys.readouterr().err
    assert path.read_text() == "[proxy\nport = 1\n"


def test_a_dry_run_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Design, section 5."""
    assert run(["config", "set", "proxy.port", "9001", "-n", "--diff"]) == 0
    assert "+port = 9001" in capsys.readouterr().out
    assert run(["policy", "deny", os.getcwd(), "-n"]) == 0
    assert list(home.iterdir()) == []
