"""The real Claude Code in long sessions over the threshold, before the strict service.

Every model id that issue 4 names, on an old account and a new one, with resumes, the person's own
hooks, effort, sub-agents, a model switch and `/compact`: nothing that openmem changed is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.faults import NAMED
from tests.fakes.long_session import POINTER, LongSession, a_long_session
from tests.fakes.openmem import needs_openmem
from tests.fakes.scene import RUN
from tests.fakes.script import Call, Step
from tests.fakes.strict.rules import Account

pytestmark = [
    pytest.mark.real_agent,
    pytest.mark.heavy,
    pytest.mark.timeout(600),
    needs_openmem,
]

SOFT, HARD = 26_000, 34_000
MODELS = (
    "claude-opus-4-5",
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-sonnet-4-6",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-1",
)
# One of each shape of request and age of account; the other twelve run where somebody asks.
ALWAYS = (
    ("claude-opus-4-5", "old"),
    ("claude-sonnet-4-6", "new"),
    ("claude-opus-5-5", "new"),
    ("claude-fable-5-1", "old"),
)
WHEN_ASKED = pytest.mark.skipif(
    not os.environ.get("OPENMEM_TEST_EVERY_MODEL"),
    reason="minutes more of the same kind (2026-11-30); OPENMEM_TEST_EVERY_MODEL=1 runs it",
)
EVERY = [
    pytest.param(model, age, marks=() if (model, age) in ALWAYS else WHEN_ASKED)
    for model in MODELS
    for age in ("new", "old")
]
SECRET_PLACE = "the gauge reads 7731-KESTREL-0x5f"


def account(model: str, age: str) -> Account:
    # Fable's nudge is refused with or without us by the strict reading: facts, 2.3.
    return Account(age=age, nudge_exempt=model == "claude-fable-5-1")  # type: ignore[arg-type]


def _search(query: str) -> Step:
    call = Call(name="mcp__openmem__smart_compact_search", input={"query": query})
    return Step(think="I look it up", calls=(call,))


def _found(session: LongSession) -> str:
    """Return the newest tool result that the model was sent."""
    for message in reversed(session.records[-1].messages):
        content = message["content"]
        for block in content if isinstance(content, list) else []:
            if block["type"] == "tool_result":
                return json.dumps(block["content"], ensure_ascii=False)
    return ""


def _events(session: LongSession, kind: str) -> list[dict[str, Any]]:
    path = session.scene.store(session.sid)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute("SELECT * FROM events WHERE kind = ?", (kind,))
        return [dict(row) for row in found]


def assert_nothing_of_ours_failed(session: LongSession) -> None:
    assert session.refused_by_us == []
    faults = [event["error"] for event in _events(session, "fail_open")]
    assert [fault for fault in faults if fault != "CommitTookTooLong"] == []
    assert session.scene.sink.asked == []


@pytest.mark.parametrize(("model", "age"), EVERY)
def test_a_long_session_is_trimmed_and_nothing_of_ours_is_refused(
    tmp_path: Path, model: str, age: str
) -> None:
    """Issue 4, Show it: resume, hooks, effort, sub-agent, compaction; an exact value comes back."""
    with a_long_session(
        tmp_path, model=model, account=account(model, age), soft=SOFT, hard=HARD
    ) as session:
        session.turn("go", Step(think="hm", say="Ready."))
        session.turn(SECRET_PLACE, Step(think="hm", say="Noted."))
        for number in range(4):
            assert session.work(f"part {number}", 3) == f"Done with part {number}."
        assert session.trimmed, "nothing was trimmed"
        last = json.dumps(session.records[-1].messages)
        assert "7731-KESTREL" not in last
        assert session.turn("what did the gauge read?", _search("gauge"), Step(say="That.")) == (
            "That."
        )
        assert SECRET_PLACE in _found(session)
        session.work("the long part", 10)
        errand = json.dumps([{"say": "The parser is fine."}])
        task = {
            "description": "look",
            "prompt": f"Look at the parser. @@play {errand}",
            "subagent_type": "general-purpose",
        }
        agent = Step(think="I delegate", calls=(Call(name="Agent", input=task),))
        session.turn("have it looked at", agent, Step(say="It is fine."))
        assert any(r.request.header("x-claude-code-agent-id") for r in session.records)
        assert "the linter found nothing" in json.dumps(session.records[-1].messages)
        session.turn("harder now", Step(say="Yes."), options=("--effort", "high"))
        session.work("after the effort", 3)
        refused = len(session.refused_at_all)
        assert refused == 0, session.refused_at_all
        asked = len(session.records)
        session.turn("/compact")
        summary = json.dumps(session.records[asked].messages)
        assert "CRITICAL: Respond with TEXT ONLY" in summary and POINTER in summary
        asked = len(session.records)
        session.work("after the summary", 3)
        anew = json.dumps(session.records[asked].messages)
        assert "This session is being continued" in anew and POINTER not in anew
        assert_nothing_of_ours_failed(session)
        # The kept answer's old thinking is refused once, with or without us; the client heals.
        assert len(session.refused_at_all) <= 1
        assert len(_events(session, "trim")) >= 2


@pytest.mark.parametrize("age", ["new", "old"])
def test_a_trimmed_session_goes_through_other_models_and_back(tmp_path: Path, age: str) -> None:
    """Issue 4, Show it: model switch; facts 2.3: an older shape renders all anew."""
    with a_long_session(
        tmp_path,
        model="claude-opus-5-5",
        account=account("claude-opus-5-5", age),
        soft=SOFT,
        hard=HARD,
    ) as session:
        session.turn("go", Step(think="hm", say="Ready."))
        for number, model in enumerate(
            (
                "claude-opus-5-5",
                "claude-haiku-5-5",
                "claude-opus-5-5",
                "claude-sonnet-4-5",
                "claude-opus-5-5",
                "claude-sonnet-4-6",
                "claude-sonnet-5-5",
            )
        ):
            session.model = model
            session.work(f"part {number} on {model}", 4)
        assert_nothing_of_ours_failed(session)
        assert session.refused_at_all == []
        assert len(_events(session, "trim")) >= 3


def test_a_prompt_that_the_service_calls_too_long_is_trimmed_below_what_it_said(
    tmp_path: Path,
) -> None:
    """Magic-context facts, S13: the limit is learned from the refusal's own words."""
    with a_long_session(
        tmp_path,
        model="claude-opus-5-5",
        account=account("claude-opus-5-5", "new"),
        soft=60_000,
        hard=90_000,
    ) as session:
        session.turn("go", Step(think="hm", say="Ready."))
        session.work("part 0", 4)
        server = session.scene.server
        server.faults[RUN, len(session.records) + 1] = NAMED["too-long"]
        session.work("part 1", 2)
        session.work("part 2", 2)
        assert_nothing_of_ours_failed(session)


