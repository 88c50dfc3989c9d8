"""The way back: undo, undo to a number, uninstall, and what drifted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from openmem.base.errors import InvalidConfig, NotFound
from openmem.base.paths import Paths
from openmem.plan.action import Edit, Plan, RunCommand, WriteFile, plan_of
from openmem.plan.apply import apply, apply_replanning
from openmem.plan.edit.planner import (
    plan_block,
    plan_dir,
    plan_json_edit,
    plan_remove,
    plan_toml_edit,
    plan_write,
)
from openmem.plan.receipt import drift, plan_undo, plan_uninstall, receipts
from openmem.plan.system import MemorySystem, Ran
from tests.fakes.installer import settings_edits

PATH = "/home/u/.claude/settings.json"
BEFORE = b'{\n  "model": "x",\n  "env": {\n    "URL": "theirs"\n  }\n}\n'


@pytest.fixture
def system() -> MemorySystem:
    return MemorySystem({PATH: BEFORE})


@pytest.fixture
def paths(system: MemorySystem) -> Paths:
    return Paths(system.environ)


def _wire(system: MemorySystem, paths: Paths, version: str = "1") -> None:
    edits = [
        *settings_edits(version),
        Edit(keys=("env", "URL"), op="set", value=f"ours {version}"),
    ]
    plan = plan_of(plan_json_edit(system, PATH, edits, strict=True, why="hooks"))
    apply(plan, system, paths, label=f"setup {version}")


def _change(system: MemorySystem, *keys: str, value: object) -> None:
    """Somebody rewrites the whole file, as agents do."""
    root = json.loads(system.files[PATH])
    table = root
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    table[keys[-1]] = value
    system.write(PATH, json.dumps(root, indent=4).encode())


def _undone(system: MemorySystem, paths: Paths, *, to: int | None = None) -> Plan:
    plan = plan_undo(system, paths, to=to)
    apply(plan, system, paths, label="undo")
    return plan


def test_undo_takes_back_one_run_at_a_time(system: MemorySystem, paths: Paths) -> None:
    """Issue 2, part 2: `undo` gives back the bytes of before."""
    _wire(system, paths, "1")
    first = system.files[PATH]
    _wire(system, paths, "2")
    _undone(system, paths)
    assert system.files[PATH] == first
    _undone(system, paths)
    assert system.files[PATH] == BEFORE
    assert plan_undo(system, paths).is_empty


def test_undo_to_a_number_leaves_things_as_they_were_after_that_run(
    system: MemorySystem, paths: Paths
) -> None:
    """Facts, users section 4: `undo [--to N]`."""
    for version in "123":
        _wire(system, paths, version)
    after_first = json.loads(system.files[PATH].replace(b"3", b"1"))
    _undone(system, paths, to=1)
    assert json.loads(system.files[PATH]) == after_first
    assert plan_undo(system, paths, to=1).is_empty
    _undone(system, paths, to=0)
    assert system.files[PATH] == BEFORE
    with pytest.raises(NotFound, match="no run 9"):
        plan_undo(system, paths, to=9)


def test_runs_are_listed_with_what_became_of_them(system: MemorySystem, paths: Paths) -> None:
    """Facts, users section 4: backups listed by `undo --list`."""
    _wire(system, paths, "1")
    _undone(system, paths)
    _wire(system, paths, "2")
    found = receipts(paths, system)
    assert [(r.number, r.label, r.undone_by, r.undoes) for r in found] == [
        (1, "setup 1", 2, ()),
        (2, "undo", 0, (1,)),
        (3, "setup 2", 0, ()),
    ]
    assert [r.is_active for r in found] == [False, False, True]


def test_undo_twice_undoes_once(system: MemorySystem, paths: Paths) -> None:
    """Ours: nothing to do the second time, and nothing is written."""
    _wire(system, paths)
    _undone(system, paths)
    files = system.files
    assert _undone(system, paths).is_empty and system.files == files


def test_an_undo_planned_again_does_not_take_back_the_run_before(
    system: MemorySystem, paths: Paths
) -> None:
    """Ours: `apply_replanning` repeats a plan until it stays empty, but an undo once."""
    _wire(system, paths, "1")
    first = system.files[PATH]
    _wire(system, paths, "2")
    apply_replanning(lambda: plan_undo(system, paths), system, paths, label="undo")
    assert system.files[PATH] == first


def test_only_ours_is_taken_out_of_a_file_that_was_rewritten(
    system: MemorySystem, paths: Paths
) -> None:
    """Design, section 4: uninstall takes out only ours; other people's entries untouched."""
    _wire(system, paths)
    _change(system, "permissions", value={"allow": ["theirs"]})
    plan = _undone(system, paths)
    assert plan.left == ()
    assert json.loads(system.files[PATH]) == {
        **json.loads(BEFORE),
        "permissions": {"allow": ["theirs"]},
    }


