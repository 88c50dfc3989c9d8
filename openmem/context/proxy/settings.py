"""What a proxy needs to know; plain values, so that a recorder process can be given them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import openmem
from openmem.base.config import Config
from openmem.base.paths import Paths

MB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The proxy's settings.

    `routes`: agent → upstream base URL, served below `/a/<agent>/`. `bare_upstream`: the upstream
    of paths without that prefix, "" for none. `paths.environ` holds proxy variables and CA files.
    `body_limit_bytes`: the largest decoded request body that is read for recording.
    `queue_limit_bytes`: request copies that may wait for the recorder, all together.
    `commit_wait_seconds`: how long a response's last byte waits for its rows.
    `is_recording`: False passes everything through and starts no recorder.
    """

    paths: Paths
    routes: Mapping[str, str]
    bare_upstream: str = ""
    body_limit_bytes: int = 64 * MB
    queue_limit_bytes: int = 64 * MB
    commit_wait_seconds: float = 2.0
    redacts: bool = True
    is_recording: bool = True
    version: str = openmem.__version__


def settings_from(paths: Paths, config: Config, *, bare_upstream: str = "") -> ProxySettings:
    """Return the proxy's settings out of the person's."""
    return ProxySettings(
        paths=paths,
        routes=dict(config.routes),
        bare_upstream=bare_upstream,
        body_limit_bytes=config.number("proxy.body_limit_mb") * MB,
        redacts=config.flag("context.redact"),
    )
