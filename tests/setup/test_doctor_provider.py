"""The doctor looks at the provider: containers, server, what waits, and the counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.config import load_config
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.memory.ledger import Ledger
from openmem.memory.migrate import migrate
from openmem.memory.model import Actor, Draft
from openmem.memory.providers.registry import provider_of
from openmem.plan.system import RealSystem
from openmem.setup.doctor.finding import Finding
from openmem.setup.doctor.provider import check_dimensions, check_provider
from tests.fakes.engine_socket import FakeEngine, fake_engine
from tests.fakes.memory_servers.hindsight import Hindsight
from tests.fakes.memory_servers.started import KEY, stand_of

BANK = "github.com/acme/site"


@pytest.fixture
def stand() -> Iterator[Hindsight]:
    with stand_of("hindsight") as served:
        assert isinstance(served, Hindsight)
        yield served


def settled(home: Path, config: str, **environ: str) -> Paths:
    paths = Paths({**os.environ, **environ})
    os.makedirs(paths.config_dir, exist_ok=True)
    (home / "key").write_text(KEY)
    Path(paths.config_file).write_text(config)
    return paths


def elsewhere(home: Path, url: str) -> Paths:
    key = home / "key"
    return settled(home, f'provider = "hindsight"\n[server]\nurl = "{url}"\nkey_file = "{key}"\n')


def remembered(paths: Paths, count: int, provider: str) -> None:
    os.makedirs(paths.state_dir, exist_ok=True)
    ledger = Ledger(paths, ensure_key(paths), provider=provider)
    person = Actor(kind="person", name="ada")
    ledger.add_all(
        [
            Draft(bank=BANK, text=f"Fact {n}.", kind="statement", actor=person, trust="accepted")
            for n in range(count)
        ]
    )
    ledger.close()


def looked(paths: Paths, *, has_network: bool = True) -> dict[str, Finding]:
    found = check_provider(RealSystem(paths.environ), paths, has_network=has_network)
    return {one.name: one for one in found}


def test_the_local_provider_without_memories_says_nothing(home: Path) -> None:
    """Ours: nothing to tell is not told."""
    assert looked(settled(home, "")) == {}
    assert not Path(Paths(os.environ).state_dir).exists()


def test_a_server_that_is_well(home: Path, stand: Hindsight) -> None:
    """Issue 6, part 5: reachable, version in range, counts."""
    paths = elsewhere(home, stand.url)
    remembered(paths, 3, "local")
    ledger = Ledger(paths, ensure_key(paths), provider="hindsight")
    migrate(ledger, provider_of("hindsight", paths), lambda line: None)
    ledger.close()
    found = looked(paths)
    assert {name: one.outcome for name, one in found.items()} == {
        "provider-version": "ok",
        "provider": "ok",
        "provider-counts": "ok",
    }
    assert "3 of 3" in found["provider-counts"].detail


def test_what_consolidation_ate_is_seen(home: Path, stand: Hindsight) -> None:
    """Users' report 37: memories gone, and every operation completed."""
    paths = elsewhere(home, stand.url)
    remembered(paths, 3, "local")
    ledger = Ledger(paths, ensure_key(paths), provider="hindsight")
    provider = provider_of("hindsight", paths)
    migrate(ledger, provider, lambda line: None)
    for bank in stand.banks.values():
        bank.documents.clear()
    found = looked(paths)["provider-counts"]
    assert found.outcome == "warning" and "holds 3, hindsight only 0" in found.detail
    assert "memory reindex" in found.advice
    assert migrate(ledger, provider, lambda line: None)[0].there == 3
    assert looked(paths)["provider-counts"].outcome == "ok"
    ledger.close()


def test_what_is_still_to_be_told_is_not_missing(home: Path, stand: Hindsight) -> None:
    """Issue 6, part 5: ingest queue moving."""
    paths = elsewhere(home, stand.url)
    remembered(paths, 2, "hindsight")
    found = looked(paths)
    assert (
        found["provider-outbox"].outcome == "info" and "2 things" in found["provider-outbox"].detail
    )
    assert found["provider-counts"].outcome == "ok"
    assert "2 on the way" in found["provider-counts"].detail


def test_a_wrong_key_and_a_closed_port(home: Path, stand: Hindsight) -> None:
    """Issue 6, part 5."""
    paths = elsewhere(home, stand.url)
    remembered(paths, 1, "local")
    (home / "key").write_text("wrong")
    assert "refuses the key" in looked(paths)["provider"].detail
    gone = elsewhere(home, "http://127.0.0.1:9")
    assert looked(gone)["provider"].outcome == "error"