def test_what_goes_back_is_said_as_it_will_be(system: MemorySystem, paths: Paths) -> None:
    """Ours: a file with somebody's newer entries was said to become as it was before."""
    _wire(system, paths)
    (same,) = plan_uninstall(system, paths).actions
    _change(system, "permissions", value={"allow": ["theirs"]})
    (mixed,) = plan_uninstall(system, paths).actions
    assert isinstance(same, WriteFile) and same.why == "as it was before"
    assert isinstance(mixed, WriteFile) and mixed.why.startswith("only what openmem put in")


def test_uninstall_unwinds_every_run_through_changes_in_between(
    system: MemorySystem, paths: Paths
) -> None:
    """Issue 2, part 2: install, upgrade, somebody's change before, between and after."""
    _wire(system, paths, "1")
    _change(system, "between", value=1)
    _wire(system, paths, "2")
    _change(system, "after", value=2)
    plan = plan_uninstall(system, paths)
    assert len(plan.actions) == 1 and plan.left == () and plan.undoes == (1, 2)
    apply(plan, system, paths, label="uninstall")
    assert json.loads(system.files[PATH]) == {**json.loads(BEFORE), "between": 1, "after": 2}


def test_a_value_the_person_changed_stays_and_is_named(system: MemorySystem, paths: Paths) -> None:
    """Issue 2, part 2: or say what they left and why."""
    _wire(system, paths)
    _change(system, "env", "URL", value="the person's")
    plan = _undone(system, paths)
    assert [(left.path, left.keys) for left in plan.left] == [(PATH, ("env", "URL"))]
    assert "env.URL" in plan.left[0].why
    assert json.loads(system.files[PATH])["env"] == {"URL": "the person's"}
    assert plan_undo(system, paths).is_empty
    assert receipts(paths, system)[-1].left == plan.left


def test_a_mode_the_person_changed_stays(system: MemorySystem, paths: Paths) -> None:
    """Ours: only what we did is taken back."""
    _wire(system, paths)
    system.write(PATH, system.files[PATH], mode=0o640)
    _undone(system, paths)
    found = system.stat(PATH)
    assert system.files[PATH] == BEFORE and found and found.mode == 0o640


def test_a_mode_we_changed_goes_back(system: MemorySystem, paths: Paths) -> None:
    """Issue 2, part 2: mode kept."""
    apply(plan_of(plan_write(system, PATH, BEFORE, "x", 0o600)), system, paths, label="x")
    found = system.stat(PATH)
    assert found and found.mode == 0o600
    _undone(system, paths)
    found = system.stat(PATH)
    assert found and found.mode == 0o644


def test_a_file_we_made_goes_if_unchanged_and_stays_if_not(
    system: MemorySystem, paths: Paths
) -> None:
    """Ours: files we created are removed if unchanged."""
    for name in ("a", "b"):
        plan = plan_of(plan_write(system, f"/home/u/new/{name}", b"ours", "x"))
        apply(plan, system, paths, label="x")
    system.write("/home/u/new/b", b"theirs now")
    plan = plan_uninstall(system, paths)
    apply(plan, system, paths, label="uninstall")
    assert "/home/u/new/a" not in system.files
    assert system.files["/home/u/new/b"] == b"theirs now"
    assert {left.path for left in plan.left} == {"/home/u/new/b", "/home/u/new"}


