"""The recorder: every message once, whatever form its resent history takes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.paths import Paths
from openmem.context.formats.messages import blocks_of_response
from openmem.context.session import Registration
from openmem.context.store.model import Event, Incoming
from openmem.context.store.reader import open_session
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import (
    KEY,
    call,
    incoming,
    marked,
    reminder,
    reply,
    result,
    stored,
    user,
    view,
    without_thinking,
)

TALK = [
    user("count the files"),
    reply("I look.", thinking="which tool?"),
    user("in src only"),
    call("Bash", {"command": "ls src | wc -l"}),
    result("12\n"),
    reply("There are 12.", thinking="easy"),
    user("and tests?"),
]


def test_each_block_is_one_row_in_order(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Rows: one row per content block; columns as stated."""
    recorded = recorder.record_request("s", incoming(TALK))
    rows = stored(paths)
    assert [(r.seq, r.role, r.kind, r.name, r.text) for r in rows] == [
        (1, "user", "text", "", "count the files"),
        (2, "assistant", "thinking", "", "which tool?"),
        (3, "assistant", "text", "", "I look."),
        (4, "user", "text", "", "in src only"),
        (5, "assistant", "tool_use", "Bash", '{"command":"ls src | wc -l"}'),
        (6, "tool", "tool_result", "Bash", "12\n"),
        (7, "assistant", "thinking", "", "easy"),
        (8, "assistant", "text", "", "There are 12."),
        (9, "user", "text", "", "and tests?"),
    ]
    assert recorded.new_rows == 9
    assert {row.thread for row in rows} == {rows[0].fingerprint} == {recorded.thread}
    assert recorded.head == rows[-1].fingerprint
    assert all(row.in_context and not row.echo and not row.masked for row in rows)


def test_lines_are_those_between_line_feeds_and_nothing_else(
    recorder: Recorder, paths: Paths
) -> None:
    """Context store contract, Schema, `lines`; oddities: U+2028 and others are no line ends."""
    text = "a\n\nb\r\nc\u2028d\u0085e\x0bf"
    recorder.record_request("s", incoming([user(text)]))
    assert stored(paths)[0].text == text
    with open_session(paths, "s") as reader:
        lines = reader.connection.execute(
            "SELECT message_seq, line_no, role, text FROM lines"
        ).fetchall()
    assert lines == [(1, number, "user", line) for number, line in enumerate(text.split("\n"), 1)]


