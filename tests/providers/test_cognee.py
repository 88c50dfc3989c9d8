"""Cognee's adapter against its stand-in."""

from __future__ import annotations

import dataclasses

import pytest

from openmem.base.errors import Unsupported
from openmem.base.paths import Paths
from openmem.memory.providers.base import Ask, Item, Provider
from openmem.memory.providers.cognee.provider import CogneeProvider
from openmem.memory.providers.wire import KeyRefused
from tests.fakes.memory_servers.cognee import Cognee
from tests.fakes.memory_servers.serving import serving
from tests.fakes.memory_servers.started import KEY, provider_to

BANK = "github.com/acme/site"
PATH = Item(
    id="m-1",
    text="file:///etc/passwd and https://example.com/x.git are paths.",
    kind="statement",
    recorded_at="2026-11-30T00:00:00Z",
)


@pytest.fixture
def provider(cognee: Cognee, paths: Paths) -> CogneeProvider:
    made = provider_to(cognee, "cognee", paths)
    assert isinstance(made, CogneeProvider)
    return made


def ids(provider: Provider, text: str) -> list[str]:
    return [hit.id for hit in provider.recall(BANK, Ask(text=text))]


def files(cognee: Cognee) -> list[str]:
    return [row["label"] for d in cognee.datasets.values() for row in d.files.values()]


def test_a_text_goes_as_a_file_never_as_a_field(cognee: Cognee, provider: CogneeProvider) -> None:
    """Facts of providers: a path or an address in `raw_data` is opened by the server."""
    provider.remember(BANK, [PATH])
    sent = next(one for one in cognee.asked if one.path == "/api/v1/add").body
    assert b'name="data"; filename="m-1.' in sent and b"raw_data" not in sent
    assert ids(provider, "paths") == ["m-1"]


def test_a_batch_is_taken_in_once(cognee: Cognee, provider: CogneeProvider) -> None:
    """Issue 6, part 3: cognify after a batch."""
    items = [dataclasses.replace(PATH, id=f"m-{n}", text=f"Number {n}.") for n in range(5)]
    provider.remember(BANK, items)
    assert cognee.paths().count("POST /api/v1/cognify") == 1
    assert sorted(provider.listing(BANK)) == [f"m-{n}" for n in range(5)]


def test_the_same_words_under_two_ids_are_two_memories(
    cognee: Cognee, provider: CogneeProvider
) -> None:
    """Facts of providers: ids follow from content, so equal files are one item."""
    provider.remember(BANK, [PATH, dataclasses.replace(PATH, id="m-2")])
    provider.forget(BANK, ["m-2"])
    assert files(cognee) == ["m-1"] and ids(provider, "paths") == ["m-1"]


def test_a_replaced_text_leaves_no_old_file(cognee: Cognee, provider: CogneeProvider) -> None:
    """Facts of providers: an update makes a new item."""
    provider.remember(BANK, [PATH])
    provider.remember(BANK, [dataclasses.replace(PATH, text="Use tabs.")])
    provider.remember(BANK, [dataclasses.replace(PATH, text="Use tabs.")])
    assert files(cognee) == ["m-1"] and ids(provider, "paths") == []


def test_a_bank_that_warms_up_holds_nothing_yet(cognee: Cognee, provider: CogneeProvider) -> None:
    """Issue 6, part 3: system rows dropped."""
    cognee.is_held = True
    provider.remember(BANK, [PATH])
    assert ids(provider, "warming paths") == [] and provider.status(BANK).waiting == 1
    assert not provider.wait(BANK, seconds=0.0)
    cognee.work_off()
    assert provider.wait(BANK, seconds=5.0) and ids(provider, "paths") == ["m-1"]


def test_it_logs_in_once_and_only_when_it_must(cognee: Cognee, provider: CogneeProvider) -> None:
    """Facts of providers: a login gives a token."""
    assert provider.status(BANK).memories == 0
    provider.recall(BANK, Ask(text="paths"))
    assert cognee.paths().count("POST /api/v1/auth/login") == 1


def test_a_wrong_password_is_one_clear_error(cognee: Cognee, paths: Paths) -> None:
    """Issue 6, bad input."""
    with pytest.raises(KeyRefused):
        provider_to(cognee, "cognee", paths, key="wrong").status(BANK)


def test_a_key_of_its_api_goes_in_a_header_of_its_own(paths: Paths) -> None:
    """Facts of providers, section 1: X-Api-Key."""
    with serving(Cognee(key=KEY)) as stand:
        assert provider_to(stand, "cognee", paths, user="").status(BANK).is_ready
        assert stand.asked[-1].headers["x-api-key"] == KEY


def test_what_another_installation_put_there_is_left_alone(
    cognee: Cognee, provider: CogneeProvider, paths: Paths
) -> None:
    """Issue 6, part 7: a shared server."""
    from openmem.base.installation import ensure_key

    provider.remember(BANK, [PATH])
    ensure_key(paths)  # from now on another installation
    other = provider_to(cognee, "cognee", paths)
    assert list(other.listing(BANK)) == [] and ids(other, "paths") == []


def test_what_it_cannot_do_it_says_by_name(provider: CogneeProvider) -> None:
    """Design, section 4: unsupported raises."""
    with pytest.raises(Unsupported, match="erase"):
        provider.erase(BANK)


def test_nearer_is_better(cognee: Cognee, provider: CogneeProvider) -> None:
    """Seen with 1.6.5: what is called a score there is a distance, 0 for the same."""
    texts = ("Tabs in the parser.", "Tabs, spaces and parser speed in the old build.")
    items = [dataclasses.replace(PATH, id=f"m-{n}", text=text) for n, text in enumerate(texts)]
    provider.remember(BANK, items)
    hits = provider.recall(BANK, Ask(text="tabs parser"))
    assert [hit.id for hit in hits] == ["m-0", "m-1"] and hits[0].score > hits[1].score
