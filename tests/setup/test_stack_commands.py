"""`up`, `down`, `restart`, `logs`, `switch`: the stack by hand, as a person types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.memory.ledger import Ledger
from openmem.memory.model import Actor, Draft
from openmem.stack.volumes import volume_names
from tests.fakes.engine_socket import FakeEngine, fake_engine
from tests.fakes.memory_servers.cognee import Cognee
from tests.fakes.memory_servers.hindsight import Hindsight
from tests.fakes.memory_servers.mem0 import Mem0
from tests.fakes.memory_servers.started import KEY, STANDS, stand_of
from tests.setup.conftest import Done, Machine

ROUTE = ("--model-url", "http://models.example/v1", "--model", "m")
BANK = "github.com/acme/site"


@pytest.fixture
def engine(machine: Machine, tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "engine") as fake:
        yield fake


def run(machine: Machine, engine: FakeEngine, *words: str) -> Done:
    environ = {"PATH": f"{engine.bin}:/usr/bin:/bin", "DOCKER_HOST": f"unix://{engine.socket}"}
    return machine(*words, **environ)


def remembered(machine: Machine, count: int) -> list[str]:
    """Put memories into the ledger; returns their texts. One more is rejected."""
    paths = Paths(machine.environ())
    Path(paths.state_dir).mkdir(parents=True, exist_ok=True)
    ledger = Ledger(paths, ensure_key(paths), provider="local")
    texts = [f"Service number{n} listens on port {9000 + n}." for n in range(count)]
    person = Actor(kind="person", name="ada")
    drafts = [
        Draft(bank=BANK, text=text, kind="statement", actor=person, trust="accepted")
        for text in texts
    ]
    ids = ledger.add_all([*drafts, *_rejected(person)])
    ledger.set_trust(str(ids[-1]), "rejected", person)
    ledger.close()
    return texts


def _rejected(person: Actor) -> list[Draft]:
    text = "This was rejected."
    return [Draft(bank=BANK, text=text, kind="statement", actor=person, trust="pending")]


def texts_in(stand: object) -> list[str]:
    if isinstance(stand, Hindsight):
        return [d["text"] for bank in stand.banks.values() for d in bank.documents.values()]
    if isinstance(stand, Mem0):
        return [row["memory"] for row in stand.rows.values()]
    assert isinstance(stand, Cognee)
    rows = [row for dataset in stand.datasets.values() for row in dataset.files.values()]
    return [row["text"].split("\n")[0] for row in rows]


def test_the_stack_is_started_shown_and_ended(machine: Machine, engine: FakeEngine) -> None:
    """Issue 6: up, down, restart, logs."""
    words = ("setup", "--provider", "hindsight", *ROUTE, "--no-proxy", "--no-smoke-test", "--yes")
    run(machine, engine, *words)
    dry = run(machine, engine, "down", "--dry-run")
    assert dry.status == 0 and "would be" in dry.out
    assert run(machine, engine, "down").status == 0
    assert engine.state["services"] == {}
    up = run(machine, engine, "up", "--json")
    assert up.status == 0, up.err
    assert [c["health"] for c in up.data["containers"]] == ["healthy"]
    said = run(machine, engine, "logs")
    assert said.out == "hindsight says hello\n"
    assert run(machine, engine, "logs", "nothing").status == 1
    assert run(machine, engine, "restart").status == 0
    assert engine.commands() == ["up", "down", "up", "restart"]


def test_where_there_is_no_stack_it_is_said(machine: Machine, engine: FakeEngine) -> None:
    """Ours: each with the way out."""
    for words in (["up"], ["down"], ["restart"], ["logs"]):
        done = run(machine, engine, *words)
        assert done.status == 1 and "nothing to start or stop" in done.err
    assert engine.state["asked"] == []


@pytest.mark.parametrize("provider", sorted(STANDS))
def test_switching_brings_everything_along_and_counts_it(
    machine: Machine, engine: FakeEngine, provider: str
) -> None:
    """Issue 6, part 4: `--migrate` replays the ledger, counted on both sides."""
    texts = remembered(machine, 120)
    key = machine.home / "server.key"
    key.write_text(KEY + "\n")
    with stand_of(provider) as stand:
        words = ["switch", provider, "--provider-url", stand.url, "--provider-key-file", str(key)]
        if provider == "cognee":
            words += ["--provider-user", "openmem@example.com"]
        before = machine.snapshot()
        dry = run(machine, engine, *words, "--migrate", "--dry-run", "--json")
        assert dry.status == 0 and machine.snapshot() == before and not stand.asked
        done = run(machine, engine, *words, "--migrate", "--yes", "--json")
        assert done.status == 0, done.err
        (moved,) = done.data["migrated"]
        assert (moved["bank"], moved["wanted"], moved["there"]) == (BANK, 120, 120)
        assert sorted(texts_in(stand)) == sorted(texts), "the rejected one stays behind"
        again = run(machine, engine, *words, "--migrate", "--yes", "--json")
        assert again.status == 0 and sorted(texts_in(stand)) == sorted(texts)
    shown = run(machine, engine, "config", "get", "provider")
    assert shown.out.strip().endswith(provider)


def test_a_migration_that_breaks_off_goes_on(machine: Machine, engine: FakeEngine) -> None:
    """Issue 6, part 4: resumable."""
    texts = remembered(machine, 120)
    key = machine.home / "server.key"
    key.write_text(KEY + "\n")
    with stand_of("hindsight") as stand:
        assert isinstance(stand, Hindsight)
        count = 0

        def breaking(asked: object) -> tuple[int, object] | None:
            nonlocal count
            is_retain = asked.method == "POST" and asked.path.endswith("/memories")  # type: ignore[attr-defined]
            count += is_retain
            return (503, {"detail": "gone"}) if is_retain and count > 3 else None

        stand.instead = breaking  # type: ignore[assignment]
        words = ["switch", "hindsight", "--provider-url", stand.url]
        words += ["--provider-key-file", str(key), "--migrate", "--yes"]
        broken = run(machine, engine, *words)
        assert broken.status == 1 and 0 < len(texts_in(stand)) < 120
        stand.instead, already = None, len(texts_in(stand))
        done = run(machine, engine, *words, "--json")
        assert done.status == 0, done.err
        assert done.data["migrated"][0]["told"] == 120 - already
        assert sorted(texts_in(stand)) == sorted(texts)


def test_nothing_is_migrated_to_a_server_that_does_not_work(
    machine: Machine, engine: FakeEngine
) -> None:
    """Issue 6, part 4: the old data stay."""
    remembered(machine, 3)
    key = machine.home / "server.key"
    key.write_text("wrong\n")
    with stand_of("hindsight") as stand:
        words = ["switch", "hindsight", "--provider-url", stand.url]
        words += ["--provider-key-file", str(key), "--migrate", "--yes"]
        done = run(machine, engine, *words)
        assert isinstance(stand, Hindsight) and stand.banks == {}
    assert done.status == 1 and "refuses the key" in done.err and "openmem undo" in done.err
    assert run(machine, engine, "undo", "--yes").status == 0
    assert run(machine, engine, "config", "get", "provider").out.strip().endswith("local")


def test_leaving_a_stack_ends_it_and_keeps_its_data(machine: Machine, engine: FakeEngine) -> None:
    """Issue 6, part 4: the old data stay until told otherwise."""
    engine.change(volumes=["openmem-hindsight-data"])
    words = ("setup", "--provider", "hindsight", *ROUTE, "--no-proxy", "--no-smoke-test", "--yes")
    run(machine, engine, *words)
    remembered(machine, 5)
    done = run(machine, engine, "switch", "local", "--migrate", "--yes", "--json")
    assert done.status == 0, done.err
    assert done.data["migrated"][0]["there"] == 5
    assert engine.commands() == ["up", "down"]
    assert engine.state["volumes"] == ["openmem-hindsight-data"]
    assert json.loads(done.out)["data"]["from"] == "hindsight"


@pytest.mark.parametrize("provider", sorted(STANDS))
def test_uninstall_leaves_what_it_names_and_volumes_go_by_name_only(
    machine: Machine, engine: FakeEngine, provider: str
) -> None:
    """Issue 6: snapshot identical but for what it names; volumes are asked for by name."""
    before = machine.snapshot()
    mine = [f"openmem-{provider}-x", *volume_names(provider)]
    engine.change(volumes=mine)
    words = ("setup", "--provider", provider, *ROUTE, "--no-proxy", "--no-smoke-test", "--yes")
    assert run(machine, engine, *words, "--model-key-file", "").status in (0, 1)
    # Without purge the stack's keys stay, for its volumes stay.
    plain = run(machine, engine, "uninstall", "--yes")
    assert plain.status == 0, plain.err
    assert engine.commands() == ["up", "down"] and engine.state["volumes"] == mine
    state = machine.home / ".local/share/openmem/stack" / provider
    assert (state / f"{provider}.env").exists()
    wrong = run(machine, engine, "uninstall", "--purge", "--volume", "not-ours", "--yes")
    assert wrong.status == 2 and engine.state["volumes"] == mine
    named = volume_names(provider)[0]
    done = run(machine, engine, "uninstall", "--purge", "--volume", named, "--yes", "--json")
    assert done.status == 0, done.err
    assert done.data["volumes"] == {"removed": [named], "left": list(volume_names(provider)[1:])}
    assert engine.state["volumes"] == [one for one in mine if one != named]
    assert machine.snapshot() == before


def test_what_a_server_could_not_be_told_is_said_and_told_later(
    machine: Machine, engine: FakeEngine
) -> None:
    """Seen as a user on 2026-11-30: with the server down, `memory add` said only "Remembered"."""
    key = machine.home / "server.key"
    key.write_text(KEY + "\n")
    with stand_of("hindsight") as stand:
        assert isinstance(stand, Hindsight)
        words = ["setup", "--provider", "hindsight", "--provider-url", stand.url, "--no-proxy"]
        words += ["--provider-key-file", str(key), "--store-other", "--yes", "--no-smoke-test"]
        assert run(machine, engine, *words).status == 0
        stand.instead = lambda asked: (503, {"detail": "down"})
        first = run(machine, engine, "memory", "add", "Deploys need the VPN.", "--json")
        assert first.status == 0 and first.data["is_told"] is False
        said = run(machine, engine, "memory", "add", "Indent with tabs.")
        assert "hindsight is told with the next memory" in said.err
        stand.instead = None
        last = run(machine, engine, "memory", "add", "Releases are cut on Tuesdays.", "--json")
        assert last.data["is_told"] is True and len(texts_in(stand)) == 3
        # The same provider once more is the same server, not a stack of our own.
        again = run(machine, engine, "switch", "hindsight", "--migrate", "--yes", "--json")
        assert again.status == 0 and again.data["migrated"][0]["there"] == 3
    assert engine.state["asked"] == []
