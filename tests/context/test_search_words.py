"""Search by words: the truth table, counts, filters, ranking, excerpts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.errors import NotFound, Usage
from openmem.base.paths import Paths
from openmem.context.search import words
from openmem.context.search.engine import Searcher, search
from openmem.context.search.query import Page, Query, Scope
from openmem.context.store.database import legacy_file
from openmem.context.store.recorder import Recorder
from tests.fakes.conversation import KEY, Message, call, incoming, reply, result, user
from tests.fakes.session_v3 import OldRow, write_old_session

EVERYWHERE = Scope(all_workspaces=True)


def look(paths: Paths, text: str, **options: object) -> Page:
    return search(paths, Query(text=text, **options), EVERYWHERE)  # type: ignore[arg-type]


def found(paths: Paths, text: str, **options: object) -> list[str]:
    return [hit.excerpt for hit in look(paths, text, **options).hits]


TABLE = [
    # row, query, found
    ("修复悬空引用的错误", "悬空", True),
    ("用户身份验证失败", "用户身份", True),
    ("检查itgc流程", "itgc", True),
    ("サーバーへ接続できない", "接続", True),
    ("데이터를 확인했습니다", "데이터", True),
    ("shipped 🚀 today", "🚀", True),
    ("a café on the corner", "cafe", True),
    ("a cafe on the corner", "café", True),
    ("修复悬空引用的错误", "空引", True),
    ("修复悬空引用的错误", "错", True),
    ("修复悬空引用的错误", "空悬", False),
    ("修复 悬空 引用", "悬空", True),
    ("ﾃﾞｰﾀﾍﾞｰｽ", "データベース", True),
    ("ＡＢＣ１２３", "abc123", True),
    ("ข้อมูลผู้ใช้ทั้งหมด", "ผู้ใช้", True),
    ("done✅next", "✅", True),
    ("done✅next", "next", True),
    ("pair 👩‍💻 at work", "👩‍💻", True),
    ("thumb 👍🏽 up", "👍🏽", True),
    ("日本語English混在テキスト", "english", True),
    ("日本語English混在テキスト", "日本語English", True),
    ("call foo_bar(x) now", "foo_bar", True),
    ("call foo_bar(x) now", "foo", True),
    ("call foo_bar(x) now", "bar(x)", True),
    ("my_foo_bar_baz = 1", "foo_bar", True),
    ("xfoo_barx", "foo_bar", True),
    ("foo bar", "foo_bar", True),
    ("readTimeoutMs = 5", "timeout", True),
    ("readTimeoutMs = 5", "tim", True),
    ("readTimeoutMs = 5", "ms", False),
    ("KEY-7 is blue", "KEY-7", True),
    ("KEY-7 is blue", "key-7", True),
    ("key 7 is blue", "KEY-7", True),
    ("KEY-8 is blue", "KEY-7", False),
    ("std::vector<int> v", "std::vector", True),
    ("open ./src/main.rs please", "src/main.rs", True),
    ("open ./src/main.rs please", "(./src/main.rs).", True),
    ("a => b", "=>", True),
    ("a = b", "=>", False),
    ("C++ and C#", "C++", True),
    ("C++ and C#", "C#", True),
    ('say "hello" twice', '"', True),
    ("say hello twice", '"', False),
    ('say "hello" twice', '"hello" twice', True),
    ("NEAR( the gate", "NEAR(", True),
    ("near the gate", "NEAR(", True),
    ("this AND that", "AND", True),
    ("this that", "AND", False),
    ("set col:x to 1", "col:x", True),
    ("set col to 1", "col:x", False),
    ("it is 100% done", "100%", True),
    ("it is 100 done", "100%", True),
    ("it is 1000 done", "100%", False),
    ("it's fine", "it's", True),
    ("its fine", "it's", False),
    ("path\\to\\file", "path\\to", True),
    ("a_b and aXb", "a_b", True),
    ("aXb", "a_b", False),
    ("percent % sign", "%", True),
    ("nothing", "%", False),
    ("words", "", False),
    ("words", "   ", False),
    ("words", "\x00", False),
    ("words", "word*", False),
    ("words -other", "-other", True),
    ("^start", "^start", True),
    ("fts {x y}: z", "{x y}:", True),
]


@pytest.mark.parametrize(("row", "query", "is_found"), TABLE)
def test_the_truth_table(
    recorder: Recorder, paths: Paths, row: str, query: str, is_found: bool
) -> None:
    """Users' report 23 and more of its kind: found as a substring search would, never an error."""
    recorder.record_request("s", incoming([user("unrelated\nbefore"), reply("ok"), user(row)]))
    page = look(paths, query)
    assert [hit.excerpt for hit in page.hits] == ([row] if is_found else [])
    assert (page.total_matches, page.line_matches) == ((1, 1) if is_found else (0, 0))
    assert page.skipped == () and not page.timed_out


