"""Memories as a file and back: nothing is lost, nothing gets past the rules."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmem.base.errors import PolicyDenied, Usage
from openmem.base.installation import ensure_key
from openmem.memory.facade import Memories
from openmem.memory.importing import Imported, import_records
from openmem.memory.model import Memory
from openmem.memory.portability import decode_record, document, exported, json_lines
from openmem.memory.scope import Scope
from tests.memory.conftest import Place

BANK = "github.com/acme/site"
TOKEN = "ghp_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"


def take(place: Place, memories: Memories, scope: Scope, data: str, **options: object) -> Imported:
    return import_records(
        memories,
        scope,
        data.encode(),
        key=ensure_key(place.paths),
        **options,  # type: ignore[arg-type]
    )


def out(memories: Memories, scope: Scope, **options: object) -> str:
    return "\n".join(json_lines(exported(memories, scope, **options)))  # type: ignore[arg-type]


def filled(place: Place, memories: Memories) -> dict[str, Memory]:
    person, agent = place.person(), place.agent(session_id="s1")
    made = {
        "accepted": memories.add(person, "Deploys need the VPN.").memory,
        "pending": memories.add(agent, "Deploys take an hour.").memory,
        "rejected": memories.add(agent, "Deploys never fail.").memory,
        "dated": memories.add(
            person, "Ada is on call.", valid_from="2026-01-01", valid_to="2999-01-01"
        ).memory,
        "old": memories.add(person, "The host is heron-42.").memory,
    }
    memories.judge(person, made["rejected"].id, "rejected")
    made["new"] = memories.correct(person, made["old"].id, "The host is ibis-7.").memory
    made["gone"] = memories.add(person, "quokkamarble is the code name").memory
    memories.forget(person, made["gone"].id)
    return made


def facts(memories: Memories, bank: str) -> set[tuple[str, ...]]:
    return {
        (m.id, m.text, m.kind, m.trust, m.state, m.recorded_at, m.valid_from, m.valid_to,
         m.superseded_by, m.source.session_id)
        for m in memories.ledger.listing(bank, include_gone=True)
        if m.state != "forgotten"
    }  # fmt: skip


@pytest.mark.parametrize("form", ["lines", "document"])
def test_a_round_trip_keeps_everything(place: Place, memories: Memories, form: str) -> None:
    """Issue 5, part 7: id, content, bank, times, trust, provenance."""
    filled(place, memories)
    before = facts(memories, BANK)
    data = out(memories, place.person())
    if form == "document":
        data = document(exported(memories, place.person()), BANK)
    assert "quokkamarble" not in data
    memories.ledger.drop_bank(BANK, place.person().actor)
    memories.provider.drop_bank(BANK)  # type: ignore[attr-defined]
    outcome = take(place, memories, place.person(), data)
    assert (outcome.added, outcome.replaced, outcome.errors) == (6, 1, [])
    assert facts(memories, BANK) == before and memories.ledger.verify() == []
    assert [f.memory.text for f in memories.search(place.agent(), "host heron ibis")] == [
        "The host is ibis-7."
    ]
    again = take(place, memories, place.person(), data)
    assert (again.added, again.known) == (0, 6)


def test_a_dry_run_says_the_same_and_does_nothing(place: Place, memories: Memories) -> None:
    """Issue 5, part 7: --dry-run says what would happen."""
    filled(place, memories)
    data = out(memories, place.person())
    data += "\nnot json\n" + data.splitlines()[0]
    scope = place.person(place.other)
    dry = take(place, memories, scope, data, dry_run=True)
    assert memories.ledger.listing(scope.bank) == []
    real = take(place, memories, scope, data)
    assert (dry.added, dry.known, dry.forgotten, dry.errors, dry.by_trust) == (
        real.added, real.known, real.forgotten, real.errors, real.by_trust
    )  # fmt: skip


def test_a_malformed_line_is_named_and_the_others_come_in(place: Place, memories: Memories) -> None:
    """Issue 5, bad input."""
    good = {"content": "Deploys need the VPN."}
    bad = [
        "{",
        "[1]",
        '"text"',
        '{"content": 3}',
        '{"content": "  "}',
        '{"pmm": 2, "content": "x y"}',
        '{"content": "x y", "valid_from": "soon"}',
        '{"content": "x y", "valid_from": "2026-02-01", "valid_to": "2026-01-01"}',
        '{"content": "x y", "kind": "page"}',
        '{"content": "x y", "trust": "sure"}',
        '{"content": "x y", "provenance": 3}',
        '{"content": "<openmem-recall> x openmem </openmem-recall>"}',
        json.dumps({"content": "x" * 5_000}),
        '{"content": "x y", "superseded_by": "m-0123456789abcdef"}',
    ]
    lines = [json.dumps({"type": "header", "pmm": 1}), *bad, json.dumps(good), ""]
    outcome = take(place, memories, place.person(), "\n".join(lines))
    assert outcome.added == 1
    assert [number for number, _ in outcome.errors] == list(range(2, 2 + len(bad)))
    assert all(reason for _, reason in outcome.errors)
    assert [m.text for m in memories.known(place.person())] == ["Deploys need the VPN."]


def test_what_was_forgotten_here_does_not_come_in(place: Place, memories: Memories) -> None:
    """Design, section 8: tombstones honoured."""
    one = memories.add(place.person(), "quokkamarble is the code name").memory
    data = out(memories, place.person())
    memories.forget(place.person(), one.id)
    outcome = take(place, memories, place.person(), data)
    assert (outcome.added, outcome.forgotten) == (0, 1)
    memories.close()
    assert place.bytes_with(b"quokkamarbl") == []


def test_secrets_in_a_file_are_masked(place: Place, memories: Memories) -> None:
    """Design, section 6."""
    data = json.dumps({"content": f"log in with {TOKEN} on staging"})
    assert take(place, memories, place.person(), data).masked == 1
    memories.close()
    assert place.bytes_with(TOKEN.encode()) == []


def test_what_an_agent_brings_in_waits_whatever_the_file_claims(
    place: Place, memories: Memories
) -> None:
    """Design, section 8: trust."""
    data = "\n".join(
        json.dumps({"content": f"statement number {trust}", "trust": trust})
        for trust in ("accepted", "pending", "rejected")
    )
    outcome = take(place, memories, place.agent(), data)
    assert outcome.by_trust == {"pending": 2, "rejected": 1}
    outcome = take(place, memories, place.person(place.other), data, as_pending=True)
    assert outcome.by_trust == {"pending": 2, "rejected": 1}
    with pytest.raises(Usage):
        take(place, memories, place.agent(), data, own_banks=True)
    with pytest.raises(PolicyDenied):
        take(place, memories, place.agent(), data, bank="github.com/acme/other")
    with pytest.raises(PolicyDenied):
        take(place, memories, place.agent(place.denied), data)


def test_an_agent_exports_what_recall_would_show_it(place: Place, memories: Memories) -> None:
    """Issue 5: absent from recall on every path, export among them."""
    made = filled(place, memories)
    data = out(memories, place.agent())
    assert made["accepted"].text in data and made["pending"].text in data
    for name in ("rejected", "old"):
        assert made[name].text not in data


def test_a_person_may_import_into_the_banks_that_are_named(
    place: Place, memories: Memories
) -> None:
    """Ours: a whole machine's backup."""
    data = json.dumps({"content": "Deploys need luck.", "bank": "somewhere/else"})
    take(place, memories, place.person(), data, own_banks=True)
    assert [bank for bank, *_ in memories.ledger.banks()] == ["somewhere/else"]


def test_an_id_from_elsewhere_gets_one_of_ours(place: Place, memories: Memories) -> None:
    """Ours: the file of another system."""
    data = json.dumps([{"id": "abc", "content": "one thing"}, {"id": 7, "content": "another"}])
    outcome = take(place, memories, place.person(), data)
    assert outcome.added == 1 and outcome.errors == [(2, "id: expected text")]
    assert memories.known(place.person())[0].id.startswith("m-")


def test_a_newer_document_is_refused_whole(place: Place, memories: Memories) -> None:
    """Issue 5, bad input: nothing half done."""
    with pytest.raises(Usage, match="version 2"):
        take(place, memories, place.person(), '{"pmm": 2, "memories": []}')


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["content", "kind", "trust", "id", "bank", "valid_from", "provenance", "pmm"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=8,
    )
)
def test_no_record_is_more_than_a_reason(value: object) -> None:
    """Ours: untrusted input is decoded, or refused with a reason."""
    try:
        record = decode_record(value, 1)
    except ValueError as error:
        assert str(error)
    else:
        assert record is None or record.content
