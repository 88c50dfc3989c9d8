"""`openmem memory` and `openmem bank`: by hand, for people and scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from openmem.base.paths import Paths
from openmem.cli.app import run
from openmem.memory.model import Actor, Source
from openmem.memory.opening import open_memories
from openmem.memory.scope import scope_of
from tests.fakes.stored import Machine, said
from tests.memory.conftest import POLICY, repository

ROOT = Path(__file__).parents[2]
VPN = "Deploys need the VPN; the bastion drops idle links after 10 minutes."
CI = "Deploys run from CI only, over the VPN."
BANK = "github.com/acme/site"
Say = Callable[..., Any]


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that may be stored; the working folder."""
    monkeypatch.delenv("AI_AGENT", raising=False)
    monkeypatch.setenv("USER", "ada")
    folder = home / ".config/openmem"
    folder.mkdir(parents=True)
    (folder / "policy.toml").write_text(POLICY)
    site = repository(home / "site", "git@github.com:acme/site.git")
    repository(home / "other", "git@github.com:acme/other.git")
    monkeypatch.chdir(site)
    return site


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run with --json; return the data, or the first error's code when `status` is not 0."""

    def of(*words: str, status: int = 0) -> Any:
        capsys.readouterr()
        assert run([*words, "--json"]) == status, capsys.readouterr()
        envelope = json.loads(capsys.readouterr().out)
        assert envelope["exit_code"] == status
        return envelope["data"] if envelope["data"] is not None else envelope["errors"][0]["code"]

    return of


def agent_adds(text: str, folder: Path, session_id: str = "") -> str:
    paths = Paths(os.environ)
    memories = open_memories(paths)
    actor = Actor(kind="agent", name="codex")
    scope = scope_of(str(folder), paths, actor, session_id=session_id)
    added = memories.add(scope, text, source=Source(session_id=session_id, row=88))
    memories.close()
    return added.memory.id


def files(home: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(p): (p.stat().st_mtime_ns, p.read_bytes())
        for p in (home / ".local").rglob("*")
        if p.is_file()
    }


def test_add_find_show_correct_forget_and_what_history_says(site: Path, say: Say) -> None:
    """Issue 5, what a user can do."""
    added = say("memory", "add", VPN, "--valid-from", "2026-01-01")
    assert added["trust"] == "accepted" and added["provenance"]["actor"] == "person:ada"
    assert added["valid_from"] == "2026-01-01T00:00:00Z" and added["bank"] == BANK
    found = say("memory", "search", "bastion")["memories"]
    assert [one["id"] for one in found] == [added["id"]]
    assert say("memory", "show", added["id"][:9])["content"] == VPN
    new = say("memory", "correct", added["id"], CI)
    assert new["supersedes"] == added["id"]
    assert [one["content"] for one in say("memory", "list")["memories"]] == [CI]
    everything = say("memory", "list", "--all")["memories"]
    assert {one["state"] for one in everything} == {"active", "superseded"}
    assert say("memory", "search", "bastion")["memories"] == []
    assert say("memory", "forget", new["id"], "--yes")["forgotten"] == [new["id"]]
    assert say("memory", "add", CI, status=1) == "forgotten"
    verbs = [entry["verb"] for entry in say("memory", "history")["entries"]]
    assert verbs == ["add", "add", "supersede", "forget"]
    assert "normal" not in str(say("memory", "history"))
    assert say("memory", "verify")["problems"] == []


def test_recall_shows_what_an_agent_would_be_told(site: Path, say: Say) -> None:
    """Design, section 8; issue 5: recall --as-of."""
    assert say("memory", "recall")["text"] == ""
    old = say("memory", "add", "Ada is on call.", "--valid-to", "2020-01-01")
    new = say("memory", "add", VPN)
    assert say("memory", "recall")["ids"] == [new["id"]]
    assert say("memory", "recall", "how do I get past the bastion?")["ids"] == [new["id"]]
    assert say("memory", "recall", "ok")["text"] == ""
    assert say("memory", "recall", "who is on call?", "--as-of", "2019-06-01")["memories"] == []
    assert old["id"]


