"""The context bench: its generator, cache, script and client by themselves, and a run at the least
size through the real proxy and the real MCP server."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from openmem.base.errors import Usage
from openmem.bench.context import bench
from openmem.bench.context.bench import LARGE_WINDOW, VARIANTS, Wanted, run, run_one
from openmem.bench.context.cache import LOOKBACK, TTL_SECONDS, Piece, PromptCache
from openmem.bench.context.conversation import Thread, text_block
from openmem.bench.context.log_triage import batch_size
from openmem.bench.context.measures import prompts, scores
from openmem.bench.context.model import READY, SEARCH, SQL, UNKNOWN, Script
from openmem.bench.context.provider import Provider, Refused
from openmem.bench.context.report import faults_of
from openmem.bench.context.session import Sent
from openmem.bench.context.task import QUESTIONS
from openmem.bench.context.tasks import task_of
from openmem.bench.context.tokens import tokens_of
from openmem.bench.context.toolbox import AGENT_TOOLS
from openmem.bench.stage import Stage
from openmem.cli.app import run as command_line

WINDOW = 32_768


# --- the tasks


@pytest.mark.parametrize("level", ["R130", "R520", "L160", "L640"])
def test_a_task_is_the_same_each_time_and_another_with_another_seed(level: str) -> None:
    """ContextBench: a task is its family, level and seed."""
    assert task_of(level, 42) == task_of(level, 42)
    assert task_of(level, 42).operations != task_of(level, 43).operations


@pytest.mark.parametrize(
    ("level", "operations"), [("R130", 26), ("R1000", 34), ("L160", 36), ("L12800", 262)]
)
def test_a_task_has_as_many_operations_as_the_published_one(level: str, operations: int) -> None:
    """ContextBench, the data set's n_ops: batches, then 24 questions."""
    task = task_of(level, 42)
    assert len(task.operations) == operations and len(task.questions) == QUESTIONS
    for left, operation in zip(range(operations - 1, -1, -1), task.operations, strict=True):
        assert f"({left} op(s) remaining after this) ===\n\n" in operation.text


def test_every_answer_stands_in_the_stream_once() -> None:
    """ContextBench: keys are distinct and every line ends in a random tag, so no guess hits."""
    task = task_of("R520", 42)
    stream = "\n".join(op.text for op in task.operations if op.question is None)
    for question in task.questions:
        key = question.label.removeprefix("key=")
        assert re.findall(rf"^SET {key} = (.*)$", stream, re.M) == [question.answer]
        assert re.search(r" #[0-9a-f]{8}$", question.answer)
    keys = [question.label for question in task.questions]
    assert len(set(keys)) == len(keys)


def test_half_of_a_log_task_counts_and_the_counts_are_right() -> None:
    """ContextBench, log-triage: lookups and counts; the scopes are ours."""
    task = task_of("L640", 42)
    stream = "\n".join(op.text for op in task.operations if op.question is None)
    lines = re.findall(r"^(\S+) \[(\w+)\] (\S+) req=", stream, re.M)
    assert len(lines) == 640
    scopes = 0
    for operation in task.operations:
        asked = operation.question
        if asked is None or asked.kind != "count":
            continue
        level = re.search(r"\[(\w+)\]", operation.text)
        service = re.search(r'service "(\S+)"', operation.text)
        span = re.search(r"from (\S+Z) to (\S+Z), both", operation.text)
        counted = [
            at
            for at, of_level, of_service in lines
            if (not level or of_level == level.group(1))
            and (not service or of_service == service.group(1))
            and (not span or span.group(1) <= at <= span.group(2))
        ]
        assert asked.answer == str(len(counted)), operation.text
        scopes += 1
    assert scopes == QUESTIONS // 2
    assert batch_size(160) == 14 and batch_size(12_800) == 54 and batch_size(2_000) == 26


@pytest.mark.parametrize("size", ["", "X100", "R10", "R1", "L999999", "r520", "R520 "])
def test_an_unknown_size_is_wrong_usage(size: str) -> None:
    """House style, errors."""
    with pytest.raises(Usage, match="no size"):
        task_of(size, 42)


# --- the cache


