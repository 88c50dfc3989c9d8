"""Memory through mem0's real library, behind the small REST server of the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.memory.facade import Memories
from openmem.memory.ledger import Tombstoned
from openmem.memory.model import Actor
from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.mem0.provider import Mem0Provider
from openmem.memory.providers.plain_http import PlainTransport
from openmem.memory.providers.server import origin_of
from openmem.memory.providers.wire import Address, KeyRefused
from openmem.memory.scope import scope_of
from openmem.setup.provider_smoke import try_provider
from tests.fakes.real_mem0 import KEY, needs_mem0, real_mem0

pytestmark = [
    pytest.mark.real_provider,
    pytest.mark.heavy,
    pytest.mark.timeout(300),
    needs_mem0,
]
POLICY = "version = 1\n[defaults.other]\nstore = true\nrecall = true\nretain = true\n"
PERSON = Actor(kind="person", name="ada")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with real_mem0() as address:
        yield address


def provider_at(
    url: str, *, key: str = KEY, infer: bool = False, who: str = "here"
) -> Mem0Provider:
    address = Address(provider="mem0", url=url, key=key, seconds=60)
    return Mem0Provider(address, PlainTransport(), lambda: who, infer=infer)


def test_a_sentence_is_remembered_found_and_forgotten(url: str) -> None:
    """Issue 6: the wizard's smoke test."""
    assert try_provider(provider_at(url), lambda line: None) < 60


def test_a_wrong_key_is_refused(url: str) -> None:
    """Issue 6, bad input."""
    with pytest.raises(KeyRefused):
        provider_at(url, key="wrong").status("bank")


def test_two_installations_leave_each_other_alone(url: str) -> None:
    """Docs: everything is marked with this installation."""
    here, there = provider_at(url), provider_at(url, who="there")
    one = Item(id="m-1", text="Deploys need luck.", kind="statement", recorded_at="2026-11-30")
    here.remember("shared", [one])
    assert there.recall("shared", Ask(text="deploys luck")) == []
    assert (here.status("shared").memories, there.status("shared").memories) == (1, 0)
    here.drop_bank("shared")


def test_what_its_model_draws_out_stands_under_our_id(url: str) -> None:
    """Issue 6, part 3: `infer` a setting; a model that sees no fact loses no memory."""
    provider = provider_at(url, infer=True)
    text = "The kettle in hall seven is broken."
    item = Item(id="m-1", text=text, kind="statement", recorded_at="2026-11-30T00:00:00Z")
    provider.remember("drawn", [item])
    assert [hit.id for hit in provider.recall("drawn", Ask(text="kettle hall seven"))] == ["m-1"]
    provider.forget("drawn", ["m-1"])
    assert provider.status("drawn").memories == 0
    provider.drop_bank("drawn")


def test_the_ledger_decides_and_a_tombstone_holds(url: str, home: Path) -> None:
    """Issue 6, part 3: no delete by document there, forgetting works all the same."""
    paths = Paths(os.environ)
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(POLICY)
    (home / "project").mkdir()
    provider = provider_at(url, who=origin_of(paths))
    memories = Memories(paths, ensure_key(paths), provider)
    scope = scope_of(str(home / "project"), paths, PERSON)
    texts = [f"Service number{n} listens on port {9000 + n}." for n in range(40)]
    ids = [memories.add(scope, text).memory.id for text in texts]
    assert provider.status(scope.bank).memories == 40
    found = [one.memory.text for one in memories.search(scope, "which port has number17?")]
    assert texts[17] in found
    assert memories.forget(scope, ids[17]).pending == ()
    assert provider.status(scope.bank).memories == 39
    assert texts[17] not in [one.memory.text for one in memories.search(scope, "port number17")]
    with pytest.raises(Tombstoned):
        memories.add(scope, texts[17])
    provider.drop_bank(scope.bank)
    memories.close()


def test_other_dimensions_are_taken_both_at_once(url: str) -> None:
    """Upstream mem0 4195: the embedder's number alone makes every add fail."""
    provider = provider_at(url)
    provider.set_dimensions(384)
    assert try_provider(provider, lambda line: None) < 60
