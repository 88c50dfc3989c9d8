"""Another system with our changes laid over it; what is below never changes.

Later steps of a dry run see what earlier ones would have done, so a plan can be applied, undone
and planned again without a byte on disk.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from openmem.plan.system import contract
from openmem.plan.system.contract import NEW_FILE_MODE, Ran, Stat, System
from openmem.plan.system.memory import Node

_GONE = Node(mode=-1)


class DryRunSystem:
    """`inner` with an overlay. `ran`: the commands that would have been run."""

    def __init__(self, inner: System) -> None:
        self.inner = inner
        self.environ: Mapping[str, str] = inner.environ
        self.ran: list[tuple[str, ...]] = []
        self._over: dict[str, Node] = {}  # by real path; _GONE for what was removed

    def read(self, path: str) -> bytes | None:
        node = self._over.get(self._real(path))
        if node is None:
            return self.inner.read(path)
        if node is _GONE:
            return None
        if node.data is None:
            raise contract.not_a_file(path, "a folder")
        return node.data

    def list(self, path: str) -> list[str]:
        real = self._real(path)
        if self._over.get(real) is _GONE:
            return []
        names = set(self.inner.list(path))
        for other, node in self._over.items():
            if other != real and posixpath.dirname(other) == real:
                name = posixpath.basename(other)
                names.discard(name) if node is _GONE else names.add(name)
        return sorted(names)

    def stat(self, path: str) -> Stat | None:
        real = self._real(path)
        node = self._over.get(real)
        below = self.inner.stat(path)
        if node is None:
            return below
        if node is _GONE:
            return None
        return Stat(
            kind="dir" if node.is_dir else "file",
            mode=node.mode,
            size=len(node.data or b""),
            real_path=real,
            is_link=below.is_link if below else False,
        )

    def check_writable(self, path: str) -> None:
        real = self._real(path)
        node = self._over.get(real)
        if node is not None and node is not _GONE:
            if not node.mode & 0o222:
                raise contract.not_writable(path, f"mode {node.mode:03o}")
            return
        folder = posixpath.dirname(real)
        above = self._over.get(folder)
        if above is not None and above is not _GONE:
            if not above.is_dir:
                raise contract.not_writable(path, f"{folder} is not a folder")
            if not above.mode & 0o222:
                raise contract.not_writable(path, f"its folder {folder} is read-only")
            return
        self.inner.check_writable(path)

    def write(
        self, path: str, data: bytes, *, mode: int | None = None, expect: str | None = None
    ) -> None:
        self.check_writable(path)
        found = self.stat(path)
        if found is not None and found.kind == "dir":
            raise contract.not_a_file(path, "a folder")
        real = self._real(path)
        if self.stat(posixpath.dirname(real)) is None:
            raise FileNotFoundError(path)
        if expect is not None:
            contract.compare(path, self.read(path), expect)
        if mode is None:
            mode = found.mode if found else NEW_FILE_MODE
        self._over[real] = Node(data=data, mode=mode)

    def remove(self, path: str, *, expect: str | None = None) -> None:
        found = self.stat(path)
        if found is None:
            raise contract.changed(path, "was removed")
        if found.is_link:
            raise contract.link_removal(path)
        self.check_writable(path)
        if expect is not None:
            contract.compare(path, self.read(path), expect)
        self._over[found.real_path] = _GONE

    def make_dir(self, path: str, *, mode: int = 0o700) -> None:
        found = self.stat(path)
        if found is not None:
            if found.kind != "dir":
                raise contract.not_writable(path, "something that is no folder is there")
            return
        self.check_writable(path)
        if self.stat(posixpath.dirname(path)) is None:
            raise contract.not_writable(path, "No such file or directory")
        self._over[self._real(path)] = Node(mode=mode)

    def remove_dir(self, path: str) -> bool:
        found = self.stat(path)
        if found is None or found.kind != "dir" or found.is_link or self.list(path):
            return False
        self._over[found.real_path] = _GONE
        return True

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 120.0) -> Ran:
        self.ran.append(tuple(argv))
        return Ran(code=0)

    def probe(self, argv: Sequence[str], *, timeout_seconds: float = 20.0) -> Ran:
        return self.inner.probe(argv, timeout_seconds=timeout_seconds)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        yield  # nothing below changes, so nobody has to wait

    def _real(self, path: str) -> str:
        """Return the real path: the nearest part that exists below, resolved there."""
        head, tail = posixpath.normpath(path), ""
        while head != "/":
            below = self.inner.stat(head)
            if below is not None:
                return posixpath.join(below.real_path, tail) if tail else below.real_path
            head, name = posixpath.split(head)
            tail = posixpath.join(name, tail) if tail else name
        return "/" + tail