@given(query=st.text(max_size=30))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_query_is_an_error(shared: Paths, query: str) -> None:
    """Users' report 23: no error on quotes, operators, or anything else that can be typed."""
    page = look(shared, query)
    assert page.skipped == ()
    assert page.total_matches >= len(page.hits)


@given(
    run=st.text(alphabet="修复悬空引用的错误", min_size=1, max_size=12),
    data=st.data(),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_part_of_a_run_without_spaces_is_found(
    tmp_path_factory: pytest.TempPathFactory, run: str, data: st.DataObject
) -> None:
    """Users' report 23: as a substring search, for any length."""
    paths = Paths({"HOME": str(tmp_path_factory.mktemp("home"))})
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user(f"x{run}y")]))
    recorder.close()
    start = data.draw(st.integers(0, len(run) - 1))
    end = data.draw(st.integers(start + 1, len(run)))
    assert look(paths, run[start:end]).total_matches == 1


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    paths = Paths({"HOME": str(tmp_path_factory.mktemp("home"))})
    recorder = Recorder(paths, KEY)
    recorder.record_request("s", incoming([user(row) for row, _, _ in TABLE]))
    recorder.close()
    return paths


LOG = [
    user("svc=api ERROR disk full\nsvc=web ok\nsvc=api ERROR again"),
    reply("svc=api ERROR disk full, twice"),
    call("Bash", {"command": "tail log"}),
    result("svc=api ERROR from tool\nsvc=db WARN"),
    call("mcp__openmem__smart_compact_search", {"query": "ERROR"}, 2),
    result("s #1 user\nsvc=api ERROR disk full", 2),
    {"role": "system", "content": "ERROR handling: be careful"},
    user("thanks"),
]


