"""Bodies that a later call made worthless leave together with a cut, in all three formats."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from openmem.context.trim.items import NotTrimmable
from openmem.context.trim.spent.marker import MARKED, MARKER_CHARACTERS, MARKER_HEAD, marker
from openmem.context.trim.trimmer import Ask
from tests.fakes.superseding import FORMS, SID, Rows, calls_in, step, trimmer, view_of, work
from tests.fakes.three_wires import PNG, WIRES, Said, Step, body_in

PATH = "/work/app/[slug]/page.tsx"
TEXT = "a line of the file\n" * 60


def edit(number: int, path: str = PATH) -> Step:
    given = {"file_path": path, "old_string": f"old {number} " * 60, "new_string": f"new {number}"}
    return step("Edit", given, "The file was updated.")


def read(text: str = TEXT, path: str = PATH, **more: Any) -> Step:
    return step("Read", {"file_path": path, **more}, text)


def todo(*states: str) -> Step:
    todos = [
        {"content": f"task number {n} of the plan, in some detail " * 5, "status": state}
        for n, state in enumerate(states)
    ]
    return step("TodoWrite", {"todos": todos}, "Todos have been modified")


def is_spent(value: Any) -> bool:
    return MARKER_HEAD in json.dumps(value)


@pytest.mark.parametrize("wire", WIRES)
def test_of_a_file_edited_five_times_only_the_newest_edit_stays_whole(
    home: Path, wire: str
) -> None:
    """Facts of another system, scenario S6; issue 4, part 6."""
    moves = work(*[edit(number) for number in range(5)])
    view = view_of(trimmer(home), wire, moves)
    edits = [given for name, given, _ in calls_in(wire, view.body) if name == "Edit"]
    assert len(edits) == 5
    assert edits[4]["old_string"] == "old 4 " * 60
    for given in edits[:4]:
        assert set(given) == {"file_path", MARKED} and given["file_path"] == PATH
        assert given[MARKED].startswith(MARKER_HEAD) and given[MARKED].count("]") == 1
    again = view_of(trimmer(home), wire, moves)  # another process, from the state on disk
    assert again.body == view.body


@pytest.mark.parametrize("wire", WIRES)
def test_switched_off_it_changes_no_byte(home: Path, wire: str) -> None:
    """Facts of another system, scenario S6: off is as if it did not exist."""
    moves = work(read(), edit(1), read(), edit(2))
    off = view_of(trimmer(home, superseded=False), wire, moves)
    assert off.body is not None and not is_spent(off.body.decode())
    whole = body_in(wire, moves)
    key = "input" if wire == "responses" else "messages"
    sent = [json.dumps(item) for item in json.loads(whole)[key]]
    for item in json.loads(off.body)[key]:
        text = json.dumps(item)
        assert text in sent or "[openmem: session_id" in text


@pytest.mark.parametrize("wire", WIRES)
def test_a_file_read_edited_and_read_again_keeps_the_newest_view_and_edit(
    home: Path, wire: str
) -> None:
    """Issue 4, part 6."""
    view = view_of(trimmer(home), wire, work(read(), edit(1), edit(2), read(TEXT + "newer")))
    first, one, two, last = calls_in(wire, view.body)[:4]
    assert is_spent(first[2]) and first[1] == {"file_path": PATH}
    assert is_spent(one[1]) and not is_spent(two[1])
    assert last[2] == TEXT + "newer"


@pytest.mark.parametrize("wire", WIRES)
def test_one_edit_after_the_only_view_takes_nothing(home: Path, wire: str) -> None:
    """Ours: view and edit together are what the model knows of the file."""
    view = view_of(trimmer(home), wire, work(read(), edit(1)))
    assert view.body is not None and not is_spent(view.body.decode())
    assert view.rows == ()


def test_a_view_goes_with_the_edits_behind_it(home: Path) -> None:
    """Ours: without the first edit it would tell of a file that never was."""
    view = view_of(trimmer(home), "messages", work(read(), edit(1), edit(2)))
    shown, one, two = calls_in("messages", view.body)[:3]
    assert is_spent(shown[2]) and is_spent(one[1]) and not is_spent(two[1])


def test_a_written_file_is_a_view_of_it(home: Path) -> None:
    """Issue 4, part 6: older full reads and edits."""
    write = step("Write", {"file_path": PATH, "content": TEXT}, "written")
    view = view_of(trimmer(home), "messages", work(read(), edit(1), write, edit(2)))
    shown, one, written, two = calls_in("messages", view.body)[:4]
    assert is_spent(shown[2]) and is_spent(one[1])
    assert written[1]["content"] == TEXT and not is_spent(two[1])


@pytest.mark.parametrize("wire", WIRES)
def test_of_equal_questions_the_newest_answer_stays(home: Path, wire: str) -> None:
    """Issue 4, part 6: duplicate read-only calls with the same arguments."""
    ask = {"pattern": "def main", "path": "/work", "output_mode": "content"}
    other = {**ask, "path": "/other"}
    moves = work(
        step("Grep", ask, "old " * 300), step("Grep", other, "other " * 300),
        step("Grep", ask, "new " * 300),
        step("Bash", {"command": "make check"}, "run one " * 200),
        step("Bash", {"command": "make check"}, "run two " * 200),
    )  # fmt: skip
    results = [result for _, _, result in calls_in(wire, view_of(trimmer(home), wire, moves).body)]
    assert is_spent(results[0]) and results[1] == "other " * 300 and results[2] == "new " * 300
    assert results[3] == "run one " * 200 and results[4] == "run two " * 200  # may change things


def test_only_plain_looks_of_the_shell_count_as_read_only(home: Path) -> None:
    """Ours: a command is a look when it is on a short list and nothing else stands in it."""
    cases = {
        "cat /work/a.py": True,
        "sed -n 1,80p /work/a.py": True,
        "rg --files /work": True,
        "cat a.py": False,  # after a `cd` it is another file
        "cat /work/a.py | sort -o /work/a.py": False,
        "cat /work/a.py > /work/b.py": False,
        "sed -i s/a/b/ /work/a.py": False,
        "rg --pre ./run x /work": False,
        "cat $(pick) /work": False,
        "git log /work": False,
    }
    for command, is_look in cases.items():
        twice = [step("Bash", {"command": command}, f"answer {n} " * 100) for n in range(2)]
        results = calls_in("messages", view_of(trimmer(home), "messages", work(*twice)).body)
        assert is_spent(results[0][2]) is is_look, command
        assert not is_spent(results[1][2])


def test_codex_reads_and_patches_by_name_of_the_file(home: Path) -> None:
    """Codex 0.171.0: patches are plain text and files are read with the shell."""

    def patch(number: int) -> list[dict[str, Any]]:
        change = f"@@\n-x{number}\n+{'y' * 600}\n"
        text = f"*** Begin Patch\n*** Update File: src/a.py\n{change}*** End Patch"
        out = json.dumps({"output": "Success. Updated", "metadata": {"exit_code": 0}})
        return [
            {"type": "custom_tool_call", "call_id": f"p{number}", "name": "apply_patch",
             "input": text, "status": "completed"},
            {"type": "custom_tool_call_output", "call_id": f"p{number}", "output": out},
        ]  # fmt: skip

    def cat(number: int) -> list[dict[str, Any]]:
        given = json.dumps({"cmd": "cat src/a.py", "workdir": "/work"})
        return [
            {"type": "function_call", "call_id": f"c{number}", "name": "exec_command",
             "arguments": given},
            {"type": "function_call_output", "call_id": f"c{number}",
             "output": f"Process exited with code 0\nOutput:\n{TEXT}"},
        ]  # fmt: skip

    def patch_by_shell(number: int) -> list[dict[str, Any]]:
        text = f"apply_patch <<'EOF'\n{patch(number)[0]['input']}\nEOF".replace("src/a.py", "b")
        return [
            {"type": "function_call", "call_id": f"s{number}", "name": "exec_command",
             "arguments": json.dumps({"cmd": text, "workdir": "/work"})},
            {"type": "function_call_output", "call_id": f"s{number}", "output": "Success."},
        ]  # fmt: skip

    value = json.loads(body_in("responses", work()))
    at = next(n for n, i in enumerate(value["input"]) if "second task" in json.dumps(i)) + 1
    value["input"][at:at] = [
        *cat(1), *patch(1), *patch(2), *cat(2), *patch_by_shell(1), *patch_by_shell(2),
    ]  # fmt: skip
    ask = Ask(sid=SID, body=json.dumps(value).encode(), force=True, keep_turns=2)
    body = trimmer(home).view(FORMS["responses"], ask).body
    first, one, two, last, by_shell, kept = calls_in("responses", body)[:6]
    assert is_spent(first[2]) and not is_spent(last[2])
    assert set(by_shell[1]) == {MARKED} and by_shell[1][MARKED].endswith("]\nb")
    assert "*** Begin Patch" in kept[1]["cmd"]
    assert one[1].startswith(MARKER_HEAD) and one[1].endswith("]\nsrc/a.py")
    assert "*** Begin Patch" not in one[1]  # no patch tool takes it
    assert two[1].startswith("*** Begin Patch")


@pytest.mark.parametrize(
    "words",
    [
        "File unchanged since last read. The content from the earlier Read is still current",
        "Wasted call — file unchanged since your last Read. Refer to that earlier tool_result",
        "<system-reminder>This file is already in your context</system-reminder>",
        "[Truncated: PARTIAL view — showing lines 1 to 4 of 900]\n" + TEXT,
        "no such line",
    ],
)
def test_an_answer_that_shows_no_file_replaces_no_view(home: Path, words: str) -> None:
    """Claude Code 2.1.332 answers a second read with a reference to the first one."""
    view = view_of(trimmer(home), "messages", work(read(), read(words)))
    assert calls_in("messages", view.body)[0][2] == TEXT


def test_a_failed_call_makes_nothing_worthless(home: Path) -> None:
    """Facts of another system, 2.5: judged by its result."""
    value = json.loads(body_in("messages", work(edit(1), edit(2), read(), read())))
    blocks = [b for m in value["messages"] if isinstance(m["content"], list) for b in m["content"]]
    results = [b for b in blocks if b["type"] == "tool_result"]
    for failed in (results[2], results[4]):  # the second edit and the second read
        failed["is_error"] = True
    ask = Ask(sid=SID, body=json.dumps(value).encode(), force=True, keep_turns=2)
    calls = calls_in("messages", trimmer(home).view(FORMS["messages"], ask).body)
    assert not any(is_spent(call) for call in calls)


def test_part_of_a_file_and_a_result_with_an_image_stay(home: Path) -> None:
    """Ours: a part is not in a later view for certain, an image is no text."""
    picture = Step(calls=[("Read", {"file_path": "/a.png"})], results=[["x" * 900, PNG]])
    view = view_of(
        trimmer(home), "messages", work(read(TEXT * 2, offset=9000), read(), picture, picture)
    )
    assert view.body is not None and not is_spent(view.body.decode())


@pytest.mark.parametrize("wire", WIRES)
def test_the_newest_steps_stay_whole(home: Path, wire: str) -> None:
    """Facts of another system, 2.5: nothing of the newest steps."""
    view = view_of(trimmer(home, keep_steps=4), wire, work(read(), edit(1), edit(2), read()))
    shown, one, *_ = calls_in(wire, view.body)
    assert is_spent(shown[2]) and not is_spent(one[1])


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_not_stored_word_for_word_stays(home: Path, wire: str) -> None:
    """Issue 4, part 4: bytes leave only with what covers them."""
    rows = Rows(holds=False)
    view = view_of(trimmer(home, rows), wire, work(read(), edit(1), edit(2), read()))
    assert rows.asked and view.rows == ()
    assert view.body is not None and not is_spent(view.body.decode())


@pytest.mark.parametrize("wire", WIRES)
def test_each_marker_names_the_row_that_holds_the_body(home: Path, wire: str) -> None:
    """Issue 4, part 6; the store counts calls and results of a message by themselves."""
    rows = Rows()
    both = Step(
        say=["two at once"],
        calls=[("Read", {"file_path": PATH}), ("Read", {"file_path": "/b"})],
        results=[[TEXT], [TEXT + "b"]],
    )
    view = view_of(trimmer(home, rows), wire, work(both, both))
    first, second = (result for _, _, result in calls_in(wire, view.body)[:2])
    named = [re.findall(r'id="([^"]+)"', text)[0] for text in (first, second)]
    expected = rows.find(SID, rows.asked[:2])
    assert named == [f"{SID}:{seq}" for seq in expected]
    assert {kind for _, kind, _ in rows.asked} == {"tool_result"}
    if wire == "messages":
        assert [place for _, _, place in rows.asked[:2]] == [0, 1]
    assert list(view.rows) == list(expected)


def test_a_call_id_that_is_used_again_names_only_one_call(home: Path) -> None:
    """Facts of another system, scenario S9."""
    text = body_in("messages", work(read("1" + TEXT), edit(1), read("2" + TEXT)))
    value = re.sub(rb'"toolu_(\d+)"', b'"toolu_same"', text)
    ask = Ask(sid=SID, body=value, force=True, keep_turns=2)
    body = trimmer(home).view(FORMS["messages"], ask).body
    assert body is not None
    results = [
        b["content"]
        for m in json.loads(body)["messages"]
        if isinstance(m["content"], list)
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    assert is_spent(results[0])
    assert "2" + TEXT in json.dumps(results[2]).replace("\\n", "\n")


@pytest.mark.parametrize("wire", WIRES)
def test_spent_to_do_states_go_and_the_newest_stays_word_for_word(home: Path, wire: str) -> None:
    """Issue 4, part 6."""
    states = [todo("pending", "pending"), todo("completed", "pending"), todo("completed", "done")]
    view = view_of(trimmer(home), wire, work(*states))
    first, second, third = (given for name, given, _ in calls_in(wire, view.body)[:3])
    assert set(first) == set(second) == {MARKED}
    assert third == states[2].calls[0][1]


@pytest.mark.parametrize("superseded", [True, False])
@pytest.mark.parametrize("wire", WIRES)
def test_the_newest_to_do_state_survives_a_trim_that_takes_its_call(
    home: Path, wire: str, superseded: bool
) -> None:
    """Issue 4, part 6: survives every trim verbatim, whether bodies are left out or not."""
    state = todo("completed", "in_progress")
    moves = work()
    moves[1:1] = [todo("pending", "pending"), state]
    trim = trimmer(home, superseded=superseded)
    view = view_of(trim, wire, moves)
    assert view.body is not None
    assert "TodoWrite" not in [name for name, _, _ in calls_in(wire, view.body)]
    told = [text for text in _texts(json.loads(view.body)) if "TodoWrite {" in text]
    assert len(told) == 1
    given, _ = json.JSONDecoder().raw_decode(told[0].partition("TodoWrite ")[2])
    assert given == state.calls[0][1]
    head = told[0].partition("]")[0]
    assert head.startswith(f'[openmem: session_id="{SID}"')
    # It stays as it was told, also when a newer one comes, until the next cut.
    later = [*moves, todo("completed", "completed"), Step(say=["ok"]), Said(pieces=["more"])]
    ask = Ask(sid=SID, body=body_in(wire, later), now=2.0)
    again = trimmer(home, superseded=superseded).view(FORMS[wire], ask).body
    assert again is not None and told[0] in _texts(json.loads(again))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else []


def test_open_tasks_and_the_newest_plan_survive_and_finished_tasks_do_not(home: Path) -> None:
    """Claude Code 2.1.332 keeps its list in calls of one task each, and a plan of its own."""

    def task(number: int) -> Step:
        given = {"subject": f"task {number}", "description": "d"}
        return step("TaskCreate", given, f"Task #{number} created successfully: task {number}")

    def status(number: int, word: str) -> Step:
        return step("TaskUpdate", {"taskId": str(number), "status": word}, "Updated")

    moves = work()
    moves[1:1] = [
        step("ExitPlanMode", {"plan": "# The older plan"}, "approved"),
        step("ExitPlanMode", {"plan": "# The plan\n1. all of it"}, "approved"),
        task(1), task(2), task(3),
        status(1, "completed"), status(2, "pending"), status(2, "in_progress"),
    ]  # fmt: skip
    view = view_of(trimmer(home), "messages", moves)
    assert view.body is not None
    (told,) = [text for text in _texts(json.loads(view.body)) if "TaskCreate" in text]
    assert "Task #2 created" in told and "Task #3 created" in told and "Task #1" not in told
    assert '"in_progress"' in told and '"pending"' not in told and '"completed"' not in told
    assert "# The plan\\n1. all of it" in told and "older plan" not in told


def test_thinking_beside_a_call_is_never_touched(home: Path) -> None:
    """Decision table, profile C: in an open loop the thinking stays, and so does its message."""
    steps = [
        Step(think="hm", calls=one.calls, results=one.results)
        for one in (edit(1), edit(2), edit(3), read())
    ]
    moves = work(*steps)[:-3]  # ends with a result: an open loop
    budget = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "model": "claude-sonnet-4-5"}
    body = body_in("messages", moves, **budget)
    ask = Ask(sid=SID, body=body, force=True, keep_turns=1)
    sent = trimmer(home).view(FORMS["messages"], ask).body
    assert sent is not None
    before = [m for m in json.loads(body)["messages"] if m["role"] == "assistant"]
    after = [m for m in json.loads(sent)["messages"] if m["role"] == "assistant"]
    with_thinking = [m for m in after if any(b["type"] == "thinking" for b in m["content"])]
    assert with_thinking and all(message in before for message in with_thinking)


@pytest.mark.parametrize("wire", WIRES)
def test_a_marker_is_no_argument_of_any_tool(home: Path, wire: str) -> None:
    """Issue 4, part 6: one inert marker; facts of another system, its report 431."""
    view = view_of(trimmer(home), wire, work(edit(1), edit(2), edit(3), todo("a"), todo("b")))
    for name, given, _ in calls_in(wire, view.body):
        if not is_spent(given):
            continue
        needed = {"Edit": {"file_path", "old_string", "new_string"}, "TodoWrite": {"todos"}}[name]
        assert needed - set(given)  # a copy of it lacks what the tool requires
        assert set(given) <= {"file_path", MARKED}
    assert len(marker("x" * 64, 1_234_567)) <= MARKER_CHARACTERS


def test_a_damaged_or_older_state_file_is_read(home: Path) -> None:
    """Issue 4, bad input; a state of before this feature has no such key."""
    moves = work(read(), edit(1), edit(2), read())
    body = view_of(trimmer(home), "messages", moves).body
    (file,) = home.glob(".local/share/openmem/context/sessions/*.trim.json")
    state = json.loads(file.read_text())
    (thread,) = state["threads"].values()
    spent = thread["cut"].pop("reduced")
    assert len(spent["spent"]) == 2
    file.write_text(json.dumps(state))
    ask = Ask(sid=SID, body=body_in("messages", moves), may_cut=False)
    plain = trimmer(home).view(FORMS["messages"], ask).body
    assert plain is not None and not is_spent(plain.decode())
    damages: list[Any] = [{"spent": 3}, {**spent, "spent": [{"item": "x"}]}, []]
    for damage in damages:
        thread["cut"]["reduced"] = damage
        file.write_text(json.dumps(state))
        view = trimmer(home).view(FORMS["messages"], ask)
        assert view.problem == "damaged" and view.body is None
    thread["cut"]["reduced"] = spent
    file.write_text(json.dumps(state))
    assert trimmer(home).view(FORMS["messages"], ask).body == body


def test_arguments_that_are_no_json_or_no_object_are_left_alone(home: Path) -> None:
    """Issue 4, bad input."""
    value = json.loads(body_in("chat", work(edit(1), edit(2), edit(3))))
    calls = [m["tool_calls"][0]["function"] for m in value["messages"] if m.get("tool_calls")]
    calls[1]["arguments"] = "{cut short " + "x" * 900
    calls[2]["arguments"] = json.dumps(["a list", "x" * 900])
    ask = Ask(sid=SID, body=json.dumps(value).encode(), force=True, keep_turns=2)
    body = trimmer(home).view(FORMS["chat"], ask).body
    assert body is not None
    sent = [
        m["tool_calls"][0]["function"] for m in json.loads(body)["messages"] if m.get("tool_calls")
    ]
    assert calls[1] in sent and calls[2] in sent
    with pytest.raises(NotTrimmable):
        trimmer(home).view(FORMS["chat"], Ask(sid=SID, body=b'{"messages":3}'))
