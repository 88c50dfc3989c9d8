"""Memory as the settings say: the key, the provider, the facade over both.

Standard library only: hooks open memory this way too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openmem.base.config import Config, load_config
from openmem.base.installation import ensure_key, read_key
from openmem.base.paths import Paths
from openmem.memory.ledger_reading import LedgerReader
from openmem.memory.looking import Looker
from openmem.memory.providers.registry import provider_of

if TYPE_CHECKING:
    from openmem.memory.facade import Memories


def open_memories(
    paths: Paths, *, config: Config | None = None, busy_seconds: float = 10.0
) -> Memories:
    """Return the facade; files are opened when they are needed. InvalidConfig, Usage."""
    from openmem.memory.facade import Memories

    config = config or load_config(paths.config_file, paths.environ)
    provider = provider_of(config.text("provider"), paths)
    return Memories(paths, ensure_key(paths), provider, busy_seconds=busy_seconds)


def open_frozen(paths: Paths, *, config: Config | None = None) -> Memories:
    """Return the facade for a dry run: it reads the ledger, writes nothing and makes no file."""
    from openmem.memory.facade import Memories

    config = config or load_config(paths.config_file, paths.environ)
    provider = provider_of(config.text("provider"), paths)
    return Memories(paths, read_key(paths) or b"", provider, is_frozen=True)


def open_to_read(
    paths: Paths, *, config: Config | None = None, busy_seconds: float = 10.0
) -> Looker | None:
    """Return what finds memories, None where nothing was ever remembered; creates nothing."""
    key = read_key(paths)
    if key is None:
        return None
    config = config or load_config(paths.config_file, paths.environ)
    provider = provider_of(config.text("provider"), paths)
    ledger = LedgerReader(paths, key, provider=provider.name, busy_seconds=busy_seconds)
    return Looker(ledger, provider) if ledger.exists() else None
