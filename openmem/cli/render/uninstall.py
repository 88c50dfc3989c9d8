"""What stands around an uninstall: what is stored, what goes, what happens to open sessions."""

from __future__ import annotations

from openmem.base.counts import counted, size_text
from openmem.base.paths import Paths, display
from openmem.cli.render.plan import Entry
from openmem.host.lifecycle import Stopped
from openmem.setup.uninstall import Kept


def purged(kept: Kept, paths: Paths) -> list[Entry]:
    """Return the folders that go for good, with what is in them."""
    entries = []
    if kept.has_settings:
        name = display(paths.config_dir, paths.home) + "/"
        entries.append(Entry(mark="-", name=name, why="settings and policy"))
    if kept.has_state:
        name = display(paths.state_dir, paths.home) + "/"
        entries.append(Entry(mark="-", name=name, why=f"for good: {stored_text(kept)}"))
    return entries


def stored_text(kept: Kept) -> str:
    """Return `61 stored sessions, 214 MB`."""
    return f"{counted(kept.sessions, 'stored session')}, {size_text(kept.bytes)}"


def end_lines(stopped: Stopped, *, is_purge: bool) -> list[str]:
    """Return the last lines."""
    lines = []
    if stopped.state == "draining":
        who = counted(len(stopped.agents) or stopped.connections, "session")
        lines.append(f"The proxy passes requests through until {who} that still use it have ended.")
    elif is_purge and stopped.state == "ended":
        lines.append("The proxy has ended. Restart agents that were open.")
    lines.append("Uninstalled. The program itself:  pipx uninstall openmem-cli")
    return lines