def test_a_file_we_made_in_which_only_we_wrote_goes_also_after_a_rewrite(
    system: MemorySystem, paths: Paths
) -> None:
    """Facts, user row 8: leftovers list is empty."""
    path = "/home/u/.claude.json"
    edit = Edit(keys=("mcpServers", "openmem"), op="set", value={"command": "x"})
    apply(
        plan_of(plan_json_edit(system, path, [edit], strict=True, why="x")),
        system,
        paths,
        label="x",
    )
    system.write(path, json.dumps(json.loads(system.files[path]), indent=8).encode())
    plan = _undone(system, paths)
    assert path not in system.files and plan.left == ()


def test_a_file_the_agent_filled_meanwhile_stays_without_ours(
    system: MemorySystem, paths: Paths
) -> None:
    """Design, section 4."""
    path = "/home/u/.claude.json"
    edit = Edit(keys=("mcpServers", "openmem"), op="set", value={"command": "x"})
    apply(
        plan_of(plan_json_edit(system, path, [edit], strict=True, why="x")),
        system,
        paths,
        label="x",
    )
    root = {**json.loads(system.files[path]), "numStartups": 3}
    system.write(path, json.dumps(root, indent=2).encode())
    _undone(system, paths)
    assert json.loads(system.files[path]) == {"numStartups": 3}


def test_a_file_that_no_longer_parses_is_left_and_tried_again_later(
    system: MemorySystem, paths: Paths
) -> None:
    """Facts, user row 1: never write after a failed read, on install or uninstall."""
    _wire(system, paths)
    apply(plan_of(plan_write(system, "/home/u/f", b"x", "x")), system, paths, label="other")
    mended = system.files[PATH]
    system.write(PATH, mended + b",")
    plan = plan_uninstall(system, paths)
    assert [(left.path, left.code) for left in plan.left] == [(PATH, "unparseable")]
    assert plan.left[0].why == (
        "does not parse (line 20, column 1: something stands after the end)"
    )
    apply(plan, system, paths, label="uninstall")
    assert system.files[PATH] == mended + b"," and "/home/u/f" not in system.files
    system.write(PATH, mended)
    _undone(system, paths)
    assert system.files[PATH] == BEFORE and plan_uninstall(system, paths).is_empty


def test_a_file_made_read_only_is_left_and_tried_again_later(
    system: MemorySystem, paths: Paths
) -> None:
    """Issue 2, bad input: not writable; the rest is taken back all the same."""
    _wire(system, paths)
    apply(plan_of(plan_write(system, "/home/u/f", b"x", "x")), system, paths, label="other")
    wired = system.nodes[PATH]
    system.nodes[PATH] = replace(wired, mode=0o444)
    plan = plan_uninstall(system, paths)
    assert [(left.path, left.code) for left in plan.left] == [(PATH, "not-writable")]
    apply(plan, system, paths, label="uninstall")
    assert system.nodes[PATH].data == wired.data and "/home/u/f" not in system.files
    system.nodes[PATH] = wired
    _undone(system, paths)
    assert system.files[PATH] == BEFORE


def test_a_file_deleted_by_the_person_is_not_made_again(system: MemorySystem, paths: Paths) -> None:
    """Facts, user row 9: removal by the user is final."""
    _wire(system, paths)
    system.remove(PATH)
    plan = _undone(system, paths)
    assert PATH not in system.files and plan.left == () and plan_undo(system, paths).is_empty


def test_a_file_put_back_by_hand_is_left_alone(system: MemorySystem, paths: Paths) -> None:
    """Ours."""
    _wire(system, paths)
    system.write(PATH, BEFORE)
    plan = plan_undo(system, paths)
    assert plan.actions == () and plan.left == () and not plan.is_empty
    apply(plan, system, paths, label="undo")
    assert plan_undo(system, paths).is_empty