def test_another_version_is_said(home: Path, stand: Hindsight) -> None:
    """Issue 6, part 5: version in range."""
    stand.instead = lambda asked: (
        (200, {"api_version": "2.0.0"}) if asked.path == "/version" else None
    )
    found = looked(elsewhere(home, stand.url))["provider-version"]
    assert found.outcome == "warning" and "2.0.0" in found.detail


def test_nobody_far_away_is_asked_without_network(home: Path) -> None:
    """Issue 6, part 5: --no-network."""
    found = looked(elsewhere(home, "https://memory.example"), has_network=False)
    assert [one.outcome for one in found.values()] == ["skipped"]


@pytest.mark.parametrize(
    ("service", "outcome", "words", "has_fix"),
    [
        (None, "error", "not running", True),
        ({"Status": "restarting", "RestartCount": 9}, "error", "ended 9 times", False),
        ({"Status": "running", "Health": "healthy"}, "warning", "files were changed", True),
    ],
)
def test_containers_that_are_not_well(
    home: Path,
    tmp_path: Path,
    service: dict[str, object] | None,
    outcome: str,
    words: str,
    has_fix: bool,
) -> None:
    """Issue 6, part 5: container restarting; --fix only what is proven safe."""
    with fake_engine(tmp_path / "engine") as fake:
        found = _stack(home, fake, service)
        assert (found.outcome, bool(found.fix)) == (outcome, has_fix) and words in found.detail


def _stack(home: Path, fake: FakeEngine, service: dict[str, object] | None) -> Finding:
    paths = settled(home, 'provider = "hindsight"\n', **fake.environ())
    folder = Path(paths.stack_dir, "hindsight")
    folder.mkdir(parents=True)
    (folder / "compose.yaml").write_text("services:\n  hindsight:\n    image: x:1\n")
    if service:
        fake.change(services={"openmem-hindsight": {"hindsight": service}})
    return looked(paths)["stack"]


def test_no_engine_is_named_with_the_way_out(home: Path, tmp_path: Path) -> None:
    """Issue 6, part 5."""
    with fake_engine(tmp_path / "engine", is_up=False) as fake:
        found = _stack(home, fake, None)
        assert found.outcome == "error" and "--provider local" in found.advice


def test_a_queue_that_stands_still_is_told_by_its_age(home: Path, stand: Hindsight) -> None:
    """Issue 6, part 5: ingest queue moving; upstream 2359, 4581: tasks that nobody claims."""
    paths = elsewhere(home, stand.url)
    remembered(paths, 2, "hindsight")
    stand.is_held = True
    ledger = Ledger(paths, ensure_key(paths), provider="hindsight")
    provider = provider_of("hindsight", paths)
    migrate(ledger, provider, lambda line: None, wait_seconds=0.0)
    ledger.close()
    found = looked(paths)["provider-queue"]
    assert found.outcome == "info" and "2 texts" in found.detail
    stand.held_since = "2026-01-01T00:00:00.000000+00:00"
    found = looked(paths)["provider-queue"]
    assert found.outcome == "warning" and "openmem logs" in found.advice
    stand.work_off()
    assert "provider-queue" not in looked(paths)


@pytest.mark.parametrize(
    ("provider", "line", "outcome"),
    [
        ("hindsight", "", "ok"),
        ("hindsight", "HINDSIGHT_API_EMBEDDINGS_OPENAI_DIMENSIONS=768", "error"),
        ("cognee", "EMBEDDING_DIMENSIONS=1536", "ok"),
        ("cognee", "EMBEDDING_DIMENSIONS=384", "error"),
    ],
)
def test_dimensions_are_those_that_the_stack_was_made_for(
    home: Path, tmp_path: Path, provider: str, line: str, outcome: str
) -> None:
    """Issue 6, part 5: dims of embeddings; upstream mem0 4195: wrong for good once stored."""
    with fake_engine(tmp_path / "engine") as fake:
        paths = settled(home, f'provider = "{provider}"\n', **fake.environ())
        folder = Path(paths.stack_dir, provider)
        folder.mkdir(parents=True)
        (folder / f"{provider}.env").write_text(f"A=1\n{line}\n")
        config = load_config(paths.config_file, paths.environ)
        (found,) = check_dimensions(RealSystem(paths.environ), paths, config, provider)
        assert found.outcome == outcome


def test_a_server_that_is_down_hides_nothing_that_waits_for_it(home: Path) -> None:
    """Seen as a user on 2026-11-30: with the server down, the doctor did not say what waits."""
    paths = elsewhere(home, "http://127.0.0.1:9")
    remembered(paths, 3, "hindsight")
    found = looked(paths)
    assert "3 things" in found["provider-outbox"].detail
    assert found["provider"].outcome == "error"
    assert "openmem up" not in found["provider"].advice, "it does not run here"
