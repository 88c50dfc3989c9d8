"""What stands in the way of a stack, each with the way out, before anything is started.

Idea: looking only; a plan shows the findings as warnings, an apply stops at those that block.
Source: users' report 46 and part 2 of its issue.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from openmem.base.errors import Missing
from openmem.base.paths import Paths
from openmem.stack.compose import find_program
from openmem.stack.engine import Engine, connect
from openmem.stack.plan import folder_of
from openmem.stack.route import Route, is_local, problem_of

NEEDED_GB = {"hindsight": 4.0, "mem0": 3.0, "cognee": 6.0}
_VIRTUAL = ("9p", "fuse", "virtiofs", "nfs", "cifs", "smb", "vboxsf", "drvfs", "osxfs")
_INNER_USER = 1000
MOUNTS = "/proc/self/mounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing in the way. `blocks`: the stack cannot run; else it is good to know."""

    code: str
    text: str
    advice: str = ""
    blocks: bool = True

    @property
    def words(self) -> str:
        return f"{self.text} {self.advice}".strip()


def faults(
    paths: Paths,
    provider: str,
    route: Route,
    *,
    free_bytes: int | None = None,
    mounts: str = MOUNTS,
) -> list[Fault]:
    """Return what stands in the way. `free_bytes`: on the engine's disk, None to look; `mounts`:
    the system's table of them."""
    found: list[Fault] = []
    environ = paths.environ
    try:
        find_program(environ)
    except Missing as error:
        found.append(_fault(error))
    engine: Engine | None = None
    try:
        if not any(one.code == "docker-missing" for one in found):
            engine = connect(environ)
    except Missing as error:
        found.append(_fault(error))
    if engine is not None:
        try:
            found += _of_engine(engine, paths, provider, free_bytes)
        except Missing as error:
            found.append(_fault(error))
        finally:
            engine.close()
    problem = problem_of(provider, route)
    if problem:
        found.append(Fault(code="route-missing", text=problem))
    found += _of_route(route)
    return found + _of_binds(paths, provider, mounts)


def stop_at(found: list[Fault]) -> None:
    """Raise the first that blocks. Missing (exit 6)."""
    for fault in found:
        if fault.blocks:
            raise Missing(fault.text, hint=fault.advice, code=fault.code)


def _fault(error: Missing) -> Fault:
    return Fault(code=error.code, text=error.message, advice=error.hint)


def _of_engine(engine: Engine, paths: Paths, provider: str, free_bytes: int | None) -> list[Fault]:
    found: list[Fault] = []
    about = engine.about()
    if about.is_rootless:
        found.append(
            Fault(
                code="rootless",
                text=f"{about.name} runs rootless: limits of memory hold only where the system "
                "hands them down, and a model on this machine may not be reachable from inside.",
                blocks=False,
            )
        )
    if about.has_selinux:
        found.append(
            Fault(
                code="selinux",
                text="SELinux is on: the stack's named volumes work as they are; folders that "
                "you mount yourself need `:Z`.",
                blocks=False,
            )
        )
    free = free_bytes if free_bytes is not None else _free(about.root or paths.home)
    needed = NEEDED_GB[provider] * 1e9
    if 0 <= free < needed:
        found.append(
            Fault(
                code="disk-low",
                text=f"{free / 1e9:.1f} GB are free for images, {provider} needs about "
                f"{NEEDED_GB[provider]:.0f}.",
                advice="Make room: docker system df shows what can go.",
                blocks=free < needed / 4,
            )
        )
    return found


def _free(path: str) -> int:
    """Return the free bytes where a path is, -1 when it is on another machine."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path.rstrip("/"))
    return shutil.disk_usage(path).free if path and path != "/" else -1


def _of_route(route: Route) -> list[Fault]:
    found = []
    for url in (route.url, route.embeddings_url):
        if url and is_local(url) and sys.platform == "linux":
            found.append(
                Fault(
                    code="model-on-loopback",
                    text=f"the containers reach {url} as host.docker.internal: it must listen on "
                    "more than 127.0.0.1 (for Ollama: OLLAMA_HOST=0.0.0.0, behind a firewall).",
                    blocks=False,
                )
            )
    return found


def _of_binds(paths: Paths, provider: str, mounts: str = MOUNTS) -> list[Fault]:
    """Return what is wrong with folders that a person mounts in an override file."""
    path = f"{folder_of(paths, provider)}/compose.override.yaml"
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file)
    except FileNotFoundError:
        return []
    except (yaml.YAMLError, UnicodeDecodeError):
        return [
            Fault(code="override-unparseable", text=f"{path} does not parse.", advice="Mend it.")
        ]
    found = []
    for folder, is_written in _bound(document, os.path.dirname(path)):
        if not is_written:
            continue  # what is only read harms no database, whoever owns it
        kind = filesystem_of(folder, mounts)
        if kind.startswith(_VIRTUAL):
            found.append(
                Fault(
                    code="virtual-mount",
                    text=f"{folder} is on {kind}, where databases get damaged.",
                    advice="Use a named volume.",
                )
            )
        elif os.path.isdir(folder) and os.stat(folder).st_uid != _INNER_USER:
            found.append(
                Fault(
                    code="bind-owner",
                    text=f"{folder} does not belong to user {_INNER_USER}, as which the "
                    "container writes.",
                    advice="Use a named volume, or give it to that user.",
                )
            )
    return found


def _bound(document: object, folder: str) -> list[tuple[str, bool]]:
    """Return the folders of this machine that services mount, and whether they write there."""
    services = document.get("services") if isinstance(document, dict) else None
    found: list[tuple[str, bool]] = []
    for service in services.values() if isinstance(services, dict) else ():
        volumes = service.get("volumes") if isinstance(service, dict) else None
        for volume in volumes if isinstance(volumes, list) else ():
            if isinstance(volume, str) and volume.startswith(("/", ".", "~")):
                source, _, rest = volume.partition(":")
                is_written = "ro" not in rest.rpartition(":")[2].split(",")
            elif isinstance(volume, dict) and volume.get("type") == "bind":
                source = str(volume.get("source", ""))
                is_written = volume.get("read_only") is not True
            else:
                continue
            place = os.path.normpath(os.path.join(folder, os.path.expanduser(source)))
            found.append((place, is_written))
    return found


def filesystem_of(path: str, mounts: str = MOUNTS) -> str:
    """Return the kind of file system of a path, "" when it is not known."""
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                parts = line.split()
                if len(parts) < 3 or len(parts[1]) < len(best):
                    continue
                if (path + "/").startswith(parts[1].rstrip("/") + "/"):
                    best, kind = parts[1], parts[2]
    except FileNotFoundError:
        return ""  # macOS has no such file; its engine shares folders in its own ways
    return kind


def next_free(port: int, taken: Mapping[int, str] | None = None) -> int:
    """Return the port, or the next one on which nothing listens. Missing after fifty."""
    for one in range(port, min(port + 50, 65536)):
        if not (taken or {}).get(one) and is_free(one):
            return one
    raise Missing(
        f"no port from {port} on is free on 127.0.0.1.",
        hint="Name another: --provider-port",
        code="port-taken",
    )


def is_free(port: int) -> bool:
    """Return whether nothing listens on a port of 127.0.0.1."""
    import socket

    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