@pytest.mark.parametrize(
    "words",
    [
        ("add", "Something new."),
        ("correct", "ID", "Something new."),
        ("forget", "ID"),
        ("import", "FILE"),
    ],
)
def test_a_dry_run_changes_no_file(
    home: Path, site: Path, say: Say, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Design, section 5: a dry run changes no file."""
    memory_id = say("memory", "add", VPN)["id"]
    (tmp_path / "m.jsonl").write_text('{"content": "Something new."}\n')
    given = {"ID": memory_id, "FILE": str(tmp_path / "m.jsonl")}
    before = files(home)
    say("memory", *(given.get(word, word) for word in words), "--dry-run")
    assert files(home) == before


def test_a_dry_run_on_an_empty_machine_makes_nothing(home: Path, site: Path, say: Say) -> None:
    """Design, section 6."""
    assert say("memory", "add", VPN, "--dry-run")["trust"] == "accepted"
    for words in (["list"], ["search", "x"], ["recall"], ["status"], ["history"], ["verify"]):
        say("memory", *words)
    say("bank", "list")
    assert not (home / ".local").exists()


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("memory", "add", " "), 2, "usage"),
        (("memory", "add", VPN, "--valid-from", "soon"), 2, "usage"),
        (("memory", "show", "m-0123456789abcdef"), 1, "not-found"),
        (("memory", "show", "!"), 2, "usage"),
        (("memory", "forget", "m-0123456789abcdef", "--yes"), 1, "not-found"),
        (("memory", "correct", "m-0123456789abcdef"), 2, "usage"),
        (("memory", "search", "x", "--kind", "page"), 2, "usage"),
        (("memory", "search", "x", "--as-of", "then"), 2, "usage"),
        (("memory", "list", "--trust", "sure"), 2, "usage"),
        (("memory", "import", "/nowhere.jsonl"), 2, "usage"),
        (("memory", "export", "--format", "xml"), 2, "usage"),
        (("memory", "review", "--accept", "m-0123456789abcdef"), 1, "not-found"),
        (("bank", "drop", "nothing"), 1, "not-found"),
        (("bank", "link", "."), 2, "usage"),
        (("bank", "link", ".", "two words"), 2, "usage"),
        (("bank", "unlink", "."), 1, "not-found"),
    ],
)
def test_bad_input_is_one_clear_error_with_a_stable_code(
    site: Path, say: Say, words: tuple[str, ...], status: int, code: str
) -> None:
    """Issue 5, bad input."""
    assert say(*words, status=status) == code


def test_where_policy_denies_nothing_is_kept(
    home: Path, site: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 5: exit 7."""
    (home / "denied").mkdir()
    monkeypatch.chdir(home / "denied")
    assert say("memory", "add", VPN, status=7) == "policy-denied"
    assert not (home / ".local").exists()


def test_what_an_agent_adds_in_its_shell_is_pending_and_it_cannot_accept(
    site: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design, section 8: a person accepts; an agent can run any command."""
    monkeypatch.setenv("CLAUDECODE", "1")
    added = say("memory", "add", VPN)
    assert added["trust"] == "pending" and added["provenance"]["actor"] == "agent:claude-code"
    assert say("memory", "review", "--accept", added["id"], status=7) == "policy-denied"
    assert say("bank", "drop", BANK, "--confirm", BANK, status=7) == "policy-denied"
    assert say("memory", "list", "--bank", "github.com/acme/other", status=7) == "wrong-bank"
    monkeypatch.delenv("CLAUDECODE")
    assert say("memory", "review", "--accept", added["id"])["memories"][0]["trust"] == "accepted"


def test_forgetting_asks_and_tells_what_else_holds_the_words(
    site: Path, say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    """House style: no prompt in a pipe; design: --yes never agrees for a person unseen."""
    memory_id = say("memory", "add", VPN)["id"]
    assert say("memory", "forget", memory_id, status=2) == "usage"
    paths = Paths(os.environ)
    memories = open_memories(paths)
    for number, text in enumerate((f"user: {VPN}", "user: the weather is fine")):
        memories.ledger.add(
            bank=BANK, text=text, kind="passage", actor=Actor(kind="indexer"), trust="accepted",
            source=Source(session_id="s1", row=number + 1),
        )  # fmt: skip
    memories.deliver()
    memories.close()
    gone = say("memory", "forget", memory_id, "--yes")
    assert len(gone["also_in"]) == 1
    again = say("memory", "forget", gone["also_in"][0], "--yes", "--with-turns")
    assert again["also_in"] == [] and again["pending"] == []
    left = say("memory", "list", "--kind", "passage")["memories"]
    assert [one["content"] for one in left] == ["user: the weather is fine"]


def test_export_and_import_go_round(site: Path, say: Say, tmp_path: Path) -> None:
    """Issue 5, part 7."""
    say("memory", "add", VPN)
    out = tmp_path / "m.json"
    assert say("memory", "export", "--format", "json", "--out", str(out))["memories"] == 1
    assert out.stat().st_mode & 0o777 == 0o600
    assert say("memory", "export", "--out", str(out), status=1) == "failed"
    other = ("--bank", "github.com/acme/other")
    assert say("memory", "import", str(out), *other, "--dry-run")["added"] == 1
    assert say("memory", "import", str(out), *other)["by_trust"] == {"accepted": 1}
    assert say("memory", "import", str(out), *other)["known"] == 1
    text = say("memory", "export", "--all-banks")["text"]
    assert len(text.splitlines()) == 2
    out.write_text('{"content": "one more"}\nnot json\n')
    outcome = say("memory", "import", str(out))
    assert outcome["added"] == 1 and outcome["errors"][0]["line"] == 2
    out.write_text("not json\n")
    assert say("memory", "import", str(out), status=1)["errors"]


def test_a_link_moves_reads_and_writes_and_undo_takes_it_back(
    home: Path, site: Path, say: Say
) -> None:
    """Users' report 31: link, with an undo."""
    say("memory", "add", VPN)
    assert say("bank", "link", ".", "shared/bank", "--dry-run")["actions"]
    assert len(say("memory", "list")["memories"]) == 1
    say("bank", "link", ".", "shared/bank")
    assert say("bank", "show")["links"] == [str(site)]
    assert say("memory", "list")["memories"] == []
    assert say("memory", "add", CI)["bank"] == "shared/bank"
    assert say("policy", "explain", ".")["bank"] == "shared/bank"
    say("undo", "--yes")
    assert [one["content"] for one in say("memory", "list")["memories"]] == [VPN]
    say("bank", "link", "--remote", "github.com/acme/*", "shared/bank")
    assert [one["content"] for one in say("memory", "list")["memories"]] == [CI]
    say("bank", "unlink", "--remote", "github.com/acme/*")
    assert [one["content"] for one in say("memory", "list")["memories"]] == [VPN]


def test_a_moved_repository_is_pointed_to_its_bank(
    site: Path, say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users' report 31: explicit "looks like X moved: link?"."""
    say("memory", "add", VPN)
    subprocess.run(
        ["git", "remote", "set-url", "origin", "git@github.com:new/site.git"], check=True
    )
    for words in (["memory", "list"], ["memory", "status"], ["bank", "show"], ["bank", "list"]):
        capsys.readouterr()
        assert run(words) == 0
        assert f"openmem bank link . {BANK}" in capsys.readouterr().err


def test_a_bank_is_dropped_only_when_its_name_is_typed_again(
    home: Path, site: Path, say: Say
) -> None:
    """Design, section 8: dropping a bank is another verb, with the name typed back."""
    say("memory", "add", "quokkamarble is the code name")
    say("memory", "add", VPN, "--bank", "another")
    assert say("bank", "drop", BANK, status=2) == "usage"
    assert say("bank", "drop", BANK, "--confirm", "acme", status=4) == "not-confirmed"
    assert say("bank", "drop", BANK, "--dry-run")["memories"] == 1
    assert say("bank", "drop", BANK, "--confirm", BANK)["memories"] == 1
    assert [one["bank"] for one in say("bank", "list")["banks"]] == ["another"]
    assert not [name for name, (_, data) in files(home).items() if b"quokkamarbl" in data]
    assert say("memory", "verify")["problems"] == []


def test_verify_finds_what_the_provider_lost_and_reindex_mends_it(site: Path, say: Say) -> None:
    """Users' report 37."""
    memory_id = say("memory", "add", VPN)["id"]
    memories = open_memories(Paths(os.environ))
    memories.provider.forget(BANK, [memory_id])
    memories.close()
    problems = say("memory", "verify", status=1)["problems"]
    assert problems == [f"bank {BANK}: the provider misses {memory_id}"]
    assert say("memory", "reindex")["memories"] == 1
    assert say("memory", "verify")["problems"] == []


def test_status_and_reflect_answer_without_a_model(site: Path, say: Say) -> None:
    """Issue 5, part 8."""
    say("memory", "add", VPN)
    status = say("memory", "status")
    assert (status["statements"], status["pending"], status["tokens_today"]) == (1, 0, 0)
    reflection = say("memory", "reflect", "what do deploys need?")
    assert reflection["text"] == "" and "no model route" in reflection["why"]
    assert reflection["memories"][0]["content"] == VPN


def test_the_screens_fit_eighty_columns(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Screens: 80 columns, no colour; control characters are shown, not obeyed."""
    monkeypatch.setenv("COLUMNS", "80")
    agent_adds("A long statement \x1b[31m about the deploys " + "and more " * 30, site)
    for words in (["list"], ["status"], ["history"], ["search", "deploys"]):
        capsys.readouterr()
        assert run(["memory", *words]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert max(map(len, out.splitlines())) <= 80


# the review, on a terminal


def reviewing(home: Path, site: Path) -> pexpect.spawn:
    environ = {
        "HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "USER": "ada",
        "TERM": "dumb", "COLUMNS": "80", "LANG": "C.UTF-8",
    }  # fmt: skip
    return pexpect.spawn(
        sys.executable,
        ["-m", "openmem", "memory", "review"],
        env=environ,
        cwd=str(site),
        encoding="utf-8",
        timeout=60,
    )


def test_the_review_shows_where_it_was_said_and_what_is_near(
    home: Path, site: Path, say: Say
) -> None:
    """Screens, memory review."""
    machine = Machine(home)
    machine.record("s-19c", site, [said("right, remember that deploys run from CI over the VPN")])
    machine.close()
    near = say("memory", "add", VPN)["id"]
    one = agent_adds(CI, site, "s-19c")
    child = reviewing(home, site)
    child.expect_exact(f"1 pending in bank {BANK}")
    child.expect_exact(f'[1/1] "{CI}"')
    child.expect_exact("from codex, session")
    child.expect_exact("row 88")
    child.expect_exact("said:")
    child.expect_exact("deploys run from CI")
    child.expect_exact("near:")
    child.expect_exact("conflict?")
    child.expect_exact("accept a · reject r")
    child.sendline("x")
    child.expect_exact("accept a · reject r")
    child.sendline("p")
    child.expect_exact("1 replaced")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert say("memory", "show", near)["superseded_by"] == one
    assert say("memory", "show", one)["trust"] == "accepted"


def test_each_key_of_the_review_does_its_work(home: Path, site: Path, say: Say) -> None:
    """Screens: accept, reject, edit, skip, quit; leaving loses nothing."""
    texts = [f"Statement {word} stands." for word in ("alpha", "beta", "gamma", "delta", "omega")]
    ids = [agent_adds(text, site) for text in texts]
    child = reviewing(home, site)
    order: list[str] = []
    for key in ("a", "r", "e", "s", "q"):
        number = child.expect_exact(texts)
        order.append(ids[number])
        child.expect_exact("> ")
        child.sendline(key)
        if key == "e":
            child.expect_exact("new text: ")
            child.sendline("Statement edited stands.")
    child.expect_exact("1 accepted, 1 rejected, 1 edited, 1 skipped")
    child.expect(pexpect.EOF)
    child.close()
    states = [say("memory", "show", one) for one in order]
    assert [one["trust"] for one in states] == [
        "accepted", "rejected", "pending", "pending", "pending"
    ]  # fmt: skip
    assert states[2]["state"] == "superseded"
    edited = say("memory", "show", states[2]["superseded_by"])
    assert (edited["content"], edited["trust"]) == ("Statement edited stands.", "accepted")


def test_without_a_terminal_the_review_names_its_flags(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """House style: no answer in a pipe."""
    agent_adds(CI, site)
    assert run(["memory", "review"]) == 2
    assert "--accept ID" in capsys.readouterr().err
    assert run(["memory", "review", "--list"]) == 0
    assert "1 pending" in capsys.readouterr().out
