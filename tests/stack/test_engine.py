"""Engine, compose and what stands in the way, over a played docker."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from openmem.base.errors import Failed, Missing
from openmem.base.paths import Paths
from openmem.plan.action import plan_of
from openmem.plan.apply import apply
from openmem.plan.system import RealSystem
from openmem.stack import __main__ as program
from openmem.stack.compose import Stack, find_program
from openmem.stack.engine import EngineDown, connect
from openmem.stack.plan import SERVICES, Wanted, folder_of, plan_stack
from openmem.stack.preflight import faults, filesystem_of, is_free, next_free, stop_at
from openmem.stack.route import Route
from openmem.stack.running import State, start, state_of, wait_until_well
from tests.fakes.engine_socket import FakeEngine, fake_engine
from tests.fakes.memory_servers.started import stand_of

ROUTE = Route(url="http://models.example/v1", name="m", key="model-key-0123456789")
PLENTY = 10**12


@pytest.fixture
def engine(home: Path, tmp_path: Path) -> Iterator[FakeEngine]:
    with fake_engine(tmp_path / "engine") as fake:
        yield fake


def paths_of(fake: FakeEngine, **more: str) -> Paths:
    return Paths(fake.environ(**more))


def made(fake: FakeEngine, provider: str = "hindsight") -> Paths:
    """Write a stack's files; returns where."""
    paths = paths_of(fake)
    system = RealSystem(paths.environ)
    wanted = Wanted(provider=provider, port=18_888, route=ROUTE, key_reference="env:K")
    apply(plan_of(plan_stack(system, paths, wanted)), system, paths, label="test")
    return paths


def codes(paths: Paths, *, route: Route = ROUTE, free: int = PLENTY) -> dict[str, bool]:
    found = faults(paths, "hindsight", route, free_bytes=free)
    return {fault.code: fault.blocks for fault in found}


@pytest.mark.parametrize("provider", SERVICES)
def test_a_stack_is_fetched_started_watched_and_pinned(engine: FakeEngine, provider: str) -> None:
    """Issue 6: images pulled and health reached with progress; digests at the first `up`."""
    paths = made(engine, provider)
    told: list[str] = []
    start(paths, provider, told.append)
    assert engine.commands() == ["up"] and any("of 10 MB" in line for line in told)
    lock = yaml.safe_load(Path(folder_of(paths, provider), "images.lock.yaml").read_text())
    pinned = {name: one["image"] for name, one in lock["services"].items()}
    assert set(pinned) == set(SERVICES[provider]) - {"mem0"}, "what is built here has no digest"
    assert all("@sha256:" in image for image in pinned.values())
    told.clear()
    start(paths, provider, told.append)
    assert not any("fetching" in line for line in told)
    files = [a for a in engine.state["asked"][-1] if a.endswith(".yaml")]
    assert files[-1].endswith("images.lock.yaml")


def test_a_changed_file_is_seen_to_need_a_new_start(engine: FakeEngine) -> None:
    """Ours: a running container says nothing of the settings it was started with."""
    paths = made(engine)
    stack = Stack(paths, "hindsight", f"unix://{engine.socket}")
    assert not stack.is_up()
    stack.up()
    assert stack.is_up()
    with open(f"{folder_of(paths, 'hindsight')}/hindsight.env", "a") as file:
        file.write("MORE=1\n")
    assert not stack.is_up()
    stack.up()
    engine.change(services={})
    assert not stack.is_up(), "somebody took it down"


