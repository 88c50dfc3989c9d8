"""Memory through the real Hindsight server: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.memory.facade import Memories
from openmem.memory.ledger import Tombstoned
from openmem.memory.model import Actor, Draft
from openmem.memory.providers.base import Ask, Item
from openmem.memory.providers.hindsight.provider import HindsightProvider
from openmem.memory.providers.plain_http import PlainTransport
from openmem.memory.providers.server import origin_of
from openmem.memory.providers.wire import Address, KeyRefused
from openmem.memory.scope import Scope, scope_of
from openmem.setup.provider_smoke import try_provider
from tests.fakes.real_hindsight import KEY, RealHindsight, needs_hindsight, real_hindsight

pytestmark = [
    pytest.mark.real_provider,
    pytest.mark.heavy,
    pytest.mark.timeout(600),
    needs_hindsight,
]
POLICY = "version = 1\n[defaults.other]\nstore = true\nrecall = true\nretain = true\n"
PERSON = Actor(kind="person", name="ada")


@pytest.fixture(scope="module")
def server() -> Iterator[RealHindsight]:
    with real_hindsight() as running:
        yield running


@dataclass
class Scene:
    server: RealHindsight
    memories: Memories
    provider: HindsightProvider
    scope: Scope

    @property
    def bank(self) -> str:
        return self.scope.bank

    def found(self, text: str) -> list[str]:
        return [one.memory.text for one in self.memories.search(self.scope, text)]

    def settled(self) -> None:
        assert self.provider.wait(self.bank, seconds=120), self.server.log()[-2000:]


@pytest.fixture
def scene(server: RealHindsight, home: Path) -> Iterator[Scene]:
    paths = Paths(os.environ)
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(POLICY)
    folder = home / "project"
    folder.mkdir()
    key = ensure_key(paths)
    address = Address(provider="hindsight", url=server.url, key=KEY, seconds=30)
    provider = HindsightProvider(address, PlainTransport(), lambda: origin_of(paths))
    memories = Memories(paths, key, provider)
    yield Scene(server, memories, provider, scope_of(str(folder), paths, PERSON))
    provider.drop_bank(scope_of(str(folder), paths, PERSON).bank)
    memories.close()


def test_a_sentence_is_remembered_found_and_forgotten(scene: Scene) -> None:
    """Issue 6: the wizard's smoke test."""
    assert try_provider(scene.provider, lambda line: None) < 120


def test_a_wrong_key_is_refused(scene: Scene) -> None:
    """Issue 6, bad input: as recorded, and so it is."""
    address = Address(provider="hindsight", url=scene.server.url, key="wrong", seconds=30)
    wrong = HindsightProvider(address, PlainTransport(), lambda: "x")
    with pytest.raises(KeyRefused):
        wrong.status(scene.bank)


def test_a_bank_that_is_not_there_holds_nothing(scene: Scene) -> None:
    """Provider contract."""
    assert scene.provider.recall("nowhere", Ask(text="anything")) == []
    scene.provider.forget("nowhere", ["m-1"])
    assert scene.provider.status("nowhere").memories == 0
    assert list(scene.provider.listing("nowhere")) == []


@pytest.mark.parametrize("text", ['"', "100%", "\x00", "(((", "日本語の設定", "vpn " * 4000])
def test_no_question_is_an_error(scene: Scene, text: str) -> None:
    """Users' report 23."""
    scene.memories.add(scene.scope, "Deploys need the VPN.")
    scene.settled()
    scene.provider.recall(scene.bank, Ask(text=text, limit=20))


def test_two_hundred_memories_restart_and_forget(scene: Scene) -> None:
    """Issue 6: 200 memories, restart without loss, a tombstone that holds after re-ingest."""
    drafts = [
        Draft(
            bank=scene.bank,
            text=f"Service number{n} listens on port {9000 + n} behind gateway{n}.",
            kind="statement",
            actor=PERSON,
            trust="accepted",
        )
        for n in range(200)
    ]
    ids = scene.memories.ledger.add_all(drafts)
    outcome = scene.memories.deliver()
    assert outcome.waiting == 0 and outcome.problem is None
    scene.settled()
    assert scene.provider.status(scene.bank).memories == 200
    assert sorted(scene.provider.listing(scene.bank)) == sorted(map(str, ids))
    for n in (0, 57, 199):
        assert drafts[n].text in scene.found(f"which port does number{n} have, gateway{n}?")

    scene.server.end(signal.SIGTERM)
    scene.server.start()
    assert scene.provider.status(scene.bank).memories == 200
    assert drafts[57].text in scene.found("number57 gateway57")

    gone = str(ids[57])
    assert scene.memories.forget(scene.scope, gone).pending == ()
    assert drafts[57].text not in scene.found("number57 gateway57")
    assert gone not in list(scene.provider.listing(scene.bank))
    with pytest.raises(Tombstoned):
        scene.memories.add(scene.scope, drafts[57].text.upper())
    # A server that has it again by itself: the ledger does not show it, and cleaning up removes it.
    back = Item(id=gone, text=drafts[57].text, kind="statement", recorded_at="2026-01-01T00:00:00Z")
    scene.provider.remember(scene.bank, [back])
    scene.settled()
    assert gone in list(scene.provider.listing(scene.bank))
    assert drafts[57].text not in scene.found("number57 gateway57")
    scene.memories.reindex(scene.bank)
    scene.settled()
    assert gone not in list(scene.provider.listing(scene.bank))


def test_killed_during_retain_nothing_is_lost_and_nothing_twice(scene: Scene) -> None:
    """Issue 6: provider killed during retain; the outbox resends once, no duplicate."""
    first = scene.memories.add(scene.scope, "The kettle in hall seven is broken.").memory
    scene.server.end(signal.SIGKILL)  # accepted, and perhaps not taken in
    second = scene.memories.add(scene.scope, "The bell in tower nine is silent.").memory
    assert len(scene.memories.ledger.outbox("hindsight")) == 1, "what it could not hear waits"
    scene.server.start()
    assert scene.memories.deliver().waiting == 0
    scene.settled()
    # Heard twice, as after an answer that was lost.
    scene.memories.ledger.enqueue("hindsight", "remember", second.id, scene.bank)
    assert scene.memories.deliver().problem is None
    scene.settled()
    assert sorted(scene.provider.listing(scene.bank)) == sorted([first.id, second.id])
    assert first.text in scene.found("kettle hall seven")
    assert second.text in scene.found("bell tower nine")
