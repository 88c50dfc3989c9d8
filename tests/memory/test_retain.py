"""What was said becomes passages: in order, masked, once, and not what was forgotten."""

from __future__ import annotations

import pytest

from openmem.base.errors import PolicyDenied
from openmem.base.frame import framed
from openmem.base.installation import ensure_key
from openmem.memory.facade import Memories
from openmem.memory.retain import PASSAGE_CHARACTERS, Kept, Utterance, age_out, keep_said, split
from tests.memory.conftest import Place

BANK = "github.com/acme/site"
TOKEN = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"


def keep(place: Place, memories: Memories, *said: tuple[str, str], session: str = "s1") -> Kept:
    utterances = [Utterance(role=role, text=text, at="2026-11-30T10:00:00Z") for role, text in said]
    scope = place.agent(session_id=session)
    return keep_said(memories, scope, ensure_key(place.paths), utterances)


def kept(memories: Memories, session: str = "s1") -> list[str]:
    return [memory.text for memory in memories.ledger.of_session(BANK, session)]


def test_turns_are_kept_in_order_with_who_said_it(place: Place, memories: Memories) -> None:
    """Issue 5, part 5: what Stop keeps are passages."""
    keep(
        place,
        memories,
        ("user", "What is the staging host called?"),
        ("assistant", "Let me look at the configuration."),
        ("tool", "Bash: grep -r host ."),
        ("tool", "Read: /src/config.py"),
        ("assistant", "It is called heron-42."),
        ("user", "ok"),
    )
    assert kept(memories) == [
        "user: What is the staging host called?",
        "assistant: Let me look at the configuration.",
        "assistant used: Bash: grep -r host .\nRead: /src/config.py",
        "assistant: It is called heron-42.",
    ]
    memory = memories.ledger.of_session(BANK, "s1")[0]
    assert (memory.kind, memory.trust, memory.source.row) == ("passage", "accepted", 1)
    assert memory.recorded_at == "2026-11-30T10:00:00Z"
    found = memories.search(place.agent(), "staging host heron")
    assert found[0].memory.kind == "passage"
    assert memories.known(place.agent()) == []


def test_the_same_turn_again_adds_nothing(place: Place, memories: Memories) -> None:
    """Users' reports 7 and 33."""
    turn = (("user", "What is the staging host called?"), ("assistant", "It is called heron-42."))
    assert keep(place, memories, *turn).kept == 2
    assert keep(place, memories, *turn) == Kept(kept=0, known=2, after_row=2)
    assert len(kept(memories)) == 2


def test_later_turns_go_on_in_the_order(place: Place, memories: Memories) -> None:
    """Ours: a neighbour is what was said next to it."""
    keep(place, memories, ("user", "first question of the day"))
    keep(place, memories, ("user", "second question of the day"))
    rows = [memory.source.row for memory in memories.ledger.of_session(BANK, "s1")]
    assert rows == [1, 2]


def test_secrets_are_masked_and_frames_are_taken_out(place: Place, memories: Memories) -> None:
    """Design, section 6; users' report 33."""
    outcome = keep(
        place,
        memories,
        ("user", f"log in with {TOKEN} please\n{framed(['- recalled thing'])}"),
    )
    assert outcome.masked == 1 and TOKEN not in kept(memories)[0]
    assert "recalled thing" not in kept(memories)[0]


def test_what_was_forgotten_does_not_come_back_with_the_transcript(
    place: Place, memories: Memories
) -> None:
    """Users' report 34: gone from every file, and stays gone."""
    said = (
        ("user", "Remember this. The staging host is quokkamarble in Berlin. Reset it on Sunday."),
        ("assistant", "The staging host is quokkamarble in Berlin."),
    )
    one = memories.add(place.agent(), "The staging host is quokkamarble in Berlin.").memory
    keep(place, memories, *said)
    gone = memories.forget(place.agent(), one.id)
    assert len(gone.also_in) == 2
    for memory_id in gone.also_in:
        memories.forget(place.agent(), memory_id)
    for session in ("s1", "s2"):
        assert keep(place, memories, *said, session=session).forgotten >= 1
    assert [memory.text for memory in memories.ledger.listing(BANK)] == [
        "user: Remember this. Reset it on Sunday."
    ]
    memories.close()
    assert place.bytes_with(b"quokkamarbl") == []


def test_a_denied_workspace_keeps_nothing(place: Place, memories: Memories) -> None:
    """Design, section 6: a denied workspace leaves nothing."""
    with pytest.raises(PolicyDenied):
        keep_said(
            memories,
            place.agent(place.denied, session_id="s1"),
            ensure_key(place.paths),
            [Utterance(role="user", text="something long enough to keep")],
        )
    assert not memories.ledger.exists()


def test_passages_age_out_to_the_last_byte_and_statements_stay(
    place: Place, memories: Memories
) -> None:
    """Design, section 8: passages are aged out, never reviewed."""
    scope = place.agent(session_id="s1")
    old = Utterance(role="user", text="quokkamarble is old news", at="2020-01-01T00:00:00Z")
    keep_said(memories, scope, ensure_key(place.paths), [old])
    memories.add(place.person(), "A statement stays.")
    keep(place, memories, ("user", "something said just now"))
    assert age_out(memories, 0) == 0
    assert age_out(memories, 36_500) == 0
    assert age_out(memories, 2_000) == 1
    assert memories.search(place.agent(), "quokkamarble") == []
    assert len(memories.ledger.listing(BANK)) == 2 and memories.ledger.verify() == []
    memories.close()
    assert place.bytes_with(b"quokkamarbl") == []
    assert keep_said(memories, scope, ensure_key(place.paths), [old]).kept == 1


@pytest.mark.parametrize(
    "text",
    [
        "a paragraph\n\n" * 400,
        "a sentence follows. " * 300,
        "word " * 2_000,
        "x" * 5_000,
        "一句话。" * 900,
        "line\n" * 900,
    ],
)
def test_a_long_text_is_cut_where_it_pauses_and_nothing_is_lost(text: str) -> None:
    """Issue 5, part 5: recalled whole, so kept short."""
    parts = split(text[:7_900])
    assert all(0 < len(part) <= PASSAGE_CHARACTERS for part in parts)
    assert "".join("".join(parts).split()) == "".join(text[:7_900].split())


def test_of_a_pasted_log_head_and_tail_are_kept() -> None:
    """Ours."""
    parts = split("start " + "x" * 100_000 + " end")
    assert parts[0].startswith("start") and parts[-1].endswith("end")
    assert sum(map(len, parts)) < 8_100
