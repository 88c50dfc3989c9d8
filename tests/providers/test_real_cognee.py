"""Memory through the real Cognee server, accounts on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.cognee.provider import CogneeProvider
from openmem.memory.providers.plain_http import PlainTransport
from openmem.memory.providers.server import OWN_USER
from openmem.memory.providers.wire import Address, KeyRefused
from openmem.setup.provider_smoke import try_provider
from tests.fakes.real_cognee import PASSWORD, needs_cognee, real_cognee

pytestmark = [
    pytest.mark.real_provider,
    pytest.mark.heavy,
    pytest.mark.timeout(900),
    needs_cognee,
]
BANK = "github.com/acme/site"
AT = "2026-11-30T00:00:00Z"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with real_cognee() as url:
        yield url


@pytest.fixture
def provider(address: str) -> Iterator[CogneeProvider]:
    where = Address(provider="cognee", url=address, key=PASSWORD, user=OWN_USER, seconds=60)
    made = CogneeProvider(where, PlainTransport(), lambda: "here")
    yield made
    made.drop_bank(BANK)


def ids(provider: CogneeProvider, text: str) -> list[str]:
    return [hit.id for hit in provider.recall(BANK, Ask(text=text))]


def item(memory_id: str, text: str) -> Item:
    return Item(id=memory_id, text=text, kind="statement", recorded_at=AT)


def test_a_sentence_is_remembered_found_and_forgotten(provider: CogneeProvider) -> None:
    """Issue 6: the wizard's smoke test."""
    assert try_provider(provider, lambda line: None) < 240


def test_a_wrong_password_is_refused(address: str) -> None:
    """Issue 6, bad input."""
    where = Address(provider="cognee", url=address, key="wrong", user=OWN_USER, seconds=60)
    with pytest.raises(KeyRefused):
        CogneeProvider(where, PlainTransport(), lambda: "here").status(BANK)


def test_the_contract_holds(provider: CogneeProvider) -> None:
    """Issue 6: one contract over all providers, against the real server."""
    assert ids(provider, "deploy") == [] and provider.status(BANK).memories == 0
    provider.forget(BANK, ["m-1"])
    texts = {"m-1": "Deploys need the VPN tunnel.", "m-2": "Indent with tabs, never spaces."}
    provider.remember(BANK, [item(one, text) for one, text in texts.items()])
    assert provider.wait(BANK, seconds=120)
    assert ids(provider, "deploys VPN tunnel")[0] == "m-1"
    assert ids(provider, "indent tabs spaces")[0] == "m-2"
    assert sorted(provider.listing(BANK)) == ["m-1", "m-2"]
    provider.remember(BANK, [item("m-1", texts["m-1"])])  # told twice
    assert provider.wait(BANK, seconds=120) and provider.status(BANK).memories == 2
    provider.remember(BANK, [item("m-1", "Releases run from CI at night.")])
    assert provider.wait(BANK, seconds=120) and provider.status(BANK).memories == 2
    assert ids(provider, "releases CI night")[0] == "m-1"
    provider.forget(BANK, ["m-1", "m-1", "m-9"])
    assert "m-1" not in ids(provider, "releases CI night")
    assert list(provider.listing(BANK)) == ["m-2"]
    assert provider.recall("another bank", Ask(text="tabs")) == []
    assert ids(provider, "日本語 (((") in ([], ["m-2"])