def test_a_removed_file_comes_back_unless_a_new_one_stands_there(
    system: MemorySystem, paths: Paths
) -> None:
    """Issue 2, part 6: an older installation is taken out through the plan."""
    system.write("/home/u/.claude/hook", b"old", mode=0o755)
    apply(plan_of(plan_remove(system, "/home/u/.claude/hook", "old")), system, paths, label="x")
    _undone(system, paths)
    found = system.stat("/home/u/.claude/hook")
    assert system.files["/home/u/.claude/hook"] == b"old" and found and found.mode == 0o755
    apply(plan_of(plan_remove(system, "/home/u/.claude/hook", "old")), system, paths, label="x")
    system.write("/home/u/.claude/hook", b"new")
    plan = _undone(system, paths)
    assert system.files["/home/u/.claude/hook"] == b"new" and len(plan.left) == 1


def test_a_lost_backup_is_said_or_done_without(system: MemorySystem, paths: Paths) -> None:
    """Ours: the record alone takes edits out; a whole file cannot be guessed."""
    _wire(system, paths)
    apply(plan_of(plan_write(system, PATH, b"{}", "whole")), system, paths, label="whole")
    for path in list(system.files):
        if path.startswith(paths.backups_dir):
            system.write(path, b"damaged")
    plan = plan_undo(system, paths)
    assert [left.code for left in plan.left] == ["no-backup"] and plan.actions == ()
    _undone(system, paths)
    system.write(PATH, BEFORE)
    _wire(system, paths, "2")
    for path in list(system.files):
        if path.startswith(paths.backups_dir):
            system.write(path, b"damaged")
    _undone(system, paths)
    assert system.files[PATH] == BEFORE


def test_commands_are_taken_back_in_turn(system: MemorySystem, paths: Paths) -> None:
    """Ours: the exact reverse of the way there."""
    state: set[str] = set()

    def service(argv: object) -> Ran:
        verb, name = list(argv)[1:3]  # type: ignore[call-overload]
        if verb == "probe":
            return Ran(code=0 if name in state else 1)
        state.add(name) if verb == "start" else state.discard(name)
        return Ran(code=0)

    system.programs["svc"] = service

    def start(name: str) -> RunCommand:
        return RunCommand(
            argv=("svc", "start", name),
            probe=("svc", "probe", name),
            undo=("svc", "stop", name),
            why=f"start {name}",
        )

    plan = plan_of([start("a"), *plan_write(system, "/home/u/unit", b"x", "x"), start("b")])
    apply(plan, system, paths, label="setup")
    apply(plan_of([start("a"), start("c")]), system, paths, label="more")
    system.ran.clear()
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert system.ran == [("svc", "stop", "c"), ("svc", "stop", "b"), ("svc", "stop", "a")]
    assert state == set() and "/home/u/unit" not in system.files


def test_a_folder_we_made_goes_and_one_we_found_stays(system: MemorySystem, paths: Paths) -> None:
    """Facts, users section 4: never remove a directory we did not create."""
    system.make_dir("/home/u/empty")
    plan = plan_of(
        [*plan_dir(system, "/home/u/made/deep", "x"), *plan_dir(system, "/home/u/empty", "x")]
    )
    apply(plan, system, paths, label="x")
    _undone(system, paths)
    assert system.stat("/home/u/made") is None and system.stat("/home/u/empty")


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
@pytest.mark.parametrize("body", ["", "export A=1", "export A=1\n", "a\n\nb\n\n"])
def test_a_block_in_a_text_file_leaves_no_trace(
    system: MemorySystem, paths: Paths, eol: str, body: str
) -> None:
    """Issue 2, part 2: line ends kept, a missing final newline stays missing."""
    before = body.replace("\n", eol).encode()
    system.write("/home/u/.profile", before)

    def wire(text: str) -> None:
        apply(
            plan_of(plan_block(system, "/home/u/.profile", text, why="x")), system, paths, label="x"
        )

    wire("export B=2\nexport C=3")
    shown = system.files["/home/u/.profile"].decode()
    if eol in body.replace("\n", eol):
        assert "\n" not in shown.replace(eol, "") or eol == "\n"
    assert "# >>> openmem >>>" in shown and "export C=3" in shown
    wire("export B=2\nexport C=3")
    assert len(receipts(paths, system)) == 1
    wire("export D=4")
    assert "export C" not in system.files["/home/u/.profile"].decode()
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert system.files["/home/u/.profile"] == before