def _pieces(*tokens: int, marks: tuple[int, ...] = (), start: int = 0) -> list[Piece]:
    return [
        Piece(digest=start + number + 1, tokens=size, is_marked=number in marks)
        for number, size in enumerate(tokens)
    ]


def test_a_prompt_that_goes_on_reads_what_the_last_one_wrote() -> None:
    """Caching rules, 1.6: a breakpoint finds an entry at itself or up to 20 pieces before."""
    cache = PromptCache()
    first = cache.serve(_pieces(600, 100, marks=(1,)), 0.0)
    assert (first.read, first.written, first.uncached) == (0, 700, 0)
    second = cache.serve(_pieces(600, 100, 50, 7, marks=(2,)), 1.0)
    assert (second.read, second.written, second.uncached) == (700, 50, 7)


@pytest.mark.parametrize(("between", "read"), [(LOOKBACK - 1, 600), (LOOKBACK + 1, 0)])
def test_an_entry_too_far_back_is_not_found(between: int, read: int) -> None:
    """Caching rules, 1.6: the lookback is 20 blocks."""
    cache = PromptCache()
    cache.serve(_pieces(600, marks=(0,)), 0.0)
    sizes = (600, *[5] * between, 5)
    used = cache.serve(_pieces(*sizes, marks=(len(sizes) - 1,)), 1.0)
    assert used.read == read and used.prompt == sum(sizes)


@pytest.mark.parametrize(("idle", "read"), [(TTL_SECONDS, 600), (TTL_SECONDS + 1, 0)])
def test_an_entry_lives_five_minutes_from_its_last_use(idle: float, read: int) -> None:
    """Caching rules, 1.6: reading renews."""
    cache = PromptCache()
    cache.serve(_pieces(600, marks=(0,)), 0.0)
    cache.serve(_pieces(600, marks=(0,)), 200.0)
    assert cache.serve(_pieces(600, marks=(0,)), 200.0 + idle).read == read


def test_small_prompts_and_unmarked_ones_are_not_kept() -> None:
    """Caching rules, 1.6: at least 512 tokens, and only what is marked."""
    cache = PromptCache()
    for _ in range(2):
        assert cache.serve(_pieces(511, marks=(0,)), 0.0).read == 0
        assert cache.serve(_pieces(900, start=50), 0.0).uncached == 900


# --- the provider and the client


def _thread(**more: Any) -> Thread:
    return Thread(session_id="s", folder="/project", tools=AGENT_TOOLS, **more)


def _talk(thread: Thread, provider: Provider, *prompts: str) -> None:
    for prompt in prompts:
        thread.say(prompt)
        blocks = provider.serve(thread.body(), number=len(provider.log), thread="").blocks
        thread.answer(blocks)
        if any(block["type"] == "tool_use" for block in blocks):
            opened = [block["id"] for block in blocks if block["type"] == "tool_use"]
            thread.results([(name, "READY_FOR_NEXT_OP") for name in opened])
            blocks = provider.serve(thread.body(), number=len(provider.log), thread="").blocks
            thread.answer(blocks)


def test_a_plain_history_is_read_from_the_cache_in_either_form() -> None:
    """Newest-models facts 2.3: markers move and a string is one text block; neither is a change."""
    provider = Provider(Script().reply, window=0)
    thread = _thread()
    task = task_of("R130", 42)
    _talk(thread, provider, "Begin.", *(op.text for op in task.operations[:3]))
    thread.resume(as_blocks=True)
    _talk(thread, provider, task.operations[3].text)
    thread.resume(as_blocks=False)
    _talk(thread, provider, task.operations[4].text)
    for before, request in itertools.pairwise(provider.log):
        assert request.kept == before.used.prompt == request.before
        assert request.used.read == before.used.prompt


