"""What a proxy needs to know; plain values, so that a recorder process can be given them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import openmem
from openmem.base.config import Config
from openmem.base.paths import Paths
from openmem.base.vectors.settings import VectorSettings, vector_settings
from openmem.context.models import load_models
from openmem.context.trim.limits import SOFT_CAP, TrimSettings

MB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """The proxy's settings.

    `routes`: agent → upstream base URL, served below `/a/<agent>/`. `bare_upstream`: the upstream
    of paths without that prefix, "" for none. `paths.environ` holds proxy variables and CA files.
    `body_limit_bytes`: the largest decoded request body that is read for recording.
    `queue_limit_bytes`: request copies that may wait for the recorder, all together.
    `commit_wait_seconds`: how long a response's last byte waits for its rows.
    `ttl_days`: how long unused sessions are kept, 0 for ever.
    `is_recording`: False passes everything through and starts no recorder. `windows`: tokens by
    model name prefix. `view_wait_seconds`: how long a request waits for its trimmed form.
    `vectors`: which model makes vectors of stored rows, if any. `recorder`: the module whose
    `main` is the recorder process; a host that hands it something has one of its own.
    """

    paths: Paths
    routes: Mapping[str, str]
    bare_upstream: str = ""
    body_limit_bytes: int = 64 * MB
    queue_limit_bytes: int = 64 * MB
    commit_wait_seconds: float = 2.0
    redacts: bool = True
    ttl_days: int = 0
    is_recording: bool = True
    trim: TrimSettings = field(default_factory=lambda: TrimSettings(is_on=False))
    windows: Mapping[str, int] = field(default_factory=dict)
    view_wait_seconds: float = 5.0
    vectors: VectorSettings = field(default_factory=VectorSettings)
    recorder: str = "openmem.context.proxy.recording.process"
    version: str = openmem.__version__

    @property
    def view_from_bytes(self) -> int:
        """The smallest request that can reach the soft threshold: no text has fewer characters a
        token than 1.2."""
        return int((self.trim.soft_tokens or SOFT_CAP) * 1.2)


def settings_from(paths: Paths, config: Config, *, bare_upstream: str = "") -> ProxySettings:
    """Return the proxy's settings out of the person's."""
    return ProxySettings(
        paths=paths,
        routes=dict(config.routes),
        bare_upstream=bare_upstream,
        body_limit_bytes=config.number("proxy.body_limit_mb") * MB,
        redacts=config.flag("context.redact"),
        ttl_days=config.number("context.ttl_days"),
        trim=trim_settings(config),
        windows={name: model.window for name, model in load_models().items()},
        vectors=vector_settings(config),
    )


def trim_settings(config: Config) -> TrimSettings:
    """Return the person's trim settings."""
    return TrimSettings(
        is_on=config.flag("trim.enabled"),
        soft_tokens=config.number("trim.soft_tokens"),
        hard_tokens=config.number("trim.hard_tokens"),
        fraction=float(config.get("trim.to_fraction")),
        compress_tokens=config.number("trim.compress_tokens"),
        keep_steps=config.number("trim.keep_steps"),
        superseded=config.flag("trim.superseded"),
        clears_tool_uses=config.flag("trim.clear_tool_uses"),
    )
