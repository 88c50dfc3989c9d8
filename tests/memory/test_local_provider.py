"""Provider `local`: its words, its ranking, its floor, its file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.errors import StoreUnavailable
from openmem.base.paths import Paths
from openmem.memory.providers.base import Ask, Item, TimedOut
from openmem.memory.providers.local import floor
from openmem.memory.providers.local.bank_file import path_of
from openmem.memory.providers.local.provider import LocalProvider
from openmem.memory.providers.local.rank import rank, weight_of
from openmem.memory.providers.local.word_lists import COMMON, STOP, WEAK
from openmem.memory.providers.local.words import COMMON_WEIGHT, Stemmer, Unit, names_in, units_of
from tests.fakes.memory_prompts import PARSER, RELEVANT, SITE, UNRELATED

BANK = "github.com/acme/site"


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths(os.environ)


@pytest.fixture
def local(paths: Paths) -> Iterator[LocalProvider]:
    provider = LocalProvider(paths)
    yield provider
    provider.close()


def say(provider: LocalProvider, *texts: str, kind: str = "statement", session: str = "") -> None:
    provider.remember(
        BANK,
        [
            Item(
                id=f"m{number}",
                text=text,
                kind=kind,  # type: ignore[arg-type]
                recorded_at="2026-11-30T00:00:00Z",
                session_id=session,
                row=number if session else 0,
            )
            for number, text in enumerate(texts, 1)
        ],
    )


def ids(provider: LocalProvider, text: str, **other: object) -> list[str]:
    return [hit.id for hit in provider.recall(BANK, Ask(text=text, **other))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        ("his was this does their wouldn", STOP),
        ("please continue testing files thanks issues changes", WEAK),
        ("encoding directories objects arguments values", COMMON | WEAK),
    ],
)
def test_the_lists_hold_stems_as_the_index_cuts_them(words: str, listed: frozenset[str]) -> None:
    """Ours: the lists are compared with stems."""
    stemmer = Stemmer()
    stems = stemmer.stems(words)
    stemmer.close()
    assert set(stems) <= listed


def test_the_lists_do_not_overlap() -> None:
    """Ours: a word has one weight."""
    assert not (STOP & WEAK or STOP & COMMON or WEAK & COMMON)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("悬空指针在析构函数里", "悬空"),
        ("用户身份由网关验证", "用户身份"),
        ("接続はタイムアウトしない", "接続"),
        ("데이터는 암호화된다", "데이터"),
        ("the itgc审计 report", "itgc"),
        ("call parse_config(True) first", "parse_config"),
        ("ship it 🚀 on Friday", "🚀"),
        ("the café opens at nine", "cafe"),
        ("error 0x8007000E at start", "0x8007000E"),
    ],
)
def test_scripts_without_spaces_and_code_are_found(
    local: LocalProvider, text: str, question: str
) -> None:
    """Users' report 23; issue 5, part 2."""
    say(local, text, "something else entirely")
    assert ids(local, question)[:1] == ["m1"]


def test_a_part_of_a_word_is_found_where_no_word_is(local: LocalProvider) -> None:
    """Issue 5, part 2: literal-substring fallback; never unasked."""
    say(local, "see RedisReconnectPolicy in net.py", "something else")
    assert ids(local, "connectPol") == ["m1"]
    assert ids(local, "connectPol", is_quick=True) == []


def test_the_answer_beside_the_question_is_found(local: LocalProvider) -> None:
    """Ours: measured on LoCoMo; a neighbour in the same session counts in part."""
    say(
        local,
        "user: what is the retention period of the audit log?",
        "assistant: seven years, by law.",
        "user: and lunch?",
        "assistant: at noon",
        kind="passage",
        session="s1",
    )
    assert ids(local, "retention period audit log", limit=2) == ["m1", "m2"]


def test_neighbours_count_in_one_session_only(local: LocalProvider) -> None:
    """Ours: what does not."""
    for session in ("s1", "s2"):
        local.remember(
            BANK,
            [
                Item(
                    id=f"{session}-{row}",
                    text="retention period" if (session, row) == ("s1", 1) else "lunch",
                    kind="passage",
                    recorded_at="",
                    session_id=session,
                    row=row,
                )
                for row in (1, 2)
            ],
        )
    assert ids(local, "retention period") == ["s1-1", "s1-2"]