def test_a_block_is_taken_out_of_a_file_that_grew(system: MemorySystem, paths: Paths) -> None:
    """Design, section 4: only ours."""
    system.write("/home/u/CLAUDE.md", b"# Mine\n")
    plan = plan_of(plan_block(system, "/home/u/CLAUDE.md", "ours", why="x", comment="<!--"))
    apply(plan, system, paths, label="x")
    text = system.files["/home/u/CLAUDE.md"]
    assert text == b"# Mine\n<!-- >>> openmem >>> -->\nours\n<!-- <<< openmem <<< -->\n"
    system.write("/home/u/CLAUDE.md", b"# Above\n" + text + b"below\n")
    _undone(system, paths)
    assert system.files["/home/u/CLAUDE.md"] == b"# Above\n# Mine\nbelow\n"


def test_a_block_that_was_damaged_is_left_with_its_line(system: MemorySystem, paths: Paths) -> None:
    """Issue 2, part 2: refuses rather than guess."""
    system.write("/home/u/.profile", b"a\n")
    apply(
        plan_of(plan_block(system, "/home/u/.profile", "ours", why="x")), system, paths, label="x"
    )
    system.write("/home/u/.profile", system.files["/home/u/.profile"].replace(b"<<<", b"<<"))
    plan = plan_undo(system, paths)
    assert plan.actions == () and "line 2" in plan.left[0].why


def test_toml_goes_the_same_way(system: MemorySystem, paths: Paths) -> None:
    """Facts, user row 6: also after Codex has rewritten its file."""
    path = "/home/u/.codex/config.toml"
    before = b'model = "x" # mine\r\n\r\n[projects."/a b"]\r\ntrust_level = "trusted"\r\n'
    system.make_dir("/home/u/.codex")
    system.write(path, before)
    edit = Edit(keys=("mcp_servers", "openmem"), op="set", value={"command": "openmem-mcp"})
    apply(plan_of(plan_toml_edit(system, path, [edit], why="x")), system, paths, label="x")
    system.write(path, system.files[path] + b'\r\n[projects."/new"]\r\ntrust_level = "x"\r\n')
    _undone(system, paths)
    assert system.files[path] == before + b'\r\n[projects."/new"]\r\ntrust_level = "x"\r\n'


def test_drift_tells_a_rewrite_from_a_loss(system: MemorySystem, paths: Paths) -> None:
    """Design, section 5: `verify` checks for drift."""
    _wire(system, paths, "1")
    _wire(system, paths, "2")
    apply(plan_of(plan_write(system, "/home/u/whole", b"x", "x")), system, paths, label="x")
    assert drift(system, paths) == ()
    _change(system, "theirs", value=1)
    found = drift(system, paths)
    assert [(d.path, d.kind, d.is_harmless) for d in found] == [(PATH, "rewritten", True)]
    _change(system, "hooks", value={})
    system.write("/home/u/whole", b"y")
    found = drift(system, paths)
    assert {(d.path, d.kind, d.missing) for d in found} == {
        (PATH, "changed", (("hooks", "Stop"),)),
        ("/home/u/whole", "changed", ()),
    }
    system.remove("/home/u/whole")
    system.write(PATH, b"{,")
    assert {d.kind for d in drift(system, paths)} == {"removed", "unreadable"}
    apply(plan_uninstall(system, paths), system, paths, label="uninstall")
    assert [d.kind for d in drift(system, paths)] == ["unreadable"]


def test_an_undone_run_does_not_drift(system: MemorySystem, paths: Paths) -> None:
    """Ours."""
    _wire(system, paths)
    _undone(system, paths)
    assert drift(system, paths) == ()


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1}', '{"schema": 99, "number": 1}'])
def test_a_damaged_record_is_named_and_nothing_is_guessed(
    system: MemorySystem, paths: Paths, text: str
) -> None:
    """House style: names file, key and expected kind."""
    _wire(system, paths)
    system.write(f"{paths.receipts_dir}/0001.json", text.encode())
    with pytest.raises(InvalidConfig, match=r"0001\.json"):
        plan_uninstall(system, paths)
