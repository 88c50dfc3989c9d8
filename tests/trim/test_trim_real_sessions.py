"""The trim over real sessions of three agents, played again request by request.

Issue 4, Show it: the validator never fails, no message is uncovered, the prefix is stable,
untrimmed bytes are equal, and a restart at any request changes nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from openmem.context.trim.legality import first_fault
from openmem.context.trim.trimmer import Ask
from openmem.context.trim.wire.responses import ResponsesFormat
from tests.fakes.claude_conversation import ClaudeConversation
from tests.fakes.real_sessions import Turn, claude_turns, codex_items, opencode_turns
from tests.fakes.session_files import FOLDER, needs_session_files
from tests.fakes.strict.reasoning import items_of, pairing_fault, prefix_of, seal, stale_reasoning
from tests.trim import test_trim_conversations as messages
from tests.trim import test_trim_openai as responses

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(600),
    needs_session_files,
]

SETTINGS = {"soft_tokens": 30_000, "hard_tokens": 45_000, "compress_tokens": 2_000}
_SAID_GONE = re.compile(r"(\d+) earlier messages? (?:is|are) no longer in this request")


def _files(*patterns: str) -> list[Path]:
    found = [path for pattern in patterns for path in FOLDER.glob(pattern)]
    return sorted(path for path in found if path.stat().st_size > 100_000)


def _play(turns: list[Turn], drive: messages.Drive) -> None:
    home = Path("/")
    for number, turn in enumerate(turns):
        if turn.begins_anew:
            drive.client.messages = []
        for said in turn.said:
            drive.client.messages.append({"role": "user", "content": said})
        before = len(drive.views)
        drive.send(turn.reply, thinks=turn.thinks)
        view, body = drive.views[-1], drive.sent[-1]
        _check_covered(drive, before)
        if number % 9 == 0 and view.is_cut and not view.made_cut:
            _check_restart(drive, turn, home)
        assert first_fault(json.dumps(body).encode()) == ""


def _check_covered(drive: messages.Drive, number: int) -> None:
    """What a view leaves out is told of by its pointer, with its number."""
    view, text = drive.views[number], json.dumps(drive.sent[number]["messages"])
    told = _SAID_GONE.search(text)
    assert bool(told) == bool(view.gone)
    if told:
        assert int(told.group(1)) <= len(view.gone)


def _check_restart(drive: messages.Drive, turn: Turn, home: Path) -> None:
    """A trim that was begun anew shows the last request the same way."""
    client = drive.client
    answer = client.messages.pop()
    ask = Ask(sid="s1", body=client.bytes(), may_cut=False, now=1e9)
    client.messages.append(answer)
    anew = messages.trimmer(home, **SETTINGS)
    assert anew.view(messages.FORM, ask).body == drive.trim.view(messages.FORM, ask).body


def _breaks(drive: messages.Drive, anew: set[int]) -> list[int]:
    found = []
    for number in range(1, len(drive.sent)):
        if drive.views[number].made_cut or number in anew:
            continue
        before = messages.prefix_of(drive.sent[number - 1])
        if messages.prefix_of(drive.sent[number])[: len(before)] != before:
            found.append(number)
    return found


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5"])
@pytest.mark.parametrize(
    "path", _files("claude-code/*.jsonl", "opencode/oc0[134]*.json"), ids=lambda path: path.stem
)
def test_a_real_session_is_trimmed_and_keeps_every_promise(
    home: Path, path: Path, model: str
) -> None:
    """Issue 4, Show it: property tests over real conversations."""
    is_claude = path.suffix == ".jsonl"
    turns = claude_turns(path) if is_claude else opencode_turns(path)
    if len(turns) < 5:
        pytest.skip("hardly anything was said in it")
    drive = messages.Drive(ClaudeConversation(model=model), messages.trimmer(home, **SETTINGS))
    _play(turns, drive)
    assert [refusal for trimmed, refusal in drive.refused if trimmed] == []
    anew = {number for number, turn in enumerate(turns) if turn.begins_anew}
    assert _breaks(drive, anew) == []
    for view, body in zip(drive.views, drive.sent, strict=True):
        assert view.thresholds is not None
        newest = len(
            json.dumps(body["messages"][-7:])
        )  # three steps stay whole, whatever they hold
        assert view.tokens_after <= view.thresholds.hard + newest // 2
    _written_once(turns, drive)


def _written_once(turns: list[Turn], drive: messages.Drive) -> None:
    """The last prompt that a person typed is in the last request, word for word."""
    text = json.dumps(drive.sent[-1]["messages"], ensure_ascii=False)
    said = [block["text"] for turn in turns for said in turn.said for block in said
            if block["type"] == "text"]  # fmt: skip
    prompts = [one for one in said if not one.startswith("<") and len(one) < 4_000]
    if prompts and not any(turn.begins_anew for turn in turns):
        assert json.dumps(prompts[0], ensure_ascii=False)[1:-1] in text


@pytest.mark.parametrize("path", _files("codex/*.jsonl"), ids=lambda path: path.stem)
def test_a_real_session_of_codex_is_trimmed_and_keeps_every_promise(home: Path, path: Path) -> None:
    """Issue 4, Show it: the same for the Responses format, with what was really called."""
    trim = responses.trimmer(home, **SETTINGS)
    items: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []
    made: list[bool] = []
    form = ResponsesFormat()
    for number, (new, output, anew) in enumerate(codex_items(path)):
        items = [*([] if anew else _answered(items, new)), *_known(new, [] if anew else items)]
        raw = json.dumps({"model": "gpt-6.2-sol", "store": False, "input": items}).encode()
        assert pairing_fault(json.loads(raw)) == ""
        ask = Ask(sid="s", body=raw, now=10.0 * number)
        view = trim.view(form, ask)
        body = json.loads(view.body or raw)
        assert pairing_fault(body) == "" and stale_reasoning(body) == []
        assert (responses.POINTER in json.dumps(body)) == bool(view.gone)
        if number % 9 == 0 and view.is_cut and not view.made_cut:
            again = Ask(sid="s", body=raw, now=1e9, may_cut=False)
            anew_trim = responses.trimmer(home, **SETTINGS)
            assert anew_trim.view(form, again).body == trim.view(form, again).body
        trim.report("s", view.thread, view.weight, len(view.body or raw) // 4)
        if sent and not view.made_cut and not anew:
            assert body["input"][: len(sent[-1]["input"])] == sent[-1]["input"]
        sent.append(body)
        made.append(view.made_cut)
        sealed = seal(prefix_of(body, items_of(body)))
        items = [*items, *(
            {**one, "encrypted_content": sealed} if one.get("type") == "reasoning" else one
            for one in _without_second_thoughts(output)
        )]  # fmt: skip
    if sum(len(json.dumps(one)) for one in items) > 4 * SETTINGS["hard_tokens"] + 40_000:
        assert any(made)


def _without_second_thoughts(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an output with its first reasoning only: the later ones stand on what is before."""
    seen = False
    kept = []
    for item in output:
        if item.get("type") == "reasoning":
            if seen or kept:
                continue
            seen = True
        kept.append(item)
    return kept


def _known(new: list[dict[str, Any]], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the new items but for outputs of calls that are not there."""
    calls = {str(item.get("call_id")) for item in items if str(item["type"]).endswith("_call")}
    return [
        item
        for item in new
        if not str(item.get("type")).endswith("_output") or str(item.get("call_id")) in calls
    ]


def _answered(items: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items but for calls that nothing answers."""
    outputs = {str(one.get("call_id")) for one in [*items, *new]
               if str(one.get("type")).endswith("_output")}  # fmt: skip
    return [
        one
        for one in items
        if not str(one.get("type")).endswith("_call") or str(one.get("call_id")) in outputs
    ]