def test_words_that_stand_together_rank_first() -> None:
    """Ours."""
    stemmer = Stemmer()
    units = units_of(stemmer.stems("signing key"))
    stemmer.close()
    postings = [{1: [0], 2: [0]}, {1: [5], 2: [1]}]
    weights = [weight_of(2, 2)] * 2
    ranked = rank(units, weights, postings, {1: 6, 2: 6}, 6.0)
    assert [found.number for found in ranked] == [2, 1]


def _relevance() -> tuple[int, int, int, int]:
    """Return (found, all of the relevant), (told on unrelated, all of the unrelated)."""
    providers = {id(bank): LocalProvider(None) for bank in (SITE, PARSER)}
    for bank in (SITE, PARSER):
        say(providers[id(bank)], *bank)
    found = told = asked = 0
    for prompt, bank, number in RELEVANT:
        hits = ids(providers[id(bank)], prompt, has_floor=True, is_quick=True)
        found += f"m{number + 1}" in hits
    mine = {(prompt, id(bank)) for prompt, bank, _ in RELEVANT}
    for prompt in (*UNRELATED, *(prompt for prompt, _, _ in RELEVANT)):
        for bank in (SITE, PARSER):
            if (prompt, id(bank)) not in mine:
                asked += 1
                told += bool(ids(providers[id(bank)], prompt, has_floor=True, is_quick=True))
    for provider in providers.values():
        provider.close()
    return found, len(RELEVANT), told, asked


def test_unrelated_prompts_bring_nothing_and_relevant_ones_their_statement() -> None:
    """Users' report 35; issue 5: 0 tokens on "ok", "continue" and on foreign banks."""
    found, relevant, told, asked = _relevance()
    assert told == 0 and asked > 100
    assert found >= 0.85 * relevant


def test_a_question_about_somebody_unknown_brings_nothing(local: LocalProvider) -> None:
    """Ours: a name that the bank has never heard of is another project's."""
    say(local, "Jonas maintains the German translation of the shop.")
    assert ids(local, "does Jonas maintain the translation?", has_floor=True) == ["m1"]
    assert ids(local, "does Caroline maintain the translation?", has_floor=True) == []
    assert names_in("Fix it. Then ask Mira about src/Button.tsx, Ada") == "Mira Ada"


def test_a_question_that_runs_out_of_time_says_so(paths: Paths, local: LocalProvider) -> None:
    """Users' report 15: bounded, whatever the bank holds."""
    local.remember(
        BANK,
        [
            Item(id=f"m{n}", text=f"alpha beta gamma delta {n}", kind="statement", recorded_at="")
            for n in range(4_000)
        ],
    )
    with pytest.raises(TimedOut):
        ids(local, "alpha beta gamma delta", seconds=1e-9)
    assert len(ids(local, "delta 17", seconds=60)) == 8


def test_words_that_are_each_in_too_many_texts_are_looked_for_together(
    local: LocalProvider,
) -> None:
    """Issue 5: terms that are everywhere are dropped; what holds all of them is still found."""
    texts = [f"deploy {n}" for n in range(6_100)] + [f"bastion {n}" for n in range(6_100)]
    local.remember(
        BANK,
        [
            Item(id=f"m{n}", text=text, kind="statement", recorded_at="")
            for n, text in enumerate([*texts, "deploy through the bastion"])
        ],
    )
    assert ids(local, "deploy bastion", is_quick=True, has_floor=True) == ["m12200"]
    assert ids(local, "deploy", is_quick=True) == []


def test_a_bank_that_another_process_holds_does_not_hold_a_prompt(
    paths: Paths, local: LocalProvider
) -> None:
    """Issue 5: a provider that never answers."""
    say(local, "Deploys need the VPN.")
    local.close()
    holder = sqlite3.connect(path_of(paths, BANK), isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StoreUnavailable):
            ids(local, "deploy vpn", is_quick=True, seconds=0.5)
    finally:
        holder.close()
    assert ids(local, "deploy vpn", is_quick=True, seconds=0.5) == ["m1"]


