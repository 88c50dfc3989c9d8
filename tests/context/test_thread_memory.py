"""What is remembered of requests: one answer from bytes and from hashes, and never too much."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from openmem.context.store.thread_memory import (
    ByteBudget,
    Memories,
    ThreadMemory,
    common_length,
)

messages = st.lists(st.sampled_from([b"a", b"b", b"cc"]), max_size=8)


def memory(raws: Sequence[bytes], thread: str = "t", agent_id: str = "") -> ThreadMemory:
    made = ThreadMemory(
        kind="main",
        agent_id=agent_id,
        seed="",
        root=thread,
        thread=thread,
        raws=list(raws),
        size=sum(map(len, raws)),
    )
    for number in range(1, len(raws) + 1):
        made.add_message(head=f"{number:032x}", head_seq=number, seqs=[number])
    return made


@given(first=messages, second=messages)
def test_bytes_and_hashes_give_the_same_answer(first: list[bytes], second: list[bytes]) -> None:
    """Brief: a resent history costs a prefix compare, not a parse."""
    expected = 0
    while expected < min(len(first), len(second)) and first[expected] == second[expected]:
        expected += 1
    assert common_length(first, second) == expected
    for lets_go in (False, True):
        memories = Memories(ByteBudget())
        kept = memory(first)
        memories.keep(kept)
        if lets_go:
            kept.let_go_of_bytes()
        found, count = memories.longest_match("main", "", second)
        assert (found is kept, count) == ((True, expected) if expected else (False, 0))


def test_only_memories_of_the_same_agent_are_compared() -> None:
    """Design, section 7: sub-agents never disturb the main thread."""
    memories = Memories(ByteBudget())
    memories.keep(memory([b"a"], agent_id="x"))
    assert memories.longest_match("main", "", [b"a"]) == (None, 0)
    assert memories.longest_match("side", "x", [b"a"]) == (None, 0)


def test_the_bytes_kept_stay_below_the_budget_and_the_rest_is_still_known() -> None:
    """Brief: bounded memory."""
    budget = ByteBudget(most_bytes=100)
    sessions = [Memories(budget) for _ in range(5)]
    kept = [memory([bytes([number]) * 40]) for number in range(5)]
    for memories, one in zip(sessions, kept, strict=True):
        memories.keep(one)
    assert [one.raws is not None for one in kept] == [False, False, False, True, True]
    for number, memories in enumerate(sessions):
        assert memories.longest_match("main", "", [bytes([number]) * 40])[1] == 1
    sessions[4].clear()
    sessions[3].keep(memory([b"z" * 40]))
    assert kept[2].raws is None and kept[4].raws is not None
    big = memory([b"y" * 101])
    sessions[0].keep(big)
    assert big.raws is None


def test_only_so_many_threads_of_a_session_are_remembered() -> None:
    """Brief: bounded memory."""
    memories = Memories(ByteBudget())
    for number in range(20):
        memories.keep(memory([b"a"], thread=f"t{number}"))
    assert memories.of_thread("t0") is None and memories.of_thread("t19") is not None
    assert sum(memories.of_thread(f"t{number}") is not None for number in range(20)) == 8


def test_a_head_before_the_first_row_is_the_seed() -> None:
    """Ours: messages of nothing but reminders advance no chain."""
    made = ThreadMemory(kind="side", agent_id="", seed="5" * 32, root="r", thread="r")
    made.add_message(head=made.seed, head_seq=0, seqs=[7])
    made.add_message(head="6" * 32, head_seq=8, seqs=[8])
    assert [made.head(n) for n in range(3)] == ["5" * 32, "5" * 32, "6" * 32]
    assert [made.head_seq(n) for n in range(3)] == [0, 0, 8]
    assert list(made.carried(1)) == [7] and list(made.carried(2)) == [7, 8]
