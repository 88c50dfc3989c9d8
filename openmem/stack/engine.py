"""The container engine, asked over its socket: is it there, what runs, what did it say.

Idea: Docker or Podman, wherever its socket is: what the environment names, what the docker program
uses, or one of the usual places. Invariant: nothing is started or stopped here; that is compose's.
Trap: the program and the library find the engine in different ways, so compose is told the place
that was found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import docker
import docker.errors
import requests.exceptions

from openmem.base.errors import Missing, OpenmemError

_FAULTS = (docker.errors.DockerException, requests.exceptions.RequestException, OSError)
_TIMEOUT_SECONDS = 10


class EngineDown(Missing):
    """No engine answers."""

    code = "engine-down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a stack. `state`: running, exited, restarting, created; `health`: healthy,
    starting, unhealthy, "" without a check. `restarts`: how often it ended by itself."""

    service: str
    id: str
    name: str
    state: str
    health: str = ""
    restarts: int = 0
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What an engine says of itself."""

    name: str
    version: str
    root: str
    is_rootless: bool
    has_selinux: bool


def candidates(environ: Mapping[str, str]) -> list[str]:
    """Return the places where an engine may answer, the likeliest first."""
    named = environ.get("DOCKER_HOST", "")
    if named:
        return [named]
    home = environ.get("HOME", "")
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    usual = (
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",
        f"{home}/.docker/run/docker.sock",
        f"{home}/.orbstack/run/docker.sock",
        f"{home}/.colima/default/docker.sock",
        f"{runtime}/podman/podman.sock",
        "/run/podman/podman.sock",
    )
    found = [f"unix://{path}" for path in usual if os.path.exists(path)]
    context = _context(environ)
    return list(dict.fromkeys([*([context] if context else []), *found]))


def _context(environ: Mapping[str, str]) -> str:
    """Return the address that the docker program uses, "" when it is not known."""
    program = shutil.which("docker", path=environ.get("PATH"))
    if program is None:
        return ""
    words = [program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    try:
        done = subprocess.run(
            words,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # the usual places are looked at all the same
    return done.stdout.strip() if done.returncode == 0 else ""


class Engine:
    """One engine that answers. `address`: its socket, as DOCKER_HOST names it."""

    def __init__(self, client: docker.DockerClient, address: str) -> None:
        self._client = client
        self.address = address

    def close(self) -> None:
        self._client.close()

    def about(self) -> About:
        """Return version, place of its data, and what restricts it."""
        info = self._asked(self._client.info)
        version = self._asked(self._client.version)
        options = " ".join(str(one) for one in info.get("SecurityOptions") or ())
        components = str(version.get("Components") or "").lower()
        return About(
            name="Podman" if "podman" in components else "Docker",
            version=str(version.get("Version") or info.get("ServerVersion") or ""),
            root=str(info.get("DockerRootDir") or ""),
            is_rootless="rootless" in options,
            has_selinux="selinux" in options,
        )

    def containers(self, project: str) -> list[Container]:
        """Return the containers of a compose project, stopped ones too."""
        api = self._client.api
        filters = {"label": f"com.docker.compose.project={project}"}
        rows = self._asked(lambda: api.containers(all=True, filters=filters))
        found = []
        for row in rows:
            try:
                told = self._asked(partial(api.inspect_container, row["Id"]))
            except Gone:
                continue  # it ended between the two questions
            found.append(_container(told))
        return sorted(found, key=lambda one: one.service)

    def logs(self, container: str, *, tail: int = 200, follow: bool = False) -> Iterator[str]:
        """Yield a container's last lines, and with `follow` those that come."""
        stream = self._asked(
            lambda: self._client.api.logs(
                container, stdout=True, stderr=True, stream=True, follow=follow, tail=tail
            )
        )
        left = b""
        for part in self._streamed(stream):
            *lines, left = (left + part).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip("\r")
        if left:
            yield left.decode("utf-8", "replace")

    def digest(self, image: str) -> str:
        """Return the digest by which a registry knows an image, "" for one that was built here."""
        try:
            told = self._asked(partial(self._client.api.inspect_image, image))
        except Gone:
            return ""
        for reference in told.get("RepoDigests") or ():
            name, _, digest = str(reference).partition("@")
            if name == image.rpartition(":")[0] and digest.startswith("sha256:"):
                return digest
        return ""

    def has_image(self, image: str) -> bool:
        """Return whether an image is here already."""
        try:
            self._asked(partial(self._client.api.inspect_image, image))
        except Gone:
            return False
        return True

    def pull(self, image: str, tell: Callable[[str], None]) -> None:
        """Fetch an image, telling how far it is, once for each tenth of what is known."""
        name, _, tag = image.rpartition(":")
        rows = self._asked(lambda: self._client.api.pull(name, tag=tag, stream=True, decode=True))
        parts: dict[str, tuple[int, int]] = {}
        told = -1
        for row in self._streamed(rows):
            if row.get("error"):
                raise Missing(
                    f"the image {image} cannot be fetched: {str(row['error'])[:200]}",
                    hint="Check the network, then run it again; what was fetched is kept.",
                    code="image-missing",
                )
            detail = row.get("progressDetail") or {}
            if row.get("id") and detail.get("total"):
                parts[row["id"]] = (int(detail.get("current") or 0), int(detail["total"]))
                done, total = (sum(x[i] for x in parts.values()) for i in (0, 1))
                if 10 * done // total > told:
                    told = 10 * done // total
                    tell(f"{image}: {done / 1e6:.0f} of {total / 1e6:.0f} MB")

    def volumes(self, names: Sequence[str]) -> list[str]:
        """Return which of these volumes exist."""
        told = self._asked(self._client.api.volumes)
        there = {str(row.get("Name")) for row in told.get("Volumes") or ()}
        return [name for name in names if name in there]

    def remove_volume(self, name: str) -> None:
        """Remove a volume with all that is in it; one that is not there is removed already."""
        try:
            self._asked(lambda: self._client.api.remove_volume(name))
        except Gone:
            return

    def _streamed(self, stream: Iterable[Any]) -> Iterator[Any]:
        """Yield what comes, with the library's faults as ours."""
        parts = iter(stream)
        while True:
            try:
                part = next(parts)
            except StopIteration:
                return
            except _FAULTS as error:
                raise self._broken(error) from None
            yield part

    def _broken(self, error: Exception) -> EngineDown:
        return EngineDown(
            f"the container engine at {self.address} broke off ({type(error).__name__}).",
            hint="See whether it runs: docker info",
        )

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Ask, and turn the library's faults into ours."""
        try:
            return ask()
        except docker.errors.NotFound:
            raise Gone("the engine does not know it.") from None
        except _FAULTS as error:
            raise self._broken(error) from None


