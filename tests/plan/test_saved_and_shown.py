"""A plan saved, loaded and shown: the same plan, and no secret in any of it."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmem.base.errors import InvalidConfig, Missing, PlanConflict, Refused
from openmem.base.paths import Paths
from openmem.plan.action import (
    Edit,
    MakeDir,
    ManualStep,
    Plan,
    RemoveDir,
    RemoveFile,
    RunCommand,
    Secret,
    WriteFile,
    plan_of,
)
from openmem.plan.apply import apply
from openmem.plan.diff import described, masked, unified_diff
from openmem.plan.edit.planner import plan_json_edit, plan_write
from openmem.plan.journal import read_receipts
from openmem.plan.receipt import plan_uninstall
from openmem.plan.saved import plan_from_json, plan_to_json
from openmem.plan.system import MemorySystem

HOME = "/home/u"
KEY = "sk-ant-api03-" + "a1B2" * 12
TOKEN = "plainlooking-but-named-0042"
SETTINGS = json.dumps(
    {"model": "x", "env": {"ANTHROPIC_API_KEY": KEY, "OTHER": "ghp_" + "Ab1" * 12}}, indent=2
).encode()
PATH = f"{HOME}/.claude/settings.json"


def _system(**environ: str) -> MemorySystem:
    return MemorySystem({PATH: SETTINGS}, environ={"HOME": HOME, **environ})


def _plan(system: MemorySystem) -> Plan:
    secret = Secret(TOKEN, "env:OPENMEM_PROVIDER_KEY")
    return plan_of(
        [
            *plan_json_edit(
                system,
                PATH,
                [
                    Edit(keys=("env", "OURS"), op="set", value="1"),
                    Edit(keys=("model",), op="set", value="y"),
                    Edit(keys=("auth",), op="set", value={"header": f'Bearer "{TOKEN}"'}),
                ],
                strict=True,
                why="settings",
                secrets=(secret,),
            ),
            *plan_write(system, f"{HOME}/new", f"key={TOKEN}\n".encode(), "x", secrets=(secret,)),
            RemoveFile(path=PATH + ".old", before="sha256:00", why="old"),
            MakeDir(path=f"{HOME}/d", why="d", mode=0o755),
            RemoveDir(path=f"{HOME}/e", why="e"),
            RunCommand(argv=("a", "b"), why="r", probe=("p",), undo=("u",), timeout_seconds=1.5),
            ManualStep(text="by hand", why="m"),
        ],
        "mind this",
    )


def test_a_saved_plan_comes_back_equal() -> None:
    """Design, section 4: JSON round-trips."""
    system = _system(OPENMEM_PROVIDER_KEY=TOKEN)
    plan = _plan(system)
    text = plan_to_json(plan, system)
    assert plan_from_json(text, system, path="plan.json") == plan


def test_a_saved_plan_holds_references_never_values() -> None:
    """Design, section 4: a saved plan holds references to secrets, never values."""
    system = _system(OPENMEM_PROVIDER_KEY=TOKEN)
    text = plan_to_json(_plan(system), system)
    everything = text + "".join(
        base64.b64decode(piece[1]).decode()
        for action in json.loads(text)["actions"]
        for pieces in (action.get("data", []), *(e["value"] for e in action.get("edits", [])))
        for piece in pieces
        if piece[0] == "new"
    )
    for secret in (KEY, TOKEN, "ghp_"):
        assert secret not in everything
    assert "env:OPENMEM_PROVIDER_KEY" in text


def test_loading_reads_the_secret_again_or_names_what_is_missing() -> None:
    """Design, section 4."""
    system = _system(OPENMEM_PROVIDER_KEY=TOKEN)
    text = plan_to_json(_plan(system), system)
    with pytest.raises(Missing, match="OPENMEM_PROVIDER_KEY"):
        plan_from_json(text, _system(), path="plan.json")
    plan = plan_from_json(text, _system(OPENMEM_PROVIDER_KEY="other"), path="plan.json")
    assert isinstance(plan.actions[1], WriteFile) and plan.actions[1].data == b"key=other\n"
    by_file = plan_of(
        plan_write(system, f"{HOME}/x", TOKEN.encode(), "x", secrets=(Secret(TOKEN, "file:/s"),))
    )
    saved = plan_to_json(by_file, system)
    holding = MemorySystem({"/s": f"{TOKEN}\n"})
    assert plan_from_json(saved, holding, path="p") == by_file


def test_a_plan_with_a_bare_secret_is_not_saved() -> None:
    """Design, section 4; ours: refused rather than written in the clear."""
    system = _system()
    bare = (
        plan_write(system, f"{HOME}/x", TOKEN.encode(), "x", secrets=(Secret(TOKEN),)),
        plan_write(system, f"{HOME}/x", KEY.encode(), "x"),
        [RunCommand(argv=("curl", KEY), why="x")],
        [ManualStep(text=f"use {KEY}", why="x")],
        plan_json_edit(
            system, PATH, [Edit(keys=("k",), op="set", value=KEY)], strict=True, why="x"
        ),
    )
    for actions in bare:
        with pytest.raises(Refused) as caught:
            plan_to_json(plan_of(actions), system)
        assert caught.value.code == "secret-in-plan" and KEY not in caught.value.message


def test_a_saved_plan_does_not_fit_a_file_that_changed() -> None:
    """Facts, users section 4: `apply plan.json` refuses if any file's hash changed since."""
    system = _system(OPENMEM_PROVIDER_KEY=TOKEN)
    text = plan_to_json(_plan(system), system)
    system.write(PATH, b"{}")
    with pytest.raises(PlanConflict):
        plan_from_json(text, system, path="plan.json")
    with pytest.raises(PlanConflict):
        plan_to_json(plan_of(_plan(_system()).actions), system)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"kind": "openmem-plan", "schema": 2}',
        '{"kind": "openmem-plan", "schema": 1, "actions": [{"kind": "launch"}]}',
        '{"kind": "openmem-plan", "schema": 1, "actions": [{"kind": "run", "argv": [1]}]}',
        '{"kind": "openmem-plan", "schema": 1, "actions": [{"kind": "write", "path": "/x", '
        '"data": [["secret", 5, "plain"]]}]}',
        '{"kind": "openmem-plan", "schema": 1, "actions": [{"kind": "write", "path": "/x", '
        '"data": [["take", "/etc/passwd"]]}]}',
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    """House style: untrusted input is decoded by functions that name file, key and kind."""
    with pytest.raises(InvalidConfig, match=r"plan\.json"):
        plan_from_json(text, _system(), path="plan.json")