def test_a_resent_history_adds_nothing_and_writes_nothing(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Rows: a request that adds and moves nothing writes nothing."""
    recorder.record_request("s", incoming(TALK))
    recorder.close()
    path = Path(paths.sessions_dir) / "s.v4.db"
    before = path.read_bytes()
    for form in (TALK, marked(TALK)):
        recorded = recorder.record_request("s", incoming(form))
        assert recorded.new_rows == 0
    recorder.close()
    assert path.read_bytes() == before


def test_the_same_text_said_twice_is_two_rows(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Rows."""
    recorder.record_request("s", incoming([user("yes"), reply("ok"), user("yes"), reply("ok")]))
    assert [row.text for row in stored(paths)] == ["yes", "ok", "yes", "ok"]


@given(
    cuts=st.sets(st.integers(1, len(TALK)), max_size=5),
    forms=st.lists(st.sampled_from(["plain", "marked"]), min_size=6, max_size=6),
    replies=st.booleans(),
    restart=st.booleans(),
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_split_into_requests_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory,
    cuts: set[int],
    forms: list[str],
    replies: bool,
    restart: bool,
) -> None:
    """Design, section 4, Row: a resent history adds nothing; with replies recorded or not, with
    the proxy restarted in between or not."""
    home = tmp_path_factory.mktemp("home")
    paths = Paths({"HOME": str(home)})
    recorder = Recorder(paths, KEY)
    for cut, form in zip(sorted({*cuts, len(TALK)}), itertools.cycle(forms)):
        messages = TALK[:cut]
        recorded = recorder.record_request(
            "s", incoming(marked(messages) if form == "marked" else messages)
        )
        if replies and cut < len(TALK) and TALK[cut]["role"] == "assistant":
            blocks = blocks_of_response(TALK[cut]["content"])
            recorder.record_response("s", recorded.thread, recorded.head, blocks)
        if restart:
            recorder.close()
            recorder = Recorder(paths, KEY)
    recorder.close()
    whole = Paths({"HOME": str(tmp_path_factory.mktemp("home"))})
    once = Recorder(whole, KEY)
    once.record_request("s", incoming(TALK))
    once.close()
    assert [_facts(row) for row in stored(paths)] == [_facts(row) for row in stored(whole)]


def _facts(row: Any) -> tuple[object, ...]:
    return (
        row.seq, row.fingerprint, row.thread, row.role, row.kind, row.name, row.text,
        row.in_context, row.source,
    )  # fmt: skip


def test_a_reply_is_stored_at_once_and_its_resend_adds_nothing(
    recorder: Recorder, paths: Paths
) -> None:
    """Brief: assistant rows of the reply, same chain."""
    first = recorder.record_request("s", incoming(TALK[:1]))
    blocks = blocks_of_response(TALK[1]["content"])
    assert recorder.record_response("s", first.thread, first.head, blocks) == 2
    assert recorder.record_response("s", first.thread, first.head, blocks) == 0
    assert [row.text for row in stored(paths)][1:] == ["which tool?", "I look."]
    assert recorder.record_request("s", incoming(TALK[:3])).new_rows == 1


def test_a_reply_that_the_client_drops_leaves_the_context(recorder: Recorder, paths: Paths) -> None:
    """Brief: flags follow what a later request of the same thread carries."""
    first = recorder.record_request("s", incoming([user("go")]))
    recorder.record_response(
        "s", first.thread, first.head, blocks_of_response([{"type": "text", "text": "cut off"}])
    )
    recorder.record_request("s", incoming([user("go")]))  # the same request again: still waiting
    assert [row.in_context for row in stored(paths)] == [True, True]
    recorder.record_request("s", incoming([user("go"), reply("another"), user("on")]))
    assert [(r.text, r.in_context) for r in stored(paths)] == [
        ("go", True), ("cut off", False), ("another", True), ("on", True),
    ]  # fmt: skip


def test_stripped_thinking_adds_nothing_and_leaves_the_context(
    recorder: Recorder, paths: Paths
) -> None:
    """Newest models, 2.4: after a 400 the client resends everything without thinking."""
    recorder.record_request("s", incoming(TALK))
    recorded = recorder.record_request("s", incoming(without_thinking(TALK)))
    assert recorded.new_rows == 0
    assert [r.text for r in stored(paths) if not r.in_context] == ["which tool?", "easy"]


def test_reminders_rendered_elsewhere_add_nothing_to_the_conversation(
    recorder: Recorder, paths: Paths
) -> None:
    """Newest models, 2.3: at a model switch system messages become reminders, elsewhere."""
    words = [user("one"), {"role": "system", "content": "# Environment\nLinux"}, reply("ok")]
    recorder.record_request("s", incoming([*words, user("two")]))
    other = [
        {"role": "user", "content": [reminder("# Environment\nLinux"), *user("one")["content"]]},
        reply("ok"),
        user("two"),
    ]
    recorded = recorder.record_request("s", incoming(other, model="claude-sonnet-4-5"))
    assert recorded.new_rows == 0
    assert [row.role for row in stored(paths)] == ["user", "system", "assistant", "user"]


def test_a_nudge_that_stands_in_one_request_only_moves_nothing(
    recorder: Recorder, paths: Paths
) -> None:
    """Newest models, 2.3, fable-5-1: a second block of the newest system message disappears."""
    tokens = {"type": "text", "text": "900 left", "cache_control": {"type": "ephemeral"}}
    nudge = {"type": "text", "text": "First list what you need."}
    first = [user("go"), {"role": "system", "content": [tokens, nudge]}]
    recorder.record_request("s", incoming(first))
    second = [user("go"), {"role": "system", "content": "900 left"}, reply("ok"), user("on")]
    recorded = recorder.record_request("s", incoming(second))
    assert recorded.new_rows == 2
    assert [(r.text, r.in_context) for r in stored(paths)][1:3] == [
        ("900 left", True), ("First list what you need.", False),
    ]  # fmt: skip


def test_two_sessions_and_two_threads_keep_their_rows_apart(
    recorder: Recorder, paths: Paths
) -> None:
    """Agents, 3.2; users' report 28: sub-agents by header, no collision, parent link kept."""
    main = recorder.record_request("s", incoming([user("go")]))
    threads = [main.thread]
    for agent_id in ("a1", "a2"):
        sub = recorder.record_request(
            "s", incoming([user("go")], kind="sub-agent", agent_id=agent_id)
        )
        threads.append(sub.thread)
        assert sub.new_rows == 1
    side = recorder.record_request("s", incoming([user("go")], kind="side"))
    recorder.record_request("other", incoming([user("go")]))
    assert len({*threads, side.thread}) == 4
    assert [row.text for row in stored(paths)] == ["go"] * 4
    assert [row.text for row in stored(paths, "other")] == ["go"]
    with open_session(paths, "s") as reader:
        found = reader.connection.execute("SELECT kind, agent_id, parent FROM threads")
        assert found.fetchall() == [
            ("main", "", None),
            ("sub-agent", "a1", main.thread),
            ("sub-agent", "a2", main.thread),
            ("side", "", main.thread),
        ]


def test_a_side_request_that_carries_the_conversation_is_a_fork_of_it(
    recorder: Recorder, paths: Paths
) -> None:
    """Agents, 3.4: a compaction request is the whole history and one more message."""
    recorder.record_request("s", incoming(TALK))
    asked = [*TALK[:-1], user("CRITICAL: Respond with TEXT ONLY. Summarise.")]
    recorded = recorder.record_request("s", incoming(asked, kind="side"))
    assert recorded.new_rows == 1
    again = recorder.record_request("s", incoming(asked, kind="side"))
    assert (again.new_rows, again.thread) == (0, recorded.thread)
    rows = stored(paths)
    assert rows[-1].thread == recorded.thread != rows[0].thread
    assert all(row.in_context for row in rows), "an errand takes nothing out of the conversation"
    on = recorder.record_request("s", incoming([*TALK, reply("7"), user("thanks")]))
    assert (on.new_rows, on.thread) == (2, rows[0].thread)


def test_a_rewound_conversation_is_a_fork_and_what_it_left_is_out_of_context(
    recorder: Recorder, paths: Paths
) -> None:
    """Newest models, section 4: rewind, fork; brief: flags follow the latest request."""
    recorder.record_request("s", incoming(TALK))
    rewound = [*TALK[:2], user("in tests only")]
    recorded = recorder.record_request("s", incoming(rewound))
    assert recorded.new_rows == 1
    assert [r.text for r in stored(paths) if r.in_context] == [
        "count the files", "which tool?", "I look.", "in tests only",
    ]  # fmt: skip
    back = recorder.record_request("s", incoming(TALK))
    assert back.new_rows == 0
    assert [r.text for r in stored(paths) if not r.in_context] == ["in tests only"]


def test_a_compacted_conversation_is_a_new_thread_and_repeats_no_text(
    recorder: Recorder, paths: Paths
) -> None:
    """Brief: history rewritten → new thread with rows; design, differences 5: counts stay right."""
    before = recorder.record_request("s", incoming(TALK))
    summary = user("This session is being continued from a previous conversation. We counted.")
    recorded = recorder.record_request("s", incoming([summary, TALK[5], user("go on")]))
    assert recorded.thread != before.thread
    rows = stored(paths)
    new = [(r.text, r.source, r.in_context) for r in rows if r.thread == recorded.thread]
    assert new == [
        (summary["content"][0]["text"], 0, True),
        ("easy", 0, True),
        ("There are 12.", 8, True),
        ("go on", 0, True),
    ]
    old = {r.text: r.in_context for r in rows if r.thread == before.thread}
    assert [text for text, in_context in old.items() if in_context] == ["There are 12."]
    with open_session(paths, "s") as reader:
        lines = reader.connection.execute(
            "SELECT count(*) FROM lines WHERE text = 'There are 12.'"
        ).fetchone()
        (event,) = reader.events("compaction")
    assert lines == (1,)
    assert event.values["dropped"] == 8


def test_prompts_kept_by_a_compaction_are_not_said_again(recorder: Recorder, paths: Paths) -> None:
    """Agents, 3.4, Codex: the user's messages stay, verbatim, without the answers between them."""
    recorder.record_request("s", incoming(TALK))
    kept = [TALK[0], TALK[2], TALK[6], user("Another model summarised: 12 files."), user("go on")]
    recorder.record_request("s", incoming(kept))
    assert [(r.text, r.source) for r in stored(paths)][9:] == [
        ("in src only", 4), ("and tests?", 9), ("Another model summarised: 12 files.", 0),
        ("go on", 0),
    ]  # fmt: skip
    in_context = [r.seq for r in stored(paths) if r.in_context]
    assert in_context == [1, 4, 9, 10, 11, 12, 13]


def test_a_cleared_tool_result_stores_only_itself_again(recorder: Recorder, paths: Paths) -> None:
    """Ours: a client that clears an old result rewrites the chain, not what was said after it."""
    recorder.record_request("s", incoming(TALK))
    cleared = [*TALK[:4], result("[cleared]"), *TALK[5:]]
    recorder.record_request("s", incoming(cleared))
    texts = [(r.text, r.source) for r in stored(paths)][9:]
    assert texts == [
        ("[cleared]", 0), ("easy", 0), ("There are 12.", 8), ("and tests?", 0),
    ]  # fmt: skip
    on = recorder.record_request("s", incoming([*cleared, reply("3"), user("ok")]))
    assert on.new_rows == 2
    in_context = {r.seq: r.in_context for r in stored(paths)}
    assert in_context[6] is False and in_context[8] is True


def test_a_new_conversation_in_an_old_session_takes_nothing_as_repeated(
    recorder: Recorder, paths: Paths
) -> None:
    """Ours: after a clear, the same words are said anew."""
    recorder.record_request("s", incoming([user("run"), reply("done"), user("thanks")]))
    recorder.record_request("s", incoming([user("hello")]))
    recorder.record_request("s", incoming([user("hello"), reply("hi"), user("run")]))
    assert [(r.text, r.source) for r in stored(paths)][3:] == [
        ("hello", 0), ("hi", 0), ("run", 0),
    ]  # fmt: skip
    assert all(row.in_context for row in stored(paths))


def test_trimmed_rows_stay_out_however_often_they_are_resent(
    recorder: Recorder, paths: Paths
) -> None:
    """Context store contract, `in_context`: 0 once a trim dropped it; the client still sends it."""
    secret = user("key ghp_" + "a1B2" * 9)
    talk = [secret, reply("ok"), user("now")]
    recorded = recorder.record_request("s", incoming(talk))
    assert recorder.count_masked("s", recorded.thread, [0, 1]) == 1
    recorder.mark_trimmed("s", recorded.thread, [0, 1], 2)
    for messages in (talk, [*talk, reply("yes")], [*talk, reply("yes"), user("on")]):
        recorder.record_request("s", incoming(messages))
    recorder.close()
    recorder.record_request("s", incoming([*talk, reply("yes"), user("on"), reply("fine")]))
    rows = stored(paths)
    assert [row.in_context for row in rows] == [False, False, True, True, True, True]
    assert [row.trimmed_at_seq for row in rows][:3] == [3, 3, 0]


def test_our_own_tools_and_texts_are_marked_as_echo(recorder: Recorder, paths: Paths) -> None:
    """Design, differences 5: results of our tools, our frame, our pointer."""
    messages = [
        user("[openmem: continuing session s; 4 earlier messages are NOT in your context.]\nhi"),
        call("mcp__openmem__smart_compact_search", {"query": "key"}),
        result("s #4 user\nthe signing key"),
        call("Bash", {"command": "cat notes"}, 2),
        result("the signing key", 2),
        user('<openmem-recall untrusted="true">\nthe key\n</openmem-recall>'),
    ]
    recorder.record_request("s", incoming(messages))
    assert [row.echo for row in stored(paths)] == [True, True, True, False, False, True]


def test_secrets_are_masked_in_rows_and_index_and_counted(recorder: Recorder, paths: Paths) -> None:
    """Design, differences 9: redacted before stored; keys are made from the original."""
    secret = "ghp_" + "a1B2" * 9
    recorded = recorder.record_request("s", incoming([user(f"use {secret} please"), reply("ok")]))
    (row, _) = stored(paths)
    assert (row.masked, recorded.masked) == (1, 1)
    assert row.text.startswith("use [REDACTED:github:") and row.text.endswith("] please")
    assert recorder.record_request("s", incoming([user(f"use {secret} please")])).new_rows == 0
    recorder.close()
    for file in Path(paths.state_dir).rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes()


def test_a_fault_in_redaction_stores_nothing(paths: Paths) -> None:
    """House style, errors: policy and redaction fail closed."""

    def fails(text: str, key: bytes) -> Any:
        if "secret" in text:
            raise RuntimeError("no rules")
        raise AssertionError("only called with the secret here")

    recorder = Recorder(paths, KEY, fails)
    with pytest.raises(RuntimeError):
        recorder.record_request("s", incoming([user("secret")]))
    recorder.close()
    assert stored(paths) == []


def test_what_a_hook_registered_is_kept_with_the_session(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Location: agent, cwd, bank."""
    registration = Registration(
        session_id="s", agent="claude-code", cwd="/w", bank="b", registered_at=""
    )
    for given_registration in (None, registration, None):
        recorder.record_request(
            "s",
            Incoming(agent="cc", view=view(TALK), registration=given_registration),
        )
    with open_session(paths, "s") as reader:
        known = reader.connection.execute("SELECT agent, cwd, bank FROM session").fetchone()
    assert known == ("cc", "/w", "b")


def test_events_are_kept_and_summed(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Events; issue 2, JSON: sums of `context status`."""
    main = recorder.record_request("s", incoming([user("go")]))
    sub = recorder.record_request("s", incoming([user("go")], kind="sub-agent", agent_id="a"))
    usage = Event(
        kind="usage", version="proxy:1", model="m", thread_root=main.thread, trimmed=0,
        input_tokens=10, cache_read_tokens=200, cache_creation_tokens=None, output_tokens=7,
        prefix_kept=0, prefix_bytes=90, bust="tools",
    )  # fmt: skip
    recorder.add_event("s", usage)
    recorder.add_event(
        "s", Event(kind="usage", version="proxy:1", thread_root=sub.thread, input_tokens=5)
    )
    recorder.add_event("s", Event(kind="usage", version="proxy:1", thread_root=main.thread))
    recorder.add_event("s", Event(kind="trim", version="proxy:1", dropped=3))
    recorder.add_event(
        "s", Event(kind="fail_open", version="proxy:1", location="a.py:1", error="KeyError",
                   at="2026-11-30T17:00:00Z")
    )  # fmt: skip
    with open_session(paths, "s") as reader:
        events = list(reader.events())
        sums = reader.connection.execute(
            "SELECT prompt_tokens, input_tokens, cache_read_tokens, cache_creation_tokens,"
            " output_tokens, trims, busts, fail_opens FROM session"
        ).fetchone()
        threads = reader.connection.execute(
            "SELECT kind, prompt_tokens, busts FROM threads"
        ).fetchall()
    assert [event.kind for event in events] == ["usage", "usage", "usage", "trim", "fail_open"]
    assert events[0].values["bust"] == "tools" and "cache_creation_tokens" not in events[0].values
    assert events[-1].at == "2026-11-30T17:00:00Z"
    assert sums == (210, 15, 200, 0, 7, 1, 1, 1)
    assert threads == [("main", 210, 1), ("sub-agent", 5, 0)]


def test_an_event_of_a_session_without_rows_is_kept(recorder: Recorder, paths: Paths) -> None:
    """Ours: a fault may come before the first row."""
    recorder.add_event("new", Event(kind="fail_open", version="proxy:1", error="X"))
    with open_session(paths, "new") as reader:
        assert [event.kind for event in reader.events()] == ["fail_open"]


def test_a_request_without_rows_makes_no_thread(recorder: Recorder, paths: Paths) -> None:
    """Ours: empty content is no row and no error."""
    recorded = recorder.record_request("s", incoming([{"role": "user", "content": []}]))
    assert (recorded.thread, recorded.new_rows) == ("", 0)
    assert recorder.record_response("s", "", "", []) == 0
