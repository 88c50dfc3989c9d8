"""Every verb, through policy, redaction, ledger and provider."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from openmem.base.errors import Failed, NotFound, PolicyDenied, Usage
from openmem.memory.facade import Memories
from openmem.memory.ledger import Duplicate, Tombstoned
from openmem.memory.model import Memory
from openmem.memory.providers.local.bank_file import path_of
from openmem.memory.scope import Scope
from tests.memory.conftest import PERSON, Place

VPN = "Deploys need the VPN."
TOKEN = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"


def found(memories: Memories, scope: Scope, text: str, **other: object) -> list[str]:
    return [one.memory.id for one in memories.search(scope, text, **other)]  # type: ignore[arg-type]


def add(memories: Memories, scope: Scope, text: str, **other: object) -> Memory:
    return memories.add(scope, text, **other).memory  # type: ignore[arg-type]


def test_what_an_agent_adds_is_pending_and_a_persons_is_accepted(
    place: Place, memories: Memories
) -> None:
    """Design, section 8: trust."""
    one = add(memories, place.agent(session_id="s1"), VPN)
    two = add(memories, place.person(), "Use tabs for indentation.")
    assert (one.trust, one.actor, one.source.session_id) == ("pending", "agent:claude-code", "s1")
    assert (two.trust, two.actor) == ("accepted", "person:ada")
    assert one.bank == two.bank == "github.com/acme/site"
    assert found(memories, place.agent(), "deploy vpn") == [one.id]


def test_a_secret_is_masked_before_it_is_kept(place: Place, memories: Memories) -> None:
    """Design, sections 6 and 8: redaction before the ledger and the provider."""
    added = memories.add(place.agent(), f"The bot logs in with {TOKEN} on staging.")
    assert added.masked and TOKEN not in added.memory.text
    memories.close()
    assert place.bytes_with(TOKEN.encode()) == []


@pytest.mark.parametrize("text", ["", "   ", "\u200b", "x" * 4_001])
def test_a_text_that_cannot_be_a_statement_is_refused(
    place: Place, memories: Memories, text: str
) -> None:
    """Issue 5, bad input."""
    with pytest.raises(Usage):
        memories.add(place.agent(), text)
    assert not memories.ledger.exists()


def test_what_was_recalled_is_not_remembered_again(place: Place, memories: Memories) -> None:
    """Users' report 33."""
    with pytest.raises(Usage, match="recalled"):
        memories.add(place.agent(), '<openmem-recall untrusted="true"> x </openmem-recall>')


def test_a_denied_workspace_keeps_and_recalls_nothing(place: Place, memories: Memories) -> None:
    """Design, section 4: policy."""
    scope = place.agent(place.denied)
    for act in (lambda: memories.add(scope, VPN), lambda: memories.search(scope, "vpn")):
        with pytest.raises(PolicyDenied) as raised:
            act()
        assert raised.value.exit_status == 7
    with pytest.raises(PolicyDenied):
        memories.add(place.person(place.denied), VPN)
    assert not memories.ledger.exists()


def test_an_agent_reaches_no_bank_but_its_own_and_granted_ones(
    place: Place, memories: Memories
) -> None:
    """Design, section 8: a model cannot name a bank that policy does not grant."""
    one = add(memories, place.agent(place.other), VPN)
    scope = place.agent()
    bank = "github.com/acme/other"
    for act in (
        lambda: memories.search(scope, "vpn", bank=bank),
        lambda: memories.show(scope, one.id),
        lambda: memories.forget(scope, one.id),
        lambda: memories.correct(scope, one.id, "x y z"),
        lambda: memories.history(scope, one.id),
        lambda: memories.add(scope, "x y z", bank=bank),
    ):
        with pytest.raises(PolicyDenied) as raised:
            act()
        assert raised.value.code == "wrong-bank"
    policy = Path(place.paths.policy_file)
    policy.write_text(policy.read_text() + f'[[grants]]\npath = "{place.site}"\nbank = "{bank}"\n')
    granted = place.agent()
    assert found(memories, granted, "vpn", bank=bank) == [one.id]
    assert memories.show(granted, one.id).text == VPN
    with pytest.raises(PolicyDenied):
        memories.forget(granted, one.id)
    assert found(memories, place.person(), "vpn", bank=bank) == [one.id]