@settings(max_examples=150, deadline=None)
@given(base=st.binary(max_size=300), parts=st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_round_trip(base: bytes, parts: list[bytes]) -> None:
    """Design, section 4: JSON round-trips."""
    data = base[: len(base) // 2] + b",\n".join(parts) + base[len(base) // 3 :]
    system = MemorySystem({"/f": base})
    plan = plan_of(plan_write(system, "/f", data, "x"))
    try:
        text = plan_to_json(plan, system)
    except Refused:
        return  # chance made something that looks like a secret
    assert plan_from_json(text, system, path="p") == plan


def test_two_writes_to_one_file_can_be_saved() -> None:
    """Ours: the second stands on the first."""
    system = MemorySystem({"/f": b"0"})
    one = plan_write(system, "/f", b"1", "x")[0]
    assert isinstance(one, WriteFile)
    plan = Plan(actions=(one, WriteFile(path="/f", before=one.after, data=b"2", why="y")))
    assert plan_from_json(plan_to_json(plan, system), system, path="p") == plan


def test_no_rendering_shows_a_secret() -> None:
    """Design, section 4: masked in every rendering."""
    system = _system()
    actions = described(_plan(system), system)
    shown = json.dumps(actions)
    for secret in (KEY, TOKEN, "ghp_"):
        assert secret not in shown
    diff = str(actions[0]["diff"])
    assert '+    "OURS": "1"' in diff and '-  "model": "x"' in diff
    assert [item["kind"] for item in actions] == [
        "write", "write", "remove", "make-dir", "remove-dir", "run", "manual",
    ]  # fmt: skip
    assert [item["mark"] for item in actions] == ["~", "+", "-", "+", "-", "$", "!"]
    assert all(set(item) >= {"kind", "path", "why", "diff"} for item in actions)


def test_a_changed_secret_is_a_changed_line_without_its_value() -> None:
    """Ours: a diff says that something changes, not what it was."""
    system = MemorySystem({"/f": f'a\n"api_key": "{"x" * 30}"\nb\n'}, environ={"HOME": "/h"})
    action = plan_write(system, "/f", f'a\n"api_key": "{"y" * 30}"\nb\n'.encode(), "x")[0]
    diff = unified_diff(action, system)
    assert diff == (
        '--- /f\n+++ /f\n@@ -1,3 +1,3 @@\n a\n-"api_key": "••••"\n+"api_key": "••••"\n b\n'
    )


def test_a_key_over_many_lines_is_masked_also_where_the_diff_shows_a_part() -> None:
    """Ours: the beginning of a key may stand outside the diff's context."""
    body = "\n".join("QUJD" * 15 for _ in range(20))
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    system = MemorySystem({"/f": pem + "x = 1\n"}, environ={"HOME": "/h"})
    diff = unified_diff(plan_write(system, "/f", (pem + "x = 2\n").encode(), "x")[0], system)
    assert "QUJD" not in diff and "-x = 1\n+x = 2\n" in diff


def test_names_of_variables_and_counts_are_no_secrets() -> None:
    """Ours: a mask over everything hides what the person must see."""
    for text in ('"max_tokens": 100', '"apiKey": "${OPENMEM_KEY}"', "token_budget = 5", "a: 'b'"):
        assert masked(text) == text


def test_a_new_file_a_removed_one_and_no_final_newline_are_shown() -> None:
    """Facts, users section 4: unified diff, 3 lines of context; create, edit, delete."""
    system = MemorySystem({f"{HOME}/old": "1\n"}, environ={"HOME": HOME})
    new = unified_diff(plan_write(system, f"{HOME}/new", b"1\n2", "x")[0], system)
    assert new == (
        "--- /dev/null\n+++ ~/new\n@@ -0,0 +1,2 @@\n+1\n+2\n\\ No newline at end of file\n"
    )
    gone = RemoveFile(path=f"{HOME}/old", before="x", why="x")
    assert unified_diff(gone, system) == "--- ~/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"
    assert unified_diff(ManualStep(text="x", why="y"), system) == ""


def test_a_change_of_line_ends_or_of_bytes_is_said_in_a_line() -> None:
    """Ours."""
    system = MemorySystem({"/f": b"a\r\n", "/b": b"\x00\x01"}, environ={"HOME": "/h"})
    ends = unified_diff(plan_write(system, "/f", b"a\n", "x")[0], system)
    assert ends.endswith("only line ends or unseen characters change\n")
    both = unified_diff(plan_write(system, "/b", b"\x00\x02\x03", "x")[0], system)
    assert both.endswith("binary, 2 to 3 bytes\n")


def test_a_file_on_one_line_is_shown_where_it_changes() -> None:
    """Ours: a megabyte on one line is no diff."""
    old = '{"a": [' + "1, " * 5000 + "1]}"
    system = MemorySystem({"/f": old}, environ={"HOME": "/h"})
    edit = Edit(keys=("b",), op="set", value="ours")
    diff = unified_diff(plan_json_edit(system, "/f", [edit], strict=True, why="x")[0], system)
    assert len(diff) < 700 and '], "b": "ours"}' in diff and "\n-…" in diff and "\n+…" in diff


def test_a_plan_is_described_on_top_of_its_own_earlier_steps() -> None:
    """Ours: the second write to a file shows its own part only."""
    system = MemorySystem({"/f": b"0\n"}, environ={"HOME": "/h"})
    one = plan_write(system, "/f", b"1\n", "x")[0]
    assert isinstance(one, WriteFile)
    plan = Plan(actions=(one, WriteFile(path="/f", before=one.after, data=b"2\n", why="y")))
    diffs = [str(item["diff"]) for item in described(plan, system)]
    assert "-0\n+1" in diffs[0] and "-1\n+2" in diffs[1]
    assert system.read("/f") == b"0\n"


def test_a_receipt_holds_no_value_that_was_written() -> None:
    """House style: the secret absent from store, log, diff; the copies of before are private."""
    system = _system()
    paths = Paths(system.environ)
    apply(plan_of(_plan(system).actions[:2]), system, paths, label="x")
    receipt = system.files[f"{paths.receipts_dir}/0001.json"].decode()
    assert TOKEN not in receipt and KEY not in receipt
    assert read_receipts(system, paths)[0].entries[0].edits[2].keys == ("auth",)
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert system.read(PATH) == SETTINGS