def test_without_openmem_in_between_the_same_session_is_never_trimmed(tmp_path: Path) -> None:
    """House style: for each "does" a "does not": what is counted as ours is ours."""
    with a_long_session(
        tmp_path,
        model="claude-opus-5-5",
        account=account("claude-opus-5-5", "new"),
        soft=500_000,
        hard=500_000,
    ) as session:
        for number in range(3):
            session.work(f"part {number}", 3)
        assert session.trimmed == [] and session.refused_at_all == []
        assert not any(POINTER in json.dumps(record.json) for record in session.records)


def test_a_person_trims_by_word_and_by_command_and_sees_what_it_spared(tmp_path: Path) -> None:
    """Issue 4, What a user can do: /smart-compact, context trim --keep N, context status."""
    with a_long_session(
        tmp_path,
        model="claude-opus-5-5",
        account=account("claude-opus-5-5", "new"),
        soft=400_000,
        hard=500_000,
    ) as session:
        openmem = session.scene.openmem
        prices = session.scene.home / "prices.toml"
        prices.write_text('[models."claude"]\ninput = 5.0\noutput = 25.0\n')
        openmem.ok("config", "set", "context.price_file", str(prices))
        for number in range(5):
            session.work(f"part {number}", 2)
        assert session.trimmed == []
        session.turn("/smart-compact")
        session.work("after the word", 2)
        assert session.trimmed and "part 1 0" not in json.dumps(session.records[-1].messages)
        for number in range(5, 9):
            session.work(f"part {number}", 2)
        openmem.ok("context", "trim", session.sid[:8], "--keep", "2")
        session.work("after the command", 2)
        last = json.dumps(session.records[-1].messages)
        assert "line of part 8 0" in last and "line of part 6 0" not in last
        assert_nothing_of_ours_failed(session)
        data = openmem.ok("context", "status", "--json").data
        assert isinstance(data, dict)
        (told,) = data["sessions"]
        assert (told["trims"], told["bust_reasons"]) == (2, [["trim", 2]])
        assert told["removed_tokens"] > 10_000 and told["removed_messages"] > 20
        sums = [told[f"{name}_tokens"] for name in ("input", "cache_read", "cache_creation")]
        assert told["cache_read_tokens"] / sum(sums) > 0.6
        assert told["limit_tokens"] == 200_000 and 0 < told["prompt_tokens"] < 60_000
        today = data["today"]
        assert today["untrimmed_tokens"] > today["input_tokens"] > 100_000
        assert today["dollars"] > 0 and today["untrimmed_dollars"] > 0
        text = openmem.ok("context", "status").stdout
        assert "2 trim" in text and "$" in text and "fail-opens today: 0" in text
        page = session.scene.home / "report.html"
        openmem.ok("context", "report", "--session", session.sid[:8], "--html", str(page))
        assert page.read_text().count("T trim") >= 1