def test_a_rejected_statement_is_never_shown_and_may_be_accepted_later(
    place: Place, memories: Memories
) -> None:
    """Design, section 8: never rejected ones."""
    one = add(memories, place.agent(), VPN)
    with pytest.raises(PolicyDenied):
        memories.judge(place.agent(), one.id, "accepted")
    memories.judge(place.person(), one.id, "rejected")
    assert found(memories, place.agent(), "vpn") == [] == memories.known(place.agent())
    with pytest.raises(NotFound):
        memories.show(place.agent(), one.id)
    assert memories.listing(place.agent()) == []
    assert [m.id for m in memories.listing(place.person())] == [one.id]
    memories.judge(place.person(), one.id, "accepted")
    assert found(memories, place.agent(), "vpn") == [one.id]


def test_a_correction_replaces_and_links_both_ways(place: Place, memories: Memories) -> None:
    """Design, section 8: correction supersedes."""
    one = add(memories, place.person(), VPN)
    two = memories.correct(place.person(), one.id, "Deploys run from CI only.").memory
    old = memories.show(place.person(), one.id)
    assert (old.state, old.superseded_by, two.supersedes) == ("superseded", two.id, one.id)
    assert found(memories, place.agent(), "deploys") == [two.id]
    with pytest.raises(Failed) as raised:
        memories.correct(place.person(), one.id, "again")
    assert raised.value.code == "not-active" and two.id in raised.value.message


def test_an_agents_correction_of_an_accepted_statement_waits_for_a_person(
    place: Place, memories: Memories
) -> None:
    """Ours: an agent alone must not take an accepted statement out of sight."""
    one = add(memories, place.person(), VPN)
    two = memories.correct(place.agent(), one.id, "Deploys run from CI only.").memory
    assert (two.trust, two.supersedes) == ("pending", one.id)
    assert set(found(memories, place.agent(), "deploys")) == {one.id, two.id}
    memories.judge(place.person(), two.id, "accepted")
    assert found(memories, place.agent(), "deploys") == [two.id]
    assert memories.ledger.verify() == []


def test_an_agent_corrects_its_own_pending_statement_at_once(
    place: Place, memories: Memories
) -> None:
    """Ours."""
    one = add(memories, place.agent(), VPN)
    two = memories.correct(place.agent(), one.id, "Deploys run from CI only.").memory
    assert found(memories, place.agent(), "deploys") == [two.id]


def test_times_say_what_is_shown_now_and_then(place: Place, memories: Memories) -> None:
    """Design, section 8: two times; recall --as-of."""
    scope = place.person()
    past = add(memories, scope, "Ada is on call.", valid_from="2020-01-01", valid_to="2020-02-01")
    coming = add(memories, scope, "Mira is on call.", valid_from="2999-01-01")
    now = add(memories, scope, "Jonas is on call.", valid_from="2020-02-01T00:00:00+00:00")
    assert found(memories, scope, "on call") == [now.id]
    assert [m.id for m in memories.known(scope)] == [now.id]
    assert found(memories, scope, "on call", as_of="2020-01-15") == [past.id]
    assert set(found(memories, scope, "on call", as_of="2999-06-01")) == {now.id, coming.id}
    assert found(memories, scope, "on call", as_of="2019-01-01") == []


def test_a_replaced_statement_is_found_as_of_a_time_before(
    place: Place, memories: Memories
) -> None:
    """Design, section 8."""
    one = memories.ledger.add(
        bank="github.com/acme/site",
        text=VPN,
        kind="statement",
        actor=place.person().actor,
        trust="accepted",
        recorded_at="2025-01-01T00:00:00Z",
    )
    two = memories.correct(place.person(), one.id, "Deploys run from CI only.").memory
    assert found(memories, place.person(), "deploys", as_of="2025-06-01") == [one.id]
    assert found(memories, place.person(), "deploys") == [two.id]


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-02-30", "12", "2026-1-1"])
def test_a_time_that_is_none_is_refused_before_anything_is_kept(
    place: Place, memories: Memories, text: str
) -> None:
    """Issue 5, bad input: invalid time."""
    with pytest.raises(Usage, match="valid-from"):
        memories.add(place.person(), VPN, valid_from=text)
    with pytest.raises(Usage, match="not after"):
        memories.add(place.person(), VPN, valid_from="2026-02-01", valid_to="2026-02-01")
    assert not memories.ledger.exists()


