"""`docker compose`, run as a program: up, down, and what it complains of.

Idea: compose's own files in a fixed order; what it says goes to the person when it fails.
Invariant: `down` keeps volumes. Trap: compose reads `.env` and `COMPOSE_*` of wherever it is run:
folder and environment are given, never inherited.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed, Missing
from openmem.base.io import write_atomic
from openmem.base.paths import Paths
from openmem.stack.plan import compose_path, folder_of
from openmem.stack.render import env_values

_QUICK_SECONDS = 20.0
_UP_SECONDS = 1800.0  # it may build, and fetch what was not fetched before
_OURS = ("compose.yaml", "litellm.compose.yaml", "compose.override.yaml", "images.lock.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The compose program: `docker compose`, or `podman compose`. `version`: as it says."""

    words: tuple[str, ...]
    version: str


def project_of(provider: str) -> str:
    return f"openmem-{provider}"


def find_program(environ: Mapping[str, str]) -> Program:
    """Return compose version 2 or later. Missing says what is there instead."""
    docker = shutil.which("docker", path=environ.get("PATH"))
    podman = shutil.which("podman", path=environ.get("PATH"))
    for program in (one for one in (docker, podman) if one):
        done = _ran([program, "compose", "version", "--short"], environ, _QUICK_SECONDS)
        version = done.stdout.strip().removeprefix("v")
        if done.returncode == 0 and version.split(".")[0].isdigit():
            if int(version.split(".")[0]) >= 2:
                return Program(words=(program, "compose"), version=version)
            raise _old(version)
    old = shutil.which("docker-compose", path=environ.get("PATH"))
    if old:
        done = _ran([old, "version", "--short"], environ, _QUICK_SECONDS)
        version = done.stdout.strip().removeprefix("v")
        if done.returncode == 0 and version.split(".")[0].isdigit() and version[0] != "1":
            return Program(words=(old,), version=version)
        raise _old(version or "1")
    if not docker and not podman:
        raise Missing(
            "neither docker nor podman is on PATH.",
            hint="Install Docker, or keep memories without it: openmem setup --provider local",
            code="docker-missing",
        )
    raise Missing(
        "docker is here, and its compose plug-in is not.",
        hint="Install docker-compose-plugin (Debian: docker-compose-v2, docker-compose).",
        code="compose-missing",
    )


def _old(version: str) -> Missing:
    return Missing(
        f"only compose {version} is here, which reads these files differently.",
        hint="Install version 2: the package docker-compose-plugin.",
        code="compose-v1",
    )


def files_of(paths: Paths, provider: str) -> list[str]:
    """Return the files that make a stack, those that exist."""
    folder = folder_of(paths, provider)
    return [f"{folder}/{name}" for name in _OURS if os.path.exists(f"{folder}/{name}")]


class Stack:
    """One provider's stack. `engine`: the engine's address, "" for compose's own choice."""

    def __init__(self, paths: Paths, provider: str, engine: str = "") -> None:
        self._paths = paths
        self.provider = provider
        self.project = project_of(provider)
        self._engine = engine

    def exists(self) -> bool:
        return os.path.exists(compose_path(self._paths, self.provider))

    def up(self) -> None:
        """Make and start what the files say. Missing, Failed."""
        self._run("up", "--detach", "--remove-orphans", seconds=_UP_SECONDS)
        self._note_up()

    def down(self) -> None:
        """End and remove containers and network; volumes stay."""
        if self.exists():
            self._run("down", "--remove-orphans", seconds=_UP_SECONDS)

    def restart(self) -> None:
        """End and start the containers as they are."""
        self._run("restart", seconds=_UP_SECONDS)

    def is_up(self) -> bool:
        """Return whether every service runs, by the files as they are now."""
        if not self.exists() or self._noted() != self._digests():
            return False
        done = self._asked("ps", "--status", "running", "--services")
        running = set(done.stdout.split())
        wanted = set(self._asked("config", "--services").stdout.split())
        return bool(wanted) and wanted <= running

    def _run(self, *words: str, seconds: float) -> None:
        done = self._asked(*words, seconds=seconds)
        if done.returncode != 0:
            said = [line for line in done.stderr.strip().splitlines() if line.strip()]
            raise Failed(
                f"compose could not do `{words[0]}` for {self.provider}: "
                f"{said[-1].strip()[:300] if said else done.returncode}.",
                hint="See what is wrong: openmem doctor",
                code="compose-failed",
            )

    def _asked(
        self, *words: str, seconds: float = _QUICK_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        environ = {
            name: value
            for name, value in self._paths.environ.items()
            if not name.startswith("COMPOSE_")
        }
        if self._engine:
            environ["DOCKER_HOST"] = self._engine
        program = find_program(environ)
        folder = folder_of(self._paths, self.provider)
        argv = [*program.words, "--project-name", self.project, "--project-directory", folder]
        for path in files_of(self._paths, self.provider):
            argv += ["--file", path]
        return _ran([*argv, *words], environ, seconds, folder)

    # What ran last, so that a changed file is seen to need a new start.

    def _digests(self) -> dict[str, str]:
        import hashlib

        folder = folder_of(self._paths, self.provider)
        found = {}
        for name in sorted(os.listdir(folder)):
            if name.endswith((".yaml", ".env")) and name != "images.lock.yaml":
                with open(f"{folder}/{name}", "rb") as file:
                    found[name] = hashlib.sha256(file.read()).hexdigest()
        return found

    @property
    def _note(self) -> str:
        return f"{folder_of(self._paths, self.provider)}/up.json"

    def _note_up(self) -> None:
        write_atomic(self._note, json.dumps(self._digests(), indent=1).encode() + b"\n")

    def _noted(self) -> dict[str, str]:
        try:
            with open(self._note, encoding="utf-8") as file:
                value = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}  # not started yet, or cut off: both mean that it has to be started
        return value if isinstance(value, dict) else {}

    # Images, pinned to what their tags meant at the first start.

    @property
    def lock_path(self) -> str:
        return f"{folder_of(self._paths, self.provider)}/images.lock.yaml"

    def write_lock(self, digests: Mapping[str, str]) -> None:
        """Write down which image each service runs: service → `name:tag@sha256:…`."""
        if not digests:
            return
        lines = [
            "# Made by openmem at the first start; remove it to take newer images.",
            "services:",
        ]
        for service, reference in sorted(digests.items()):
            lines += [f"  {service}:", f"    image: {json.dumps(reference)}"]
        write_atomic(self.lock_path, ("\n".join(lines) + "\n").encode())


def env_value(paths: Paths, provider: str, key: str) -> str:
    """Return one value of a stack's env file, "" when there is none."""
    try:
        with open(f"{folder_of(paths, provider)}/{provider}.env", encoding="utf-8") as file:
            return env_values(file.read()).get(key, "")
    except FileNotFoundError:
        return ""


def _ran(
    argv: Sequence[str], environ: Mapping[str, str], seconds: float, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            list(argv),
            env=dict(environ),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"no end within {seconds:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, "", error.strerror or "cannot be run")