def test_what_a_plan_runs(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan contract: a probe changes nothing and tells whether it is done."""
    made(engine)
    for name, value in engine.environ().items():
        monkeypatch.setenv(name, value)
    assert program.main(["probe", "hindsight"]) == 1
    assert program.main(["up", "hindsight"]) == 0 and program.main(["probe", "hindsight"]) == 0
    assert program.main(["down", "hindsight"]) == 0 and program.main(["probe", "hindsight"]) == 1
    assert engine.commands() == ["up", "down"]
    assert program.main(["down", "mem0"]) == 0, "what was never there is down"


def test_composes_own_complaint_is_told(engine: FakeEngine) -> None:
    """Users' report 46."""
    paths = made(engine)
    engine.change(up_error="Error response from daemon: port is already allocated")
    with pytest.raises(Failed, match="already allocated"):
        Stack(paths, "hindsight").up()


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"Status": "restarting", "RestartCount": 5}, "ended 5 times"),
        ({"Status": "exited", "ExitCode": 137}, r"ended \(137\)"),
        ({"Status": "stopped", "ExitCode": 1, "Health": "starting"}, r"ended \(1\)"),  # Podman
        ({"Status": "running", "Health": "unhealthy"}, "not well"),
    ],
)
def test_a_container_that_will_not_get_well_is_named(
    engine: FakeEngine, container: dict[str, object], words: str
) -> None:
    """Issue 6, part 5: container restarting."""
    engine.change(services={"openmem-hindsight": {"hindsight": container}})
    found = connect(engine.environ())
    with pytest.raises(Failed, match=words) as raised:
        wait_until_well(found, "hindsight", lambda line: None, sleep=lambda _: None)
    assert "openmem logs" in raised.value.hint
    found.close()


def test_one_that_starts_is_waited_for(engine: FakeEngine) -> None:
    """Ours: starting is not unwell."""
    service = {"Status": "running", "Health": "starting"}
    engine.change(services={"openmem-hindsight": {"hindsight": service}})

    def sleep(_: float) -> None:
        engine.change(
            services={"openmem-hindsight": {"hindsight": {**service, "Health": "healthy"}}}
        )

    found, told = connect(engine.environ()), []
    wait_until_well(found, "hindsight", told.append, sleep=sleep)
    assert told == ["hindsight starting"]
    assert list(found.logs("openmem-hindsight.hindsight")) == ["hindsight says hello"]
    found.close()
    assert state_of([]) == State(is_well=False, words="no container")


@pytest.mark.parametrize("provider", SERVICES)
def test_a_health_that_the_engine_never_looks_at_is_asked_of_the_server(
    engine: FakeEngine, provider: str
) -> None:
    """Seen with Podman 4.3 on 2026-11-30: without systemd it runs no health check at all."""
    service = {"Status": "running", "Health": "starting"}
    engine.change(services={f"openmem-{provider}": dict.fromkeys(SERVICES[provider], service)})
    found = connect(engine.environ())
    with stand_of(provider) as stand:
        port = urlsplit(stand.url).port or 0
        wait_until_well(found, provider, lambda line: None, port=port)
    with pytest.raises(Failed, match="not well within"):
        wait_until_well(found, provider, lambda line: None, port=port, seconds=0.0)
    found.close()


def test_nothing_in_the_way_is_nothing_said(engine: FakeEngine) -> None:
    """Ours."""
    assert codes(paths_of(engine)) == {}


def test_no_program_and_no_engine(home: Path, tmp_path: Path) -> None:
    """Issue 6, part 2: no engine."""
    paths = Paths({"PATH": str(tmp_path), "HOME": str(home)})
    assert codes(paths) == {"docker-missing": True}
    with pytest.raises(Missing) as raised:
        stop_at(faults(paths, "hindsight", ROUTE))
    assert raised.value.exit_status == 6 and "--provider local" in raised.value.hint


def test_an_engine_that_is_down(home: Path, tmp_path: Path) -> None:
    """Issue 6, part 2: engine down."""
    with fake_engine(tmp_path / "engine", is_up=False) as fake:
        assert codes(paths_of(fake)) == {"engine-down": True}
        with pytest.raises(EngineDown, match=fake.socket):
            connect(fake.environ())


def test_a_compose_of_version_one(home: Path, tmp_path: Path) -> None:
    """Issue 6, part 2: compose v1 only."""
    with fake_engine(tmp_path / "engine", old_compose=True) as fake:
        fake.change(compose="")
        assert codes(paths_of(fake)) == {"compose-v1": True}


def test_a_docker_without_compose(engine: FakeEngine) -> None:
    """Issue 6, part 2."""
    engine.change(compose="")
    assert codes(paths_of(engine)) == {"compose-missing": True}
    with pytest.raises(Missing, match="plug-in"):
        find_program(engine.environ())