def test_no_byte_of_what_was_forgotten_is_left(paths: Paths, local: LocalProvider) -> None:
    """Issue 5: forgetting leaves no byte, index and log included."""
    say(local, "quokkamarble is the code name", "the host is called something else")
    local.forget(BANK, ["m1"])
    assert local.erase(BANK)
    folder = Path(paths.state_dir)
    for path in folder.rglob("*"):
        if path.is_file():
            assert b"quokkamarbl" not in path.read_bytes()
    assert ids(local, "host") == ["m2"]


def test_a_newer_bank_is_left_as_it_is(paths: Paths, local: LocalProvider) -> None:
    """Issue 5: old-version behaviour as for the session store."""
    say(local, "one")
    local.close()
    connection = sqlite3.connect(path_of(paths, BANK))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = Path(path_of(paths, BANK)).read_bytes()
    with pytest.raises(StoreUnavailable) as raised:
        ids(local, "one")
    assert raised.value.code == "store-newer"
    assert Path(path_of(paths, BANK)).read_bytes() == before


def test_the_folder_is_private(paths: Paths, local: LocalProvider) -> None:
    """Design, section 6."""
    say(local, "one")
    path = path_of(paths, BANK)
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_bank_dropped_by_another_process_is_empty_here(
    paths: Paths, local: LocalProvider
) -> None:
    """Ours: the warm worker must not go on telling what the command line dropped."""
    say(local, "Deploys need the VPN.")
    assert ids(local, "deploy") == ["m1"]
    other = LocalProvider(paths)
    other.drop_bank(BANK)
    other.close()
    assert ids(local, "deploy") == []


def test_processes_at_once_lose_nothing(paths: Paths, local: LocalProvider) -> None:
    """Users' report 20."""
    program = (
        "import os, sys\n"
        "from openmem.base.paths import Paths\n"
        "from openmem.memory.providers.base import Item\n"
        "from openmem.memory.providers.local.provider import LocalProvider\n"
        "local = LocalProvider(Paths(os.environ))\n"
        "for n in range(20):\n"
        "    local.remember('github.com/acme/site', [Item(id=f'{sys.argv[1]}-{n}',\n"
        "        text=f'word{sys.argv[1]}x{n}', kind='statement', recorded_at='')])\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    environ = {**os.environ, "PYTHONPATH": root}
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(n)], env=environ) for n in range(4)
    ]
    assert [process.wait(120) for process in running] == [0] * 4
    assert local.status(BANK).memories == 80 and ids(local, "word3x19") == ["3-19"]


@pytest.mark.parametrize(
    ("held", "names_known", "kind", "is_told"),
    [
        (["orchard", "bring"], False, "passage", False),  # one word says something by itself
        (["orchard", "kayak"], False, "passage", True),
        (["orchard", "bring"], True, "passage", True),
        (["orchard", "bring"], False, "statement", True),
        (["bring", "week"], True, "passage", False),  # none does
    ],
)
def test_a_kept_turn_needs_two_telling_words_unless_the_bank_knows_who_is_named(
    held: list[str], names_known: bool, kind: str, is_told: bool
) -> None:
    """Users' report 35: nothing on foreign banks; measured by `openmem bench recall`."""
    weights = {"orchard": 1.0, "kayak": 1.0, "bring": COMMON_WEIGHT, "week": COMMON_WEIGHT}
    own = [Unit((word,), place, weights[word]) for place, word in enumerate(held)]
    found = floor.is_relevant(
        own,
        [1.0] * len(own),
        mass=sum(unit.weight for unit in own) / 0.4,  # a third of it is held, not half
        content=40,
        is_passage=kind == "passage",
        names_known=names_known,
    )
    assert found is is_told


def test_who_is_named_is_known_only_if_all_are() -> None:
    """Ours: a question about somebody and a stranger is a question about a stranger."""
    one, other, word = Unit(("a",), 0, 1.0, True), Unit(("b",), 1, 1.0, True), Unit(("c",), 2)
    assert floor.names_known([one, word], [3, 0])
    assert not floor.names_known([one, other, word], [3, 0, 1])
    assert not floor.names_known([word], [3])
