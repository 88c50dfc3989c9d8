"""Hindsight's adapter against its stand-in."""

from __future__ import annotations

import pytest

from openmem.base.errors import Unsupported
from openmem.base.paths import Paths
from openmem.memory.providers.base import Ask, Item, Provider
from openmem.memory.providers.hindsight import provider as module
from openmem.memory.providers.hindsight.provider import Busy, HindsightProvider
from openmem.memory.providers.wire import KeyRefused, ServerFailed
from tests.fakes.memory_servers.hindsight import Hindsight
from tests.fakes.memory_servers.started import provider_to

BANK = "github.com/acme/site"
VPN = Item(
    id="m-1", text="Deploys need the VPN.", kind="statement", recorded_at="2026-11-30T00:00:00Z"
)


@pytest.fixture
def provider(hindsight: Hindsight, paths: Paths) -> HindsightProvider:
    made = provider_to(hindsight, "hindsight", paths)
    assert isinstance(made, HindsightProvider)
    return made


def ids(provider: Provider, text: str) -> list[str]:
    return [hit.id for hit in provider.recall(BANK, Ask(text=text))]


def documents(hindsight: Hindsight) -> list[str]:
    return [one for bank in hindsight.banks.values() for one in bank.documents]


def test_the_same_delivery_twice_is_one_operation(
    hindsight: Hindsight, provider: HindsightProvider
) -> None:
    """Issue 6: the outbox resends once, no duplicate."""
    hindsight.is_held = True
    provider.remember(BANK, [VPN])
    provider.remember(BANK, [VPN])
    (bank,) = hindsight.banks.values()
    assert len(bank.operations) == 1 and provider.status(BANK).waiting == 1
    hindsight.work_off()
    provider.remember(BANK, [VPN])
    assert documents(hindsight) == ["m-1"] and len(bank.operations) == 1


def test_what_was_forgotten_is_taken_in_again_when_told_again(
    hindsight: Hindsight, provider: HindsightProvider
) -> None:
    """Ours: an operation's id that was used starts nothing there; a reopened memory must come."""
    provider.remember(BANK, [VPN])
    provider.forget(BANK, ["m-1"])
    assert documents(hindsight) == []
    provider.remember(BANK, [VPN])
    assert ids(provider, "vpn") == ["m-1"]


def test_a_text_that_comes_back_replaces_the_one_between(
    hindsight: Hindsight, provider: HindsightProvider
) -> None:
    """Ours: the first operation's id is known, and what it took in was replaced since."""
    other = Item(id="m-1", text="Use tabs.", kind="statement", recorded_at=VPN.recorded_at)
    for one in (VPN, other, VPN):
        provider.remember(BANK, [one])
    assert ids(provider, "vpn") == ["m-1"] and ids(provider, "tabs") == []


def test_waiting_is_told_and_waited_for(hindsight: Hindsight, provider: HindsightProvider) -> None:
    """Issue 6, part 3: a status that waits."""
    hindsight.is_held = True
    provider.remember(BANK, [VPN])
    assert not provider.wait(BANK, seconds=0.0) and ids(provider, "vpn") == []
    hindsight.work_off()
    assert provider.wait(BANK, seconds=5.0) and ids(provider, "vpn") == ["m-1"]


def test_nothing_is_deleted_before_it_was_taken_in(
    hindsight: Hindsight, provider: HindsightProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours: or it would appear after it was forgotten."""
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.0)
    hindsight.is_held = True
    provider.remember(BANK, [VPN])
    with pytest.raises(Busy):
        provider.forget(BANK, ["m-1"])
    hindsight.work_off()
    provider.forget(BANK, ["m-1"])
    assert documents(hindsight) == [] and provider.status(BANK).waiting == 0


def test_a_memory_of_several_facts_is_found_and_forgotten_as_one(
    hindsight: Hindsight, provider: HindsightProvider
) -> None:
    """Facts of providers, section 2.1: one item can become several facts."""
    text = "The build uses uv. The build runs on Fridays."
    provider.remember(BANK, [Item(id="m-2", text=text, kind="statement", recorded_at="")])
    assert ids(provider, "build") == ["m-2"]
    provider.forget(BANK, ["m-2"])
    assert ids(provider, "build") == []


def test_what_another_installation_put_there_is_left_alone(
    hindsight: Hindsight, provider: HindsightProvider, paths: Paths
) -> None:
    """Issue 6, part 7: a shared server. Cleaning up must not take a colleague's memories out."""
    from openmem.base.installation import ensure_key

    provider.remember(BANK, [VPN])
    ensure_key(paths)  # from now on another installation
    other = provider_to(hindsight, "hindsight", paths)
    assert list(other.listing(BANK)) == [] and other.status(BANK).memories == 0
    assert ids(other, "vpn") == []
    assert list(provider.listing(BANK)) == ["m-1"]


def test_a_failed_operation_is_told(hindsight: Hindsight, provider: HindsightProvider) -> None:
    """Issue 6, part 5: ingest queue moving."""
    hindsight.fails = True
    provider.remember(BANK, [VPN])
    status = provider.status(BANK)
    assert status.is_ready and status.memories == 0 and "1 failed" in status.detail
    hindsight.fails = False
    provider.remember(BANK, [VPN])
    assert ids(provider, "vpn") == ["m-1"]


def test_a_wrong_key_is_one_clear_error(hindsight: Hindsight, paths: Paths) -> None:
    """Issue 6, bad input: a key that the provider refuses."""
    with pytest.raises(KeyRefused) as raised:
        provider_to(hindsight, "hindsight", paths, key="wrong").recall(BANK, Ask(text="vpn"))
    assert "wrong" not in str(raised.value) and "server.key_file" in raised.value.hint


def test_a_server_without_its_database_is_not_ready(
    hindsight: Hindsight, provider: HindsightProvider
) -> None:
    """Facts of providers, section 1: health is 503 then."""
    hindsight.instead = lambda asked: (503, {"status": "unhealthy"})
    assert not provider.status(BANK).is_ready
    with pytest.raises(ServerFailed):
        provider.recall(BANK, Ask(text="vpn"))


def test_what_it_cannot_do_it_says_by_name(provider: HindsightProvider) -> None:
    """Design, section 4: unsupported raises."""
    with pytest.raises(Unsupported, match="erase"):
        provider.erase(BANK)


def test_a_long_question_is_cut_and_an_empty_one_is_not_asked(
    hindsight: Hindsight, provider: HindsightProvider
) -> None:
    """Ours: the server refuses questions above 500 tokens."""
    provider.remember(BANK, [VPN])
    hindsight.asked.clear()
    assert ids(provider, " ?! ") == [] and not hindsight.asked
    provider.recall(BANK, Ask(text="vpn " * 5000))
    assert len(hindsight.asked[0].json["query"]) < 1500
