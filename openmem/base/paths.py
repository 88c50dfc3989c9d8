"""Every place openmem keeps something, derived from the environment; asking creates nothing."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `light`: `collections` would be a sixth of what a hook imports
if TYPE_CHECKING:
    from collections.abc import Mapping

_ASCII_SPACE = " \t\n\v\f\r"
_SOCKET_PATH_LIMIT = 100  # a Unix socket's path holds 104 bytes on macOS, 108 on Linux


def _folder(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip(_ASCII_SPACE)


class Paths:
    """The folders and files of one installation. `home`: the person's home folder."""

    __slots__ = ("config_dir", "environ", "home", "state_dir")

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.home = environ.get("HOME") or os.path.expanduser("~")
        config_root = _folder(environ, "XDG_CONFIG_HOME") or os.path.join(self.home, ".config")
        state_root = _folder(environ, "XDG_DATA_HOME") or os.path.join(self.home, ".local/share")
        self.config_dir = _folder(environ, "OPENMEM_CONFIG_DIR") or f"{config_root}/openmem"
        self.state_dir = _folder(environ, "OPENMEM_STATE_DIR") or f"{state_root}/openmem"

    @property
    def config_file(self) -> str:
        return f"{self.config_dir}/config.toml"

    @property
    def policy_file(self) -> str:
        return f"{self.config_dir}/policy.toml"

    @property
    def context_dir(self) -> str:
        return f"{self.state_dir}/context"

    @property
    def sessions_dir(self) -> str:
        return f"{self.state_dir}/context/sessions"

    @property
    def blobs_dir(self) -> str:
        return f"{self.state_dir}/context/blobs"

    @property
    def ledger_file(self) -> str:
        return f"{self.state_dir}/ledger.db"

    @property
    def receipts_dir(self) -> str:
        return f"{self.state_dir}/receipts"

    @property
    def backups_dir(self) -> str:
        return f"{self.state_dir}/backups"

    @property
    def stack_dir(self) -> str:
        return f"{self.state_dir}/stack"

    @property
    def logs_dir(self) -> str:
        return f"{self.state_dir}/logs"

    @property
    def run_dir(self) -> str:
        return f"{self.state_dir}/run"

    @property
    def proxy_record(self) -> str:
        """What the running supervisor wrote of itself: address, version, process ids."""
        return f"{self.run_dir}/proxy.json"

    @property
    def key_file(self) -> str:
        return f"{self.state_dir}/install.key"

    @property
    def control_socket(self) -> str:
        """The Unix socket on which the proxy answers hooks and the command line."""
        path = f"{self.run_dir}/control.sock"
        if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
            return path
        # A deep home folder: the name must be short, and only this user may own its folder.
        import hashlib  # loads OpenSSL: 3 ms and 4 MB, which hooks and the supervisor do without

        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        root = _folder(self.environ, "XDG_RUNTIME_DIR") or "/tmp"
        return f"{root}/openmem-{os.getuid()}-{digest}/control.sock"


def display(path: str, home: str) -> str:
    """Return `path` with the home folder written as `~`."""
    if path == home:
        return "~"
    return "~" + path[len(home) :] if path.startswith(home.rstrip("/") + "/") else path