@pytest.mark.parametrize("place", ["first prompt", "an answer", "system"])
def test_a_changed_prefix_is_not_read_and_its_thinking_is_refused(place: str) -> None:
    """Newest-models facts 1.2: an edit of an earlier message, or of system, is a change."""
    provider = Provider(Script().reply, window=0)
    thread = _thread()
    _talk(thread, provider, "Begin.", "=== a (1 op(s) remaining after this) ===\n\nlines")
    if place == "first prompt":
        thread.messages[0]["content"][1] = text_block("Begin again.")
    elif place == "an answer":
        thread.messages[2]["content"][1] = text_block("Something else.")
    else:
        thread.tools = AGENT_TOOLS[:-1]
    thread.rewrite(thread.messages)
    thread.say("=== b (0 op(s) remaining after this) ===\n\nlines")
    with pytest.raises(Refused, match="bound to a different conversation"):
        provider.serve(thread.body(), number=9, thread="")
    assert provider.log[-1].kept < provider.log[-2].used.prompt


def test_a_prompt_above_the_window_is_refused_in_the_providers_words() -> None:
    """Newest-models facts 2.4: prompt is too long: A > B."""
    provider = Provider(Script().reply, window=1_000)
    with pytest.raises(Refused, match=r"prompt is too long: \d+ tokens > 1000 maximum"):
        _talk(_thread(), provider, "word " * 3_000)


# --- the scripted model


def _asking(question: str, *said: str, tools: tuple[str, ...] = (), told: str = "") -> Any:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": text} for text in (*said, question)
    ]
    if told:
        messages.insert(1, {"role": "system", "content": [text_block(told)]})
    return {
        "system": [text_block("x-anthropic-billing-header: made up;")],
        "tools": [{"name": name} for name in tools],
        "messages": messages,
    }


GET = "=== get 0 (1 op(s) remaining after this) ===\n\nGET K00007\n(Report it.)"
COUNT = (
    "=== query 1 (1 op(s) remaining after this) ===\n\n"
    "QUERY 1: How many [WARN] log lines are there?\n(Answer.)"
)
TOLD = 'Call smart_compact_search or smart_compact_sql with session_id="s-1".'
BATCH = (
    "=== log batch (lines {}-{}) (3 op(s) remaining after this) ===\n\n"
    "2026-06-20T14:00:01Z [WARN] auth req=0badcafe slow retry miss #0badf00d"
)


def _first_text(blocks: list[dict[str, Any]]) -> str:
    return str(next(block["text"] for block in blocks if block["type"] == "text"))


def test_the_model_answers_from_its_request_when_the_line_is_there() -> None:
    """Facts, scripted model: what is visible is answered, whatever tools there are."""
    said = _asking(GET, "SET K00007 = birch fern #00000007", tools=(SEARCH,), told=TOLD)
    blocks = Script().reply(said)
    assert "\nbirch fern #00000007\n" in _first_text(blocks)
    assert [block["name"] for block in blocks if block["type"] == "tool_use"] == ["Bash"]


def test_the_model_looks_up_what_it_cannot_see_only_when_it_was_told_how() -> None:
    """Facts, scripted model: a tool must be offered and named; else UNKNOWN."""
    for tools, told, calls in (
        ((SEARCH,), TOLD, [SEARCH]),
        ((SEARCH,), "", ["Bash"]),
        ((), TOLD, ["Bash"]),
    ):
        blocks = Script().reply(_asking(GET, "nothing", tools=tools, told=told))
        assert [block["name"] for block in blocks if block["type"] == "tool_use"] == calls
        assert (UNKNOWN in _first_text(blocks)) == (calls == ["Bash"])


def test_the_forgetful_model_needs_the_pointer_to_name_the_tool() -> None:
    """Facts, variants: what surrounds the session is forgotten; the pointer stands in the turn."""
    asked = _asking(GET, "nothing", tools=(SEARCH,), told=TOLD)
    assert UNKNOWN in _first_text(Script(forgetful=True).reply(asked))
    asked["messages"][0]["content"] = f"[openmem: {TOLD}]"
    (call,) = [b for b in Script(forgetful=True).reply(asked) if b["type"] == "tool_use"]
    assert call["name"] == SEARCH and call["input"]["session_id"] == "s-1"


