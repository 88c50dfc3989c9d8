"""Where a session happens: the folder, its git repository, and the bank that follows from it.

One function from a folder to a bank serves reads and writes alike. Worktrees, subfolders and
clones of one remote agree, because the bank is named by the normalised remote, or else by the
folder that holds the common git directory. Git is read as files: a hook cannot afford a process.
Source: design, section 8; users' reports 30 and 31.
"""

from __future__ import annotations

import os
import re

from openmem.base.light import dataclass

_SCP_FORM = re.compile(r"^(?:[^@/\s]+@)?([A-Za-z0-9._-]+):(?!//)(.+)$")
_URL_FORM = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^@/]*@)?([^/:]+)(?::\d+)?/(.+)$", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A folder and what git says of it; all paths absolute and resolved.

    `git_root`: top folder of this worktree, None outside git. `common_dir`: the git directory
    that all worktrees share. `remotes`: normalised, `origin` first, without credentials.
    """

    folder: str
    git_root: str | None = None
    common_dir: str | None = None
    remotes: tuple[str, ...] = ()

    @property
    def bank(self) -> str:
        """The bank's name: `github.com/acme/site`, else `<folder name>-<8 hex of its path>`."""
        if self.remotes:
            return self.remotes[0]
        home = self.folder
        if self.common_dir:
            home = self.common_dir
            if os.path.basename(home) == ".git":
                home = os.path.dirname(home)
        import hashlib  # loads OpenSSL, which a hook in a repository with a remote does without

        digest = hashlib.sha256(home.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(home)) or "root"
        return f"{name}-{digest}"

    @property
    def key(self) -> str:
        """What two sessions share when they belong to one workspace. Same as the bank."""
        return self.bank


def normalise_remote(url: str) -> str:
    """Return `host/path` of a git remote, without scheme, user, port and `.git`; "" if local.

    ssh and https forms of one repository come out equal.
    """
    text = url.strip()
    match = _URL_FORM.match(text) or _SCP_FORM.match(text)
    if not match:
        return ""
    host, path = match.group(1).lower(), match.group(2).strip("/")
    if path.endswith(".git"):
        path = path[:-4]
    path = path.strip("/")
    return f"{host}/{path}" if path else ""


def workspace_of(folder: str) -> Workspace:
    """Return the workspace of a folder; one that does not exist is taken as outside git."""
    path = os.path.realpath(folder)
    probe = path
    while True:
        found = _git_dirs(probe)
        if found:
            common = found[1]
            return Workspace(
                folder=path, git_root=probe, common_dir=common, remotes=_remotes(common)
            )
        parent = os.path.dirname(probe)
        if parent == probe:
            return Workspace(folder=path)
        probe = parent


def _git_dirs(folder: str) -> tuple[str, str] | None:
    """Return (git directory, common directory) when `folder` is the top of a worktree."""
    marker = os.path.join(folder, ".git")
    if os.path.isdir(marker):
        git_dir = marker
    else:
        text = _first_line(marker)
        if not text.startswith("gitdir:"):
            return None
        git_dir = os.path.join(folder, text[len("gitdir:") :].strip())
    if not os.path.exists(os.path.join(git_dir, "HEAD")):
        return None
    common = _first_line(os.path.join(git_dir, "commondir"))
    common_dir = os.path.join(git_dir, common) if common else git_dir
    return os.path.realpath(git_dir), os.path.realpath(common_dir)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(4096).strip()
    except (OSError, ValueError):
        return ""  # not there or not a text file: not a git marker


def _remotes(common_dir: str) -> tuple[str, ...]:
    """Return the normalised remotes of a repository, `origin` first, then by name."""
    try:
        with open(os.path.join(common_dir, "config"), encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError:
        return ()
    urls: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        header = re.match(r'^\[\s*remote\s+"((?:[^"\\]|\\.)*)"\s*\]', stripped)
        if header:
            section = header.group(1)
        elif stripped.startswith("["):
            section = ""
        elif section and section not in urls:
            match = re.match(r"^url\s*=\s*(.+)$", stripped)
            if match:
                value = match.group(1).strip().strip('"')
                normal = normalise_remote(value)
                if normal:
                    urls[section] = normal
    names = sorted(urls, key=lambda name: (name != "origin", name))
    return tuple(dict.fromkeys(urls[name] for name in names))