def test_forgetting_is_one_memory_for_good(place: Place, memories: Memories) -> None:
    """Users' report 34; design, section 8."""
    scope = place.agent()
    one = add(memories, scope, "The staging host is quokkamarble in Berlin.")
    two = add(memories, scope, "The staging host in Berlin is reset on Sunday.")
    gone = memories.forget(scope, one.id)
    assert (gone.pending, gone.also_in) == ((), ())
    assert found(memories, scope, "staging host Berlin quokkamarble") == [two.id]
    memories.close()
    assert place.bytes_with(b"quokkamarbl") == []
    with pytest.raises(Tombstoned):
        memories.add(scope, "the staging host is QUOKKAMARBLE in Berlin")
    for act in (memories.forget, memories.mine):
        with pytest.raises(Failed) as raised:
            act(scope, one.id)
        assert raised.value.code == "forgotten"
    memories.close()
    assert place.bytes_with(b"quokkamarbl") == []


def test_forgetting_is_pending_while_a_reader_holds_old_pages(
    place: Place, memories: Memories
) -> None:
    """Issue: forgetting says so until the bytes are gone; the next delivery finishes it."""
    scope = place.agent()
    one = add(memories, scope, "quokkamarble is the code name")
    memories.close()
    reader = sqlite3.connect(path_of(place.paths, scope.bank), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM doc").fetchall()
    try:
        gone = memories.forget(scope, one.id)
        assert gone.pending == ("bytes",)
        assert found(memories, scope, "quokkamarble") == []
    finally:
        reader.close()
    assert memories.deliver().waiting == 0
    memories.close()
    assert place.bytes_with(b"quokkamarbl") == []


def test_the_same_statement_twice_is_one_and_names_the_first(
    place: Place, memories: Memories
) -> None:
    """Design, section 8: deduplicated."""
    one = add(memories, place.agent(), VPN)
    with pytest.raises(Duplicate, match=one.id):
        add(memories, place.person(), "deploys  need the VPN")


@pytest.mark.parametrize(
    ("given", "error"),
    [("m-0000000000000000", NotFound), ("nothing like it", Usage), ("", Usage), ("%", Usage)],
)
def test_an_unknown_id_is_one_clear_error(
    place: Place, memories: Memories, given: str, error: type[Exception]
) -> None:
    """Issue 5, bad input."""
    add(memories, place.agent(), VPN)
    for act in (memories.show, memories.forget, memories.mine):
        with pytest.raises(error):
            act(place.agent(), given)


def test_the_start_of_an_id_will_do_when_it_is_one(place: Place, memories: Memories) -> None:
    """Ours, as for sessions."""
    one = add(memories, place.agent(), VPN)
    assert memories.show(place.agent(), one.id[:8]).id == one.id
    assert memories.show(place.agent(), one.id[2:9]).id == one.id
    for memory_id in ("m-00aa", "m-00ab"):
        memories.ledger.add(
            bank="b", text=memory_id, kind="statement", actor=PERSON, trust="accepted",
            memory_id=memory_id,
        )  # fmt: skip
    with pytest.raises(Usage, match="several"):
        memories.show(place.person(), "m-00a")


def test_a_provider_that_was_down_misses_nothing(
    place: Place, memories: Memories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Design: the ledger's outbox."""

    def down(*_: object) -> None:
        raise Failed("the provider is down.", code="provider-down")

    with monkeypatch.context() as patch:
        patch.setattr(memories.provider, "remember", down)
        one = add(memories, place.agent(), VPN)
        two = add(memories, place.agent(), "Deploys take an hour.")
        assert found(memories, place.agent(), "deploys") == []
        memories.forget(place.agent(), two.id)
    assert memories.deliver().told > 0
    assert found(memories, place.agent(), "deploys") == [one.id]
    assert memories.ledger.outbox("local") == []


def test_a_provider_that_lost_or_made_up_memories_is_put_right(
    place: Place, memories: Memories
) -> None:
    """Users' report 37: the ledger is what counts."""
    scope = place.agent()
    one = add(memories, scope, VPN)
    rejected = add(memories, scope, "Deploys never fail.")
    memories.judge(place.person(), rejected.id, "rejected")
    memories.provider.forget(scope.bank, [one.id])
    from openmem.memory.providers.base import Item

    memories.provider.remember(
        scope.bank, [Item(id="m-ff", text="deploys are magic", kind="statement", recorded_at="")]
    )
    assert found(memories, scope, "deploys") == []
    assert memories.reindex(scope.bank) == 1
    assert found(memories, scope, "deploys") == [one.id]
    assert list(memories.provider.listing(scope.bank)) == [one.id]


def test_worktrees_and_subfolders_share_one_bank(place: Place, memories: Memories) -> None:
    """Users' report 30."""
    folder = place.site / "web" / "src"
    folder.mkdir(parents=True)
    one = add(memories, place.agent(folder), VPN)
    assert found(memories, place.agent(), "vpn") == [one.id]
    assert found(memories, place.agent(place.other), "vpn") == []