def test_the_model_counts_only_when_no_batch_is_missing() -> None:
    """Facts, scripted model: all batches visible, count; else SQL; without it UNKNOWN."""
    whole = _asking(COUNT, BATCH.format(0, 13), BATCH.format(14, 27))
    assert "\n2\n" in _first_text(Script().reply(whole))
    gap = _asking(COUNT, BATCH.format(0, 13), BATCH.format(28, 41))
    assert UNKNOWN in _first_text(Script().reply(gap))
    offered = _asking(COUNT, BATCH.format(28, 41), tools=(SQL, SEARCH), told=TOLD)
    (call,) = [b for b in Script().reply(offered) if b["type"] == "tool_use"]
    assert call["name"] == SQL and "[WARN]" in call["input"]["sql"]


def test_the_echoing_model_repeats_the_lines_it_found() -> None:
    """Facts, variants: the first system counted such repeats again."""
    said = _asking(GET, "SET K00007 = birch fern #00000007")
    text = json.dumps(Script(echoing=True).reply(said))
    assert text.count("SET K00007 = birch fern #00000007") == 2
    assert READY in text


# --- the measures


def test_scores_are_of_exact_answers_and_missing_ones_are_unknown() -> None:
    """ContextBench: exact value, tag included."""
    task = task_of("L160", 42)
    right = {question.label: question.answer for question in task.questions}
    assert [score.share for score in scores(task, right)[:2]] == [1.0, 1.0]
    first = task.questions[0]
    off = {**right, first.label: right[first.label] + " "}
    lookups, counts, unknown = scores(task, off)
    assert lookups.right + counts.right == QUESTIONS - 1 and unknown == 0
    assert scores(task, {})[2] == QUESTIONS


def test_a_prefix_that_is_lost_without_a_trim_is_counted() -> None:
    """Issue 4: degraded requests beyond one per trim, written beyond need, head unchanged."""
    provider = Provider(Script().reply, window=0)
    thread = _thread()
    task = task_of("R130", 42)
    _talk(thread, provider, "Begin.", task.operations[0].text)
    thread.messages[0]["content"][1] = text_block("Begun.")
    thread.rewrite([m for m in thread.messages if m["role"] != "assistant"])
    thread.say("=== b (0 op(s) remaining after this) ===\n\nlines")
    provider.serve(thread.body(), number=99, thread="")
    log = provider.log
    sent = [
        Sent(
            number=request.number,
            thread="",
            messages=request.messages,
            is_rewritten=False,
            milliseconds=1.0,
            refusal="",
        )
        for request in log
    ]
    found = prompts(log, sent, soft=100, hard=200)
    assert (found.trims, found.degraded, found.head_changed) == (0, 1, 1)
    assert found.written_beyond > 5_000 and found.above_hard > 0 and found.above_soft > 0


def test_tokens_follow_what_a_text_is_made_of() -> None:
    """Ours: an estimate that learns a ratio must meet more than one."""
    assert tokens_of("") == 0
    assert tokens_of("amber 1234 #") == 2 + 2 + 1
    prose, tags = "willow thistle " * 100, "#0a1b2c3d " * 100
    assert len(prose) / tokens_of(prose) > 1.5 * len(tags) / tokens_of(tags)


# --- runs


def test_a_loop_streams_the_whole_task_in_one_turn() -> None:
    """Ours: an agent that works alone for hours opens no new turn."""
    one = run_one(task_of("L160", 42), "keep", "loop", WINDOW)
    assert (one.lookups.share, one.counts.share, one.unknown) == (1.0, 1.0, 0)
    assert one.above_soft == 0 and one.requests == len(task_of("L160", 42).operations) + 2


def test_the_script_counts_no_line_twice_that_it_repeated() -> None:
    """Facts, scripted model: the echo must trip the store, not the script."""
    one = run_one(task_of("L160", 42), "keep", "echoing", WINDOW)
    assert (one.lookups.share, one.counts.share) == (1.0, 1.0)