class Gone(OpenmemError):
    """What was asked about is not there."""

    code = "not-found"


def connect(environ: Mapping[str, str]) -> Engine:
    """Return the first engine that answers. EngineDown names the places that were tried."""
    tried = candidates(environ)
    for address in tried:
        try:
            client = docker.DockerClient(base_url=address, version="auto", timeout=_TIMEOUT_SECONDS)
        except _FAULTS:
            continue  # the next place; if none answers, all of them are named
        try:
            client.ping()
        except _FAULTS:
            client.close()
            continue
        return Engine(client, address)
    places = " or ".join(place.removeprefix("unix://") for place in tried)
    raise EngineDown(
        f"no container engine answers{' at ' + places if places else ''}.",
        hint="Start Docker (or Podman's socket), or keep memories without one: "
        "openmem setup --provider local",
    )


def _container(told: Mapping[str, object]) -> Container:
    config = _table(told.get("Config"))
    state = _table(told.get("State"))
    labels = _table(config.get("Labels"))
    return Container(
        service=str(labels.get("com.docker.compose.service") or ""),
        id=str(told.get("Id") or ""),
        name=str(told.get("Name") or "").lstrip("/"),
        state=str(state.get("Status") or ""),
        health=str(_table(state.get("Health")).get("Status") or ""),
        restarts=int(str(told.get("RestartCount") or 0)),
        exit_code=int(str(state.get("ExitCode") or 0)),
    )


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
