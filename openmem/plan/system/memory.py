"""A machine in a dictionary, for tests and for working out a plan without touching anything."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from openmem.base.errors import Failed, Missing
from openmem.plan.system import contract
from openmem.plan.system.contract import NEW_FILE_MODE, Ran, Stat

Program = Callable[[Sequence[str]], Ran]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A file (`data`), a folder (neither) or a link (`link`)."""

    data: bytes | None = None
    link: str = ""
    mode: int = 0o644

    @property
    def is_dir(self) -> bool:
        return self.data is None and not self.link


class MemorySystem:
    """Files by absolute path; their folders come into being with them.

    `links`: path → target text. `programs`: first word of a command → what running it gives.
    `ran`: every command that was run, in order.
    """

    def __init__(
        self,
        files: Mapping[str, bytes | str] | None = None,
        *,
        links: Mapping[str, str] | None = None,
        programs: Mapping[str, Program] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.environ: Mapping[str, str] = dict(environ or {"HOME": "/home/u"})
        self.nodes: dict[str, Node] = {"/": Node(mode=0o755)}
        self.programs = dict(programs or {})
        self.ran: list[tuple[str, ...]] = []
        self._held: set[str] = set()
        for path, data in (files or {}).items():
            self._make_parents(path)
            self.nodes[path] = Node(data=data.encode() if isinstance(data, str) else data)
        for path, target in (links or {}).items():
            self._make_parents(path)
            self.nodes[path] = Node(link=target)

    @property
    def files(self) -> dict[str, bytes]:
        """The regular files and their bytes."""
        return {path: n.data for path, n in self.nodes.items() if n.data is not None}

    def read(self, path: str) -> bytes | None:
        found = self.stat(path)
        if found is None:
            return None
        if found.kind == "dangling":
            raise contract.dangling(path, self.nodes[self._parent_real(path)].link)
        if found.kind != "file":
            raise contract.not_a_file(path, "a folder")
        if not found.mode & 0o444:
            raise contract.not_readable(path, "permission denied")
        return self.nodes[found.real_path].data

    def list(self, path: str) -> list[str]:
        real = self._real(path)
        if real not in self.nodes or not self.nodes[real].is_dir:
            return []
        return sorted(posixpath.basename(p) for p in self.nodes if _is_child(p, real))

    def stat(self, path: str) -> Stat | None:
        here = self.nodes.get(self._parent_real(path))
        if here is None:
            return None
        real = self._real(path)
        there = self.nodes.get(real)
        if there is None or there.link:
            return Stat(kind="dangling", mode=0, size=0, real_path=real, is_link=True)
        return Stat(
            kind="dir" if there.is_dir else "file",
            mode=there.mode,
            size=len(there.data or b""),
            real_path=real,
            is_link=bool(here.link),
        )

    def check_writable(self, path: str) -> None:
        found = self.stat(path)
        if found is not None and found.kind == "dangling":
            raise contract.dangling(path, self.nodes[self._parent_real(path)].link)
        if found is not None and found.kind == "file" and not found.mode & 0o222:
            raise contract.not_writable(path, f"mode {found.mode:03o}")
        folder = posixpath.dirname(found.real_path if found else path)
        while (there := self.stat(folder)) is None:
            folder = posixpath.dirname(folder)
        if there.kind == "dangling":
            raise contract.dangling(folder, self.nodes[self._parent_real(folder)].link)
        if there.kind != "dir":
            raise contract.not_writable(path, f"{folder} is not a folder")
        if not there.mode & 0o222:
            raise contract.not_writable(path, f"its folder {folder} is read-only")

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        self.check_writable(path)
        found = self.stat(path)
        if found is not None and found.kind == "dir":
            raise contract.not_a_file(path, "a folder")
        real = found.real_path if found else self._real(path)
        if posixpath.dirname(real) not in self.nodes:
            raise FileNotFoundError(path)
        old = self.nodes.get(real)
        if expect is not None:
            contract.compare(path, old.data if old else None, expect)
        if mode is None:
            mode = old.mode if old else NEW_FILE_MODE
        self.nodes[real] = Node(data=data, mode=mode)

    def remove(self, path: str, *, expect: str | None = None) -> None:
        found = self.stat(path)
        if found is None:
            raise contract.changed(path, "was removed")
        if found.is_link:
            raise contract.link_removal(path)
        self.check_writable(path)
        if expect is not None:
            contract.compare(path, self.nodes[found.real_path].data, expect)
        del self.nodes[found.real_path]

    def make_dir(self, path: str, *, mode: int = 0o700) -> None:
        found = self.stat(path)
        if found is not None:
            if found.kind != "dir":
                raise contract.not_writable(path, "something that is no folder is there")
            return
        self.check_writable(path)
        real = self._real(path)
        if posixpath.dirname(real) not in self.nodes:
            raise contract.not_writable(path, "No such file or directory")
        self.nodes[real] = Node(mode=mode)

    def remove_dir(self, path: str) -> bool:
        real = self._parent_real(path)
        node = self.nodes.get(real)
        if node is None or not node.is_dir or any(_is_child(p, real) for p in self.nodes):
            return False
        del self.nodes[real]
        return True

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Ran:
        self.ran.append(tuple(argv))
        return self.probe(argv, timeout_seconds=timeout_seconds)

    def probe(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Ran:
        program = self.programs.get(argv[0])
        if program is None:
            raise Missing(f"there is no program {argv[0]}.", code="program-missing")
        return program(argv)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        if path in self._held:
            raise Failed(f"another openmem holds {path}.", code="locked")
        self._held.add(path)
        try:
            yield
        finally:
            self._held.discard(path)

    def _make_parents(self, path: str) -> None:
        folder = posixpath.dirname(path)
        while folder not in self.nodes:
            self.nodes[folder] = Node(mode=0o755)
            folder = posixpath.dirname(folder)

    def _parent_real(self, path: str) -> str:
        """Return `path` with the links of its folders followed, but not its own."""
        path = posixpath.normpath(path)
        if path == "/":
            return path
        return posixpath.join(self._real(posixpath.dirname(path)), posixpath.basename(path))

    def _real(self, path: str) -> str:
        path = self._parent_real(path)
        for _ in range(40):  # the kernel's own bound on a chain of links
            node = self.nodes.get(path)
            if node is None or not node.link:
                return path
            target = posixpath.join(posixpath.dirname(path), node.link)
            path = self._parent_real(target)
        return path


def _is_child(path: str, folder: str) -> bool:
    return path != folder and posixpath.dirname(path) == folder