@pytest.mark.parametrize("arm", ["keep", "drop", "native"])
def test_the_baselines_run_to_their_end(arm: str) -> None:
    """Issue 4, Show it: the arms beside ours. What they forget, they answer with UNKNOWN."""
    one = run_one(task_of("L640", 42), arm, "plain", WINDOW)
    assert not one.stopped and one.refused == 0 and faults_of(one) == []
    if arm == "keep":
        assert (one.lookups.share, one.counts.share, one.unknown) == (1.0, 1.0, 0)
        assert one.peak > WINDOW and one.trims == 0
    else:
        assert one.counts.share < 0.5 and one.unknown > 5
        assert one.peak < WINDOW and one.trims > 0


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("variant", VARIANTS[1:])
def test_openmem_holds_every_limit_on_a_small_log(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 4, Show it: lookups 1.000, counts 1.000, UNKNOWN 0, the cache's figures."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    one = run_one(task_of("L640", 42), "openmem", variant, WINDOW)
    assert faults_of(one) == []
    assert one.trims >= 2 and one.searches + one.queries > 10
    assert one.peak < WINDOW * 0.8
    assert os.listdir(scratch) == []


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("arm", ["clear", "both"])
def test_the_providers_clearing_frees_results_and_keeps_them_findable(arm: str) -> None:
    """Issue 4, part 8: measured in the bench beside our trim; it frees nothing but tool results."""
    one = run_one(task_of("L640", 42), arm, "loop", WINDOW)
    assert (one.lookups.share, one.counts.share, one.refused) == (1.0, 1.0, 0)
    assert one.trims >= 2 and one.peak < WINDOW and not one.stopped
    assert one.head_unchanged == 1.0
    untold = run_one(task_of("L640", 42), arm, "forgetful-loop", WINDOW)
    assert untold.unknown > 5  # no pointer stands where something is gone
    spoken = run_one(task_of("L640", 42), arm, "plain", WINDOW)
    assert spoken.stopped.startswith("prompt is too long") == (arm == "clear")


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_without_the_trim_the_same_run_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """House style, tests: a limit that nothing can miss is none."""
    write = bench._write_settings

    def off(stage: Stage, trim: str, port: int) -> None:
        write(stage, trim, port)
        path = Path(stage.home, ".config/openmem/config.toml")
        path.write_text(path.read_text().replace("[trim]", "[trim]\nenabled = false"))

    monkeypatch.setattr(bench, "_write_settings", off)
    one = run_one(task_of("L640", 42), "openmem", "plain", WINDOW)
    told = " ".join(faults_of(one))
    for word in ("lookups", "counts", "UNKNOWN", "above the soft", "above the hard", "refused"):
        assert word in told
    assert one.stopped.startswith("prompt is too long") and one.trims == 0


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_the_command_prints_a_table_and_json(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 4: `openmem bench context`; house style: keys are promises."""
    words = ["bench", "context", "--size", "R130", "--arms", "keep,drop", "--variants", "plain"]
    assert command_line(words) == 0
    table = capsys.readouterr().out
    assert "kv-store-R130-seed42" in table and max(map(len, table.splitlines())) <= 80
    assert command_line([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["bench"] == "context" and data["holds"] is True
    kept, dropped = data["runs"]
    assert kept["arm"] == "keep" and kept["cost_against_keep"] == 1.0
    assert {"lookups", "counts", "unknown", "peak", "soft", "hard", "faults"} <= set(dropped)


def test_a_word_that_is_no_arm_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Design, section 5: exit 2."""
    for words in (["--arms", "everything"], ["--variants", "tired"], ["--size", "Q7"]):
        assert command_line(["bench", "context", *words]) == 2
        assert "there is no" in capsys.readouterr().err


def test_a_report_without_a_baseline_says_no_share() -> None:
    """Ours: a cost is against something or it is not told."""
    report = run(Wanted(sizes=["R130"], arms=["drop"], variants=["plain"], window=WINDOW))
    assert report.cost_share(report.outcomes[0]) is None


@pytest.mark.parametrize(("arm", "variant"), [("keep", "loop"), ("superseded", "plain")])
def test_files_are_edited_and_old_values_asked_for(arm: str, variant: str) -> None:
    """Issue 4, part 6: on by default only if the bench shows a gain at unchanged score."""
    task = task_of("E60", 42)
    assert task == task_of("E60", 42) != task_of("E60", 43)
    assert len(task.files) == 8 and len(task.questions) == QUESTIONS
    one = run_one(task, arm, variant, LARGE_WINDOW)
    assert one.lookups.share == 1 and one.unknown == 0 and one.stopped == ""
    assert faults_of(one) == []
    assert (one.trims > 0) == (arm == "superseded")