@pytest.mark.parametrize(
    ("option", "code"), [("name=rootless", "rootless"), ("name=selinux", "selinux")]
)
def test_what_restricts_the_engine_is_said_and_does_not_stop(
    engine: FakeEngine, option: str, code: str
) -> None:
    """Issue 6, part 2: rootless, SELinux."""
    engine.change(security=[option, "name=seccomp,profile=builtin"])
    assert codes(paths_of(engine)) == {code: False}


@pytest.mark.parametrize(("free", "blocks"), [(3 * 10**9, False), (10**8, True)])
def test_a_disk_that_is_low(engine: FakeEngine, free: int, blocks: bool) -> None:
    """Issue 6, part 2: disk low."""
    assert codes(paths_of(engine), free=free) == {"disk-low": blocks}


def test_a_route_that_is_missing_or_only_on_loopback(engine: FakeEngine) -> None:
    """Issue 6: warns where an engine or a route is missing."""
    assert codes(paths_of(engine), route=Route()) == {"route-missing": True}
    local = Route(url="http://localhost:11434/v1", name="m")
    assert codes(paths_of(engine), route=local).get("model-on-loopback") is False


def test_folders_that_a_person_mounts(engine: FakeEngine, tmp_path: Path) -> None:
    """Users' report 46: a bind mount that user 1000 may not write to."""
    paths = made(engine)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4321, 4321)
    override = Path(folder_of(paths, "hindsight"), "compose.override.yaml")
    mount = f"{theirs}:/home/hindsight/.pg0"
    override.write_text(yaml.safe_dump({"services": {"hindsight": {"volumes": [mount]}}}))
    assert codes(paths) == {"bind-owner": True}
    os.chown(theirs, 1000, 1000)
    assert codes(paths) == {}
    os.chown(theirs, 4321, 4321)
    for read_only in (f"{theirs}:/etc/more:ro", {"type": "bind", "source": str(theirs)}):
        if isinstance(read_only, dict):
            read_only |= {"target": "/etc/more", "read_only": True}
        override.write_text(yaml.safe_dump({"services": {"hindsight": {"volumes": [read_only]}}}))
        assert codes(paths) == {}, "what is only read may be anybody's"
    override.write_text(yaml.safe_dump({"services": {"hindsight": {"volumes": [mount]}}}))
    table = tmp_path / "mounts"
    table.write_text(f"/dev/vda / ext4 rw 0 0\nshare {theirs} virtiofs rw 0 0\n")
    found = faults(paths, "hindsight", ROUTE, free_bytes=PLENTY, mounts=str(table))
    assert [(one.code, one.blocks) for one in found] == [("virtual-mount", True)]
    override.write_text("a: [")
    assert codes(paths) == {"override-unparseable": True}


def test_the_file_system_of_a_path(tmp_path: Path) -> None:
    """Issue 6, part 2: virtual mounts."""
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/vda / ext4 rw 0 0\nshare /mnt/host virtiofs rw 0 0\n")
    assert filesystem_of("/mnt/host/data", str(mounts)) == "virtiofs"
    assert filesystem_of("/mnt/hostile", str(mounts)) == "ext4"
    assert filesystem_of("/x", str(tmp_path / "none")) == ""


def test_a_taken_port_gives_way_to_the_next() -> None:
    """Issue 6, part 2: port taken, next free one proposed."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        assert not is_free(port) and next_free(port) != port
    assert is_free(port)


def test_volumes_are_known_by_name_and_removed_by_name_only(engine: FakeEngine) -> None:
    """Issue 6: volumes are asked for by name."""
    engine.change(volumes=["openmem-hindsight-data", "somebody-elses"])
    found = connect(engine.environ())
    names = ["openmem-hindsight-data", "openmem-mem0-history"]
    assert found.volumes(names) == ["openmem-hindsight-data"]
    found.remove_volume("openmem-hindsight-data")
    found.remove_volume("openmem-hindsight-data")
    assert engine.state["volumes"] == ["somebody-elses"]
    found.close()


def test_an_image_that_cannot_be_had_is_named(engine: FakeEngine) -> None:
    """Ours."""
    paths = made(engine)
    engine.change(pull_error="manifest unknown")
    with pytest.raises(Missing, match="manifest unknown"):
        start(paths, "hindsight", lambda line: None)
    assert engine.commands() == []