def test_lines_with_every_word_and_rows_with_any(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Search: `line_matches` AND, `total_matches` any word."""
    recorder.record_request("s", incoming(LOG))
    page = look(paths, "api ERROR")
    assert (page.total_matches, page.line_matches) == (2, 3)
    assert look(paths, "ERROR full").line_matches == 1
    assert look(paths, "ERROR nowhere").line_matches == 0
    assert look(paths, "WARN thanks").total_matches == 2


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, 3),
        ({"roles": ("user",)}, 2),
        ({"roles": ("tool",)}, 1),
        ({"roles": ("assistant",)}, 1),
        ({"roles": ("system",)}, 1),
        ({"roles": ()}, 5),
        ({"include_echo": True}, 4),
        ({"roles": (), "include_echo": True}, 7),
        ({"roles": ("assistant",), "include_echo": True}, 2),
    ],
)
def test_roles_and_echo_filter_hits_and_counts_alike(
    recorder: Recorder, paths: Paths, options: dict[str, object], lines: int
) -> None:
    """Design, differences 5: echo and assistant rows are out of search and counts by default."""
    recorder.record_request("s", incoming(LOG))
    page = look(paths, "ERROR", **options)
    assert page.line_matches == lines
    assert sum(len(re.findall("(?m)^.*ERROR.*$", hit.excerpt)) for hit in page.hits) == lines
    assert page.total_matches == len(page.hits)


def test_the_context_filter(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Search: in_context true, false, both."""
    recorder.record_request("s", incoming([user("key one"), reply("ok"), user("key two")]))
    recorder.record_request("s", incoming([user("key one"), reply("ok"), user("key three")]))
    assert found(paths, "key", in_context=True) == ["key three", "key one"]
    assert found(paths, "key", in_context=False) == ["key two"]
    page = look(paths, "key", in_context=False)
    assert (page.total_matches, page.line_matches, page.hits[0].in_context) == (1, 1, False)
    assert look(paths, "key").total_matches == 3
    assert look(paths, "ey t", in_context=True).mode == "lexical"


def test_a_whole_phrase_comes_first_then_more_words_then_rarer_ones(
    recorder: Recorder, paths: Paths
) -> None:
    """Design, differences 4: ranking puts an exact phrase first; contract: more words first."""
    rows = [
        "the key for the signing of code",
        "key " * 30,
        "we rotate the signing key often\nand more",
        "signing only",
        *["key in a row by itself"] * 5,
    ]
    recorder.record_request("s", incoming([user(row) for row in rows]))
    page = look(paths, "signing key", limit=20)
    order = [hit.excerpt for hit in page.hits]
    assert order[:2] == ["we rotate the signing key often", "the key for the signing of code"]
    assert order[2] == "signing only"
    assert page.hits[0].matched_terms == ("signing", "key")
    assert page.hits[2].matched_terms == ("signing",)


def test_a_word_in_nearly_every_row_does_not_decide(recorder: Recorder, paths: Paths) -> None:
    """Issue 3, part 2: query terms that are everywhere are dropped or bounded."""
    rows = [f"the row number {number}" for number in range(80)] + ["the vault"]
    recorder.record_request("s", incoming([user(row) for row in rows]))
    page = look(paths, "the vault")
    assert page.total_matches == 1 and page.hits[0].excerpt == "the vault"
    assert page.line_matches == 1
    assert look(paths, "the").total_matches == 81


def test_a_word_in_very_many_lines_is_counted_in_full(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Search: counts are exact, however common the word."""
    rows = ["\n".join(f"alpha {n}" for n in range(300)) for _ in range(150)]
    recorder.record_request("s", incoming([user(row) for row in rows] + [user("alpha beta")]))
    page = look(paths, "alpha", limit=3)
    assert (page.total_matches, page.line_matches, len(page.hits)) == (151, 45_001, 3)
    page = look(paths, "alpha beta", roles=("user",))
    assert (page.total_matches, page.line_matches) == (1, 1)
    assert page.hits[0].excerpt == "alpha beta"
    both = look(paths, "alpha 7", limit=1)
    assert (both.line_matches, both.total_matches) == (150, 151)


def test_excerpts_hold_matching_lines_whole(recorder: Recorder, paths: Paths) -> None:
    """Issue 2, part 7: a matching stored line stands whole, unindented and unmarked."""
    recorder.record_request(
        "s", incoming([user("head\n  key one\nmiddle\nmiddle\nkey two\nkey three\ntail")])
    )
    assert found(paths, "key") == ["  key one\n…\nkey two\nkey three"]


def test_a_very_long_line_is_cut_round_its_match_and_no_character_in_two(
    recorder: Recorder, paths: Paths
) -> None:
    """Users' report 24: an excerpt never cuts a joined emoji or a letter from its mark."""
    line = "👩\u200d💻" * 3_000 + " needle " + "e\u0301" * 3_000
    recorder.record_request("s", incoming([user(line)]))
    (excerpt,) = found(paths, "needle")
    assert "needle" in excerpt and len(excerpt) <= 2_002
    assert excerpt.startswith("…👩") and excerpt.endswith("e\u0301…")


def test_an_excerpt_stays_small_however_many_lines_match(recorder: Recorder, paths: Paths) -> None:
    """Ours: a model reads it."""
    recorder.record_request("s", incoming([user("\n".join(["key " + "x" * 900] * 400))]))
    (excerpt,) = found(paths, "key")
    assert len(excerpt) < 4_100 and excerpt.count("\n") == 3


def test_neighbours_come_with_a_hit_when_asked_for(recorder: Recorder, paths: Paths) -> None:
    """Context store contract, Search: `context` 0 to 5, any role, same thread."""
    recorder.record_request(
        "s", incoming([user("a"), reply("b"), user("needle"), reply("c" * 900)])
    )
    hit = look(paths, "needle", context=5).hits[0]
    assert [(n.role, n.excerpt) for n in hit.before] == [("user", "a"), ("assistant", "b")]
    assert [n.excerpt for n in hit.after] == ["c" * 600 + "…"]
    assert look(paths, "needle").hits[0].before == ()


@pytest.mark.parametrize(
    "options",
    [
        {"context": 6},
        {"context": -1},
        {"limit": 0},
        {"limit": 201},
        {"roles": ("admin",)},
        {"pattern": "x"},
    ],
)
def test_a_query_out_of_range_is_refused_with_its_value(
    paths: Paths, options: dict[str, object]
) -> None:
    """Issue 2, bad input; house style, errors: a message says which thing."""
    with pytest.raises(Usage):
        look(paths, "x", **options)


def test_an_unknown_session_is_an_error_and_an_empty_store_is_not(paths: Paths) -> None:
    """Issue 2, bad input: unknown session: a clear error naming `context status`."""
    assert look(paths, "x").hits == ()
    with pytest.raises(NotFound):
        look(paths, "x", session_id="none")


def test_text_repeated_by_a_rewritten_history_is_found_once(
    recorder: Recorder, paths: Paths
) -> None:
    """Design, differences 5: counts must not count a line twice."""
    recorder.record_request(
        "s", incoming([user("a"), call("Bash", {}), result("needle"), user("b")])
    )
    summary = user("This session is being continued from a previous conversation.")
    kept: list[Message] = [call("Bash", {}), result("needle"), reply("ok")]
    recorder.record_request("s", incoming([summary, *kept, user("go on")]))
    page = look(paths, "needle")
    assert (page.total_matches, page.line_matches) == (1, 1)
    assert page.hits[0].in_context, "it is carried, by another row"


def test_many_sessions_are_one_list_newest_first_among_equals(
    recorder: Recorder, paths: Paths
) -> None:
    """Context store contract, Search: recent sessions; limit over all of them."""
    for number in range(12):
        recorder.record_request(f"s{number:02}", incoming([user(f"needle {number}")]))
    page = look(paths, "needle", limit=5)
    assert (page.total_matches, page.line_matches, len(page.hits)) == (12, 12, 5)
    assert page.sessions_searched == 12
    only = look(paths, "needle", session_id="s03")
    assert [hit.session_id for hit in only.hits] == ["s03"]


def test_a_file_that_cannot_be_read_hides_no_other(recorder: Recorder, paths: Paths) -> None:
    """Issue 2, bad input: skipped with one line."""
    recorder.record_request("good", incoming([user("needle")]))
    (Path(paths.sessions_dir) / "bad.v4.db").write_bytes(b"no database " * 900)
    page = look(paths, "needle")
    assert [hit.session_id for hit in page.hits] == ["good"]
    assert len(page.skipped) == 1 and "bad" in page.skipped[0]


def test_earlier_files_are_searched_by_the_same_rules(paths: Paths) -> None:
    """Design, section 6: reads files of versions 1 to 3."""
    rows = [
        OldRow(role="user", text="the signing key\nfoo_bar 修复悬空"),
        OldRow(role="assistant", text="the signing key"),
        OldRow(role="tool", kind="tool_result", name="smart_compact_search", text="signing key"),
        OldRow(role="tool", kind="tool_result", name="Bash", text="key\nkey", in_context=False),
    ]
    write_old_session(Path(legacy_file(paths, "old")), rows)
    page = look(paths, "signing key", context=1)
    assert (page.total_matches, page.line_matches) == (2, 1)
    assert [hit.seq for hit in page.hits] == [1, 4]
    assert page.hits[0].after[0].excerpt == "the signing key"
    assert look(paths, "key", roles=()).line_matches == 4
    assert look(paths, "key", roles=(), include_echo=True).line_matches == 5
    assert look(paths, "key", in_context=False).line_matches == 2
    for query in ("foo_bar", "悬空", "FOO"):
        assert found(paths, query) == ["foo_bar 修复悬空"], query
    assert look(paths, 'NEAR( "').hits == ()


def test_a_searcher_kept_open_sees_what_is_written_deleted_and_made(
    recorder: Recorder, paths: Paths
) -> None:
    """Brief: kept connections for a daemon."""
    searcher = Searcher(paths)

    def texts() -> list[str]:
        page = searcher.search(Query(text="needle", limit=50), EVERYWHERE)
        assert page.skipped == ()
        return sorted(hit.excerpt for hit in page.hits)

    recorder.record_request("a", incoming([user("needle 1")]))
    assert texts() == ["needle 1"]
    recorder.record_request("a", incoming([user("needle 1"), reply("x"), user("needle 2")]))
    assert texts() == ["needle 1", "needle 2"]
    recorder.close()
    assert texts() == ["needle 1", "needle 2"]
    recorder.record_request("a", incoming([user("needle 3")]))
    recorder.record_request("b", incoming([user("needle 4")]))
    recorder.close()
    assert texts() == ["needle 1", "needle 2", "needle 3", "needle 4"]
    for name in ("a.v4.db",):
        (Path(paths.sessions_dir) / name).unlink()
    assert texts() == ["needle 4"]
    recorder.record_request("a", incoming([user("needle 5")]))
    assert texts() == ["needle 4", "needle 5"]
    recorder.close()
    assert not [p for p in Path(paths.sessions_dir).iterdir() if p.name.endswith("-wal")]
    searcher.close()


def test_more_sessions_than_may_be_open_at_once(recorder: Recorder, paths: Paths) -> None:
    """Ours: a process may hold so many files; a search over more works."""
    for number in range(9):
        recorder.record_request(f"s{number}", incoming([user(f"alpha needle {number}")]))
    searcher = Searcher(paths, open_sessions=2)
    page = searcher.search(Query(text="alpha needle", limit=20, context=1), EVERYWHERE)
    assert (page.total_matches, page.line_matches, len(page.hits)) == (9, 9, 9)
    searcher.close()


def test_one_long_row_does_not_keep_the_others_out(
    paths: Paths, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 2, part 4: a log of many matching lines, and the sentence somebody looks for."""
    monkeypatch.setattr(words, "_LINES_RANKED", 200)
    said = [user(f"quoll number {n}") for n in range(9)]
    log = user("\n".join(f"quoll in line {n}" for n in range(500)))
    recorder.record_request("s", incoming([*said, log]))
    page = look(paths, "quoll", limit=20)
    assert (page.total_matches, page.line_matches) == (10, 509)
    assert {hit.seq for hit in page.hits} == set(range(1, 11))
