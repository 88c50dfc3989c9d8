"""What every provider keeps to, whatever it runs on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.errors import Unsupported, Usage
from openmem.base.paths import Paths
from openmem.memory.providers.base import Ask, Item, Provider
from openmem.memory.providers.registry import (
    PLANNED,
    PROVIDERS,
    bank_admin_of,
    provider_of,
)
from tests.fakes.memory_servers.started import provider_on

BANK, OTHER = "github.com/acme/site", "github.com/Acme/site"


@pytest.fixture(params=sorted(PROVIDERS))
def provider(request: pytest.FixtureRequest, home: Path) -> Iterator[Provider]:
    with provider_on(request.param, Paths(os.environ)) as made:
        yield made


def item(memory_id: str, text: str, **other: object) -> Item:
    values = {"kind": "statement", "recorded_at": "2026-11-30T00:00:00Z", **other}
    return Item(id=memory_id, text=text, **values)  # type: ignore[arg-type]


def ids(provider: Provider, text: str, bank: str = BANK, **other: object) -> list[str]:
    return [hit.id for hit in provider.recall(bank, Ask(text=text, **other))]  # type: ignore[arg-type]


def test_what_is_remembered_is_found_by_its_words(provider: Provider) -> None:
    """Design, section 4: remember, recall."""
    provider.remember(BANK, [item("a", "Deploys need the VPN."), item("b", "Use tabs.")])
    assert ids(provider, "how to deploy?") == ["a"]
    assert ids(provider, "tab") == ["b"]


def test_a_bank_holds_nothing_of_another(provider: Provider) -> None:
    """Design, section 8: scope. The two names differ in case only, as folders may."""
    provider.remember(BANK, [item("a", "Deploys need the VPN.")])
    assert ids(provider, "deploy", OTHER) == []
    provider.remember(OTHER, [item("b", "Deploys need luck.")])
    assert ids(provider, "deploy") == ["a"] and ids(provider, "deploy", OTHER) == ["b"]


def test_asking_an_unknown_bank_creates_nothing(provider: Provider) -> None:
    """Design, section 6."""
    assert ids(provider, "deploy") == []
    provider.forget(BANK, ["a"])
    assert provider.status(BANK).memories == 0
    assert not os.path.exists(Paths(os.environ).state_dir)


def test_the_same_id_again_replaces_its_text(provider: Provider) -> None:
    """Ours: the outbox delivers at least once."""
    provider.remember(BANK, [item("a", "Deploys need the VPN.")])
    provider.remember(BANK, [item("a", "Releases need the VPN.")])
    assert ids(provider, "release vpn") == ["a"] and provider.status(BANK).memories == 1
    assert ids(provider, "deploy", has_floor=True) == []


def test_forgetting_removes_one_and_twice_is_once(provider: Provider) -> None:
    """Users' report 34: two texts that share most words."""
    provider.remember(
        BANK, [item("a", "The staging host is heron-42."), item("b", "The staging host is ibis-7.")]
    )
    provider.forget(BANK, ["a"])
    provider.forget(BANK, ["a", "never-there"])
    assert ids(provider, "staging host heron") == ["b"]
    if "listing" in provider.capabilities:
        assert list(provider.listing(BANK)) == ["b"]


def test_kinds_and_limit_and_session_narrow(provider: Provider) -> None:
    """Ours."""
    provider.remember(
        BANK,
        [
            item("s", "The parser is slow."),
            item("p1", "user: the parser is slow", kind="passage", session_id="one", row=1),
            item("p2", "user: a slow parser", kind="passage", session_id="two", row=1),
        ],
    )
    assert ids(provider, "slow parser", kinds=("statement",)) == ["s"]
    assert len(ids(provider, "slow parser", limit=2)) == 2
    assert set(ids(provider, "slow parser", without_session="one")) == {"s", "p2"}


def test_dropping_a_bank_leaves_the_others(provider: Provider) -> None:
    """Design, section 4: BankAdmin."""
    provider.remember(BANK, [item("a", "Deploys need the VPN.")])
    provider.remember(OTHER, [item("b", "Deploys need luck.")])
    bank_admin_of(provider).drop_bank(BANK)
    bank_admin_of(provider).drop_bank("never-there")
    assert ids(provider, "deploy") == [] and ids(provider, "deploy", OTHER) == ["b"]


@pytest.mark.parametrize(
    "text", ['"', "NEAR(", "AND", "col:x", "100%", "it's", "", "\x00", "(((", "*"]
)
def test_no_question_is_an_error(provider: Provider, text: str) -> None:
    """Users' report 23."""
    provider.remember(BANK, [item("a", "nothing of the kind")])
    assert ids(provider, text, limit=3) in ([], ["a"])


@pytest.mark.parametrize("name", PLANNED)
def test_a_planned_provider_is_refused_by_name(home: Path, name: str) -> None:
    """Issue 6, part 6: listed as planned, refuse to be chosen."""
    with pytest.raises(Unsupported) as raised:
        provider_of(name, Paths(os.environ))
    assert raised.value.code == "planned" and name in raised.value.message


def test_an_unknown_provider_is_refused_and_the_known_are_named(home: Path) -> None:
    """Issue 5, bad input."""
    with pytest.raises(Usage, match="nowhere"):
        provider_of("nowhere", Paths(os.environ))
