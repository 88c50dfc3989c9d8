"""The recorder process with memory beside it: what a pointer may say of the turn it stands at.

Idea: the context half takes a function, the memory half has the answer, and this floor joins them;
only where the person switched `memory.at_trim` on is this module the recorder's. Invariant: policy
and settings of the session's folder are asked anew each time, and whatever goes wrong, the pointer
stands alone. Trap: it runs while a request waits, so the look-up has a bound.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable

from openmem.base.clock import now_text
from openmem.base.config import Config, load_config
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.context.proxy.recording import process
from openmem.context.session import read_registration
from openmem.memory.model import Actor
from openmem.memory.notes import keep_note, note_on, note_text
from openmem.memory.opening import open_to_read
from openmem.memory.scope import Scope, scope_of

SECONDS = 0.5
_BUSY_SECONDS = 0.2


class MemoryNotes:
    """`Notes` of the trim, out of memory."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def make(self, sid: str, said: str, is_held: Callable[[str], bool]) -> str:
        """Return the mark of a new note, "" where memory knows nothing or may not say it."""
        try:
            found = self._scope(sid) if said.strip() else None
            return self._made(found, said, is_held) if found else ""
        except (OpenmemError, OSError, sqlite3.Error) as error:
            _say(error)
            return ""

    def _made(self, found: tuple[Scope, Config], said: str, is_held: Callable[[str], bool]) -> str:
        scope, config = found
        memories = open_to_read(self._paths, config=config, busy_seconds=_BUSY_SECONDS)
        if memories is None:
            return ""
        try:
            lines = note_on(memories, scope, said, is_held=is_held, seconds=SECONDS)
        finally:
            memories.close()
        return keep_note(self._paths, scope.session_id, lines) if lines else ""

    def text(self, sid: str, mark: str) -> str:
        """Return a note as it is now, "" when it is gone or may not be said any more."""
        try:
            return note_text(self._paths, sid, mark) if self._scope(sid) else ""
        except (OpenmemError, OSError) as error:
            _say(error)
            return ""

    def _scope(self, sid: str) -> tuple[Scope, Config] | None:
        """Return where a session stands, None where nothing may be recalled."""
        registration = read_registration(self._paths, sid)
        if registration is None or not registration.cwd:
            return None
        actor = Actor(kind="agent", name=registration.agent)
        scope = scope_of(registration.cwd, self._paths, actor, session_id=sid)
        folder = scope.workspace.git_root or scope.workspace.folder
        config = load_config(self._paths.config_file, self._paths.environ, project_dir=folder)
        is_wanted = config.flag("memory.recall") and config.flag("memory.at_trim")
        return (scope, config) if is_wanted and scope.decision.recall else None


def _say(error: Exception) -> None:
    """Write that a pointer stands alone, to the log that the recorder writes to; no content."""
    name = error.code if isinstance(error, OpenmemError) else type(error).__name__
    sys.stderr.write(f"{now_text()} recorder: no note at a trim: {name}\n")
    sys.stderr.flush()


def main(descriptor: int) -> None:
    """Serve one proxy on an inherited socket until it ends."""
    process.main(descriptor, MemoryNotes)
