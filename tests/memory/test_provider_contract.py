"""What every provider keeps to, whatever it runs on: one contract over `local`, over the servers'
stand-ins (which `tests/providers` compares with recordings), and over the real servers when their
environments are there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
from openmem.memory.providers.server import OWN_USER, made
from openmem.memory.providers.wire import Address
from tests.fakes import real_cognee, real_hindsight, real_mem0
from tests.fakes.memory_servers.started import provider_on

BANK, OTHER = "github.com/acme/site", "github.com/Acme/site"
_REAL = [pytest.mark.real_provider, pytest.mark.heavy, pytest.mark.timeout(900)]
_WAIT_SECONDS = 180.0


@pytest.fixture(scope="module")
def hindsight_server() -> Iterator[Address]:
    with real_hindsight.real_hindsight() as server:
        yield Address(provider="hindsight", url=server.url, key=real_hindsight.KEY, seconds=60)


@pytest.fixture(scope="module")
def mem0_server() -> Iterator[Address]:
    with real_mem0.real_mem0() as url:
        yield Address(provider="mem0", url=url, key=real_mem0.KEY, seconds=60)


@pytest.fixture(scope="module")
def cognee_server() -> Iterator[Address]:
    with real_cognee.real_cognee() as url:
        yield Address(
            provider="cognee", url=url, key=real_cognee.PASSWORD, user=OWN_USER, seconds=60
        )


@pytest.fixture(
    params=[
        *sorted(PROVIDERS),
        pytest.param("real hindsight", marks=[*_REAL, real_hindsight.needs_hindsight]),
        pytest.param("real mem0", marks=[*_REAL, real_mem0.needs_mem0]),
        pytest.param("real cognee", marks=[*_REAL, real_cognee.needs_cognee]),
    ]
)
def provider(request: pytest.FixtureRequest, home: Path) -> Iterator[Provider]:
    real, _, name = request.param.rpartition(" ")
    if not real:
        with provider_on(name, Paths(os.environ)) as started:
            yield started
        return
    address = request.getfixturevalue(f"{name}_server")
    on_server = made(name, Paths(os.environ), None, address)
    yield on_server
    for bank in (BANK, OTHER):
        bank_admin_of(on_server).drop_bank(bank)
    on_server.close()


def item(memory_id: str, text: str, **other: object) -> Item:
    values = {"kind": "statement", "recorded_at": "2026-11-30T00:00:00Z", **other}
    return Item(id=memory_id, text=text, **values)  # type: ignore[arg-type]


def told(provider: Provider, items: Sequence[Item], bank: str = BANK) -> None:
    """Remember, and wait for what is taken in later."""
    provider.remember(bank, items)
    if "wait" in provider.capabilities:
        assert provider.wait(bank, seconds=_WAIT_SECONDS)  # type: ignore[attr-defined]


def ids(provider: Provider, text: str, bank: str = BANK, **other: object) -> list[str]:
    return [hit.id for hit in provider.recall(bank, Ask(text=text, **other))]  # type: ignore[arg-type]


def test_what_is_remembered_is_found_by_its_words(provider: Provider) -> None:
    """Design, section 4: remember, recall. The best comes first."""
    told(provider, [item("a", "Deploys need the VPN tunnel."), item("b", "Indent with tabs.")])
    assert ids(provider, "which tunnel do deploys need?")[0] == "a"
    assert ids(provider, "indent by tabs?")[0] == "b"
    assert ids(provider, "which tunnel do deploys need?", has_floor=True) == ["a"]


def test_a_bank_holds_nothing_of_another(provider: Provider) -> None:
    """Design, section 8: scope. The two names differ in case only, as folders may."""
    told(provider, [item("a", "Deploys need the VPN.")])
    assert ids(provider, "deploys", OTHER) == []
    told(provider, [item("b", "Deploys need luck.")], OTHER)
    assert ids(provider, "deploys") == ["a"] and ids(provider, "deploys", OTHER) == ["b"]


def test_asking_an_unknown_bank_creates_nothing(provider: Provider) -> None:
    """Design, section 6."""
    assert ids(provider, "deploy") == []
    provider.forget(BANK, ["a"])
    assert provider.status(BANK).memories == 0
    assert not os.path.exists(Paths(os.environ).state_dir)


def test_the_same_id_again_replaces_its_text(provider: Provider) -> None:
    """Ours: the outbox delivers at least once."""
    told(provider, [item("a", "Deploys need the VPN.")])
    told(provider, [item("a", "Releases need the VPN.")])
    assert ids(provider, "releases vpn") == ["a"] and provider.status(BANK).memories == 1
    assert ids(provider, "deploys", has_floor=True) == []
    told(provider, [item("a", "Releases need the VPN.")])
    assert ids(provider, "releases vpn") == ["a"] and provider.status(BANK).memories == 1


def test_forgetting_removes_one_and_twice_is_once(provider: Provider) -> None:
    """Users' report 34: two texts that share most words."""
    told(
        provider,
        [item("a", "The staging host is heron-42."), item("b", "The staging host is ibis-7.")],
    )
    provider.forget(BANK, ["a"])
    provider.forget(BANK, ["a", "never-there"])
    assert ids(provider, "staging host heron") == ["b"]
    assert provider.status(BANK).memories == 1
    if "listing" in provider.capabilities:
        assert list(provider.listing(BANK)) == ["b"]


def test_kinds_and_limit_and_session_narrow(provider: Provider) -> None:
    """Ours."""
    told(
        provider,
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
    told(provider, [item("a", "Deploys need the VPN.")])
    told(provider, [item("b", "Deploys need luck.")], OTHER)
    bank_admin_of(provider).drop_bank(BANK)
    bank_admin_of(provider).drop_bank("never-there")
    assert ids(provider, "deploys") == [] and ids(provider, "deploys", OTHER) == ["b"]


def test_no_question_is_an_error(provider: Provider) -> None:
    """Users' report 23."""
    told(provider, [item("a", "nothing of the kind")])
    for text in (
        '"',
        "NEAR(",
        "AND",
        "col:x",
        "100%",
        "it's",
        "",
        "\x00",
        "(((",
        "*",
        "日本語の設定",
        "half \ud83d",
    ):
        assert ids(provider, text, limit=3) in ([], ["a"]), text


def test_what_is_remembered_comes_back_whatever_it_is_made_of(provider: Provider) -> None:
    """Ours: text is text: quotes, paths, addresses, other scripts, a lone surrogate, a NUL."""
    odd = "see /etc/passwd and https://x.example/a?b=c 'quoted' \"twice\" 日本語 \ud83d \x00 end"
    told(provider, [item("a", odd), item("b", "Indent with tabs.")])
    assert provider.status(BANK).memories == 2
    assert ids(provider, "see quoted twice passwd end")[0] == "a"
    provider.forget(BANK, ["a"])
    assert provider.status(BANK).memories == 1


@pytest.mark.parametrize("capability", ["listing", "erase"])
def test_what_it_cannot_do_is_raised_by_name(provider: Provider, capability: str) -> None:
    """Design, section 4: unsupported raises, never an empty success."""
    told(provider, [item("a", "Deploys need the VPN.")])
    call = {"listing": lambda: list(provider.listing(BANK)), "erase": lambda: provider.erase(BANK)}
    if capability in provider.capabilities:
        assert call[capability]() in (["a"], True)
        return
    with pytest.raises(Unsupported, match=capability):
        call[capability]()


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
