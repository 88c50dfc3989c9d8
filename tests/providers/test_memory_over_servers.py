"""The ledger decides over every server: what is shown, what is gone, what is told again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.memory.facade import Memories
from openmem.memory.ledger import Tombstoned
from openmem.memory.model import Actor
from openmem.memory.providers.base import Ask, Item
from openmem.memory.scope import Scope, scope_of
from tests.fakes.memory_servers.serving import Stand
from tests.fakes.memory_servers.started import STANDS, provider_to, stand_of

POLICY = "version = 1\n" + "".join(
    f"[defaults.{kind}]\nstore = true\nrecall = true\nretain = true\n" for kind in ("git", "other")
)
DOWN = (503, {"detail": "down"})


@dataclass
class Scene:
    stand: Stand
    memories: Memories
    person: Scope
    agent: Scope

    def found(self, text: str, **more: str) -> list[str]:
        hits = self.memories.search(self.agent, text, **more)  # type: ignore[arg-type]
        return [one.memory.text for one in hits]


@pytest.fixture(params=sorted(STANDS))
def scene(request: pytest.FixtureRequest, home: Path) -> Iterator[Scene]:
    paths = Paths(os.environ)
    os.makedirs(paths.config_dir)
    Path(paths.policy_file).write_text(POLICY)
    folder = home / "site"
    folder.mkdir()
    key = ensure_key(paths)
    with stand_of(request.param) as stand:
        memories = Memories(paths, key, provider_to(stand, request.param, paths))
        yield Scene(
            stand=stand,
            memories=memories,
            person=scope_of(str(folder), paths, Actor(kind="person", name="ada")),
            agent=scope_of(str(folder), paths, Actor(kind="agent", name="codex")),
        )
        memories.close()


def test_what_was_forgotten_stays_gone_also_when_the_server_still_has_it(scene: Scene) -> None:
    """Issue 6, part 3: tombstones filter every provider's recall; re-ingest is refused."""
    memory = scene.memories.add(scene.person, "The bastion drops idle links.").memory
    assert scene.found("bastion links") == [memory.text]
    done = scene.memories.forget(scene.person, memory.id)
    assert done.pending == () and scene.found("bastion links") == []
    with pytest.raises(Tombstoned):
        scene.memories.add(scene.person, "the bastion drops idle links")
    # A server that brings it back by itself, as by a restored backup.
    back = Item(id=memory.id, text=memory.text, kind="statement", recorded_at=memory.recorded_at)
    scene.memories.provider.remember(memory.bank, [back])
    hits = scene.memories.provider.recall(memory.bank, Ask(text="bastion"))
    assert [hit.id for hit in hits] == [memory.id]
    assert scene.found("bastion links") == []


def test_trust_and_time_are_the_ledgers(scene: Scene) -> None:
    """Issue 6, part 3: trust, as-of and scope filter every provider's recall."""
    memory = scene.memories.add(
        scene.agent, "Deploys run from the bastion.", valid_from="2026-01-01"
    ).memory
    corrected = scene.memories.correct(scene.person, memory.id, "Deploys run from CI.").memory
    assert scene.found("deploys") == [corrected.text]
    assert scene.found("deploys", as_of="2026-02-01") == [memory.text]
    scene.memories.judge(scene.person, corrected.id, "rejected")
    assert scene.found("deploys") == []
    scene.memories.judge(scene.person, corrected.id, "accepted")
    assert scene.found("deploys") == [corrected.text]


def test_a_server_that_was_down_misses_nothing_and_hears_nothing_twice(scene: Scene) -> None:
    """Issue 6: the outbox resends once, no duplicate."""
    scene.stand.instead = lambda asked: DOWN
    first = scene.memories.add(scene.person, "Deploys need the VPN.").memory
    assert scene.memories.ledger.outbox(scene.memories.provider.name)
    scene.stand.instead = None
    outcome = scene.memories.deliver()
    assert outcome.waiting == 0 and outcome.problem is None
    assert scene.found("vpn deploys") == [first.text]
    assert scene.memories.provider.status(first.bank).memories == 1


def test_an_answer_that_was_lost_makes_no_duplicate(scene: Scene) -> None:
    """Issue 6: provider killed during retain. It was heard, and nobody knows."""
    real, lost = type(scene.stand).answer, []

    def losing(asked: object) -> None:
        answer = real(scene.stand, asked)  # type: ignore[arg-type]
        if asked.method == "POST" and not lost:  # type: ignore[attr-defined]
            lost.append(answer)
            raise ConnectionAbortedError

    scene.stand.instead = losing  # type: ignore[assignment]
    memory = scene.memories.add(scene.person, "Deploys need the VPN.").memory
    assert lost
    scene.stand.instead = None
    assert scene.memories.deliver().waiting == 0
    assert scene.found("vpn") == [memory.text]
    hits = scene.memories.provider.recall(memory.bank, Ask(text="vpn"))
    assert [hit.id for hit in hits] == [memory.id]
    rows = getattr(scene.stand, "rows", None)  # of mem0, which does not see what is the same
    assert rows is None or len(rows) == 1


def test_a_secret_goes_to_no_server(scene: Scene) -> None:
    """Design, section 6, item 9: redacted before it is sent to a provider."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    scene.memories.add(scene.person, f"The token is {secret} for deploys.")
    assert not any(secret.encode() in asked.body for asked in scene.stand.asked)
