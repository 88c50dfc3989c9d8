"""What a session is told from memory, and what of it is kept: the seams of the memory half.

Idea: one function for each event, called alike by the warm worker and the stand-alone hook; the
keeping itself is done by a child that nobody waits for. Invariant: whatever goes wrong in memory,
the hook's own answer is given; one line in the log says what. Trap: this runs on every prompt;
what takes longer than a prompt may wait is cut off, and what is trivial opens no file.
Source: design section 8; issue 5, part 5.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from openmem.base.config import Config, load_config
from openmem.base.errors import OpenmemError, StoreUnavailable
from openmem.base.light import replace
from openmem.base.paths import Paths
from openmem.hook.notes import note

if TYPE_CHECKING:
    from openmem.hook.session import Session

START_SECONDS = 0.7
PROMPT_SECONDS = 0.3
_BUSY_SECONDS = 0.1
_LEAST_PROMPT = 8  # characters; "ok", "go on"
# A pipe takes this much before anybody reads; a longer last message is found in the transcript.
_MESSAGE_CHARACTERS = 12_000
# Their turns come with the order: a database that the agent writes to, or nothing at all, is there.
HANDED_OVER = ("opencode", "cursor")
_HANDED_BYTES = 14_000


def recall_text(event: str, session: Session, paths: Paths) -> str:
    """Return what memory has to say at an event, "" for nothing. Never raises what it can note."""
    if event == "prompt" and len(session.moment.prompt.strip()) < _LEAST_PROMPT:
        return ""
    if not os.path.exists(paths.ledger_file):
        return ""  # nothing was ever remembered: nothing more is loaded
    try:
        config = _config(session, paths)
        return _recall(event, session, paths, config) if config.flag("memory.recall") else ""
    except (OpenmemError, OSError) as error:
        # Fails open: a session without memories is better than one that does not start.
        note(paths, event, session.agent, f"no recall: {_name(error)}")
        return ""


def _recall(event: str, session: Session, paths: Paths, config: Config) -> str:
    import sqlite3  # loaded only where something is remembered

    from openmem.memory.model import Actor
    from openmem.memory.opening import open_to_read
    from openmem.memory.recall import at_prompt, at_start
    from openmem.memory.scope import scope_of
    from openmem.memory.shown import Shown, read_shown, write_shown

    memories = open_to_read(paths, config=config, busy_seconds=_BUSY_SECONDS)
    if memories is None:
        return ""
    try:
        actor = Actor(kind="agent", name=session.agent)
        scope = scope_of(session.workspace.folder, paths, actor, session_id=session.sid)
        shown = read_shown(paths, session.sid)
        if event == "session-start":
            is_resumed = session.moment.source == "resume"
            told = at_start(
                memories,
                scope,
                tokens=config.number("memory.start_tokens"),
                told=shown.start if is_resumed else (),
            )
            # After a compaction the context holds nothing of what was told before.
            now = replace(shown, start=told.shown) if is_resumed else Shown(start=told.shown)
        else:
            told = at_prompt(
                memories,
                scope,
                session.moment.prompt,
                hits=config.number("memory.prompt_hits"),
                told=shown.all_ids,
                seconds=PROMPT_SECONDS,
            )
            ids = tuple(memory_id for memory_id, _ in told.shown)
            now = replace(shown, ids=(*shown.ids, *ids))
    except sqlite3.Error as error:
        raise StoreUnavailable(f"memory cannot be read: {error}.") from error
    finally:
        memories.close()
    if now != shown:
        write_shown(paths, session.sid, now)
    return told.text


def hand_over(session: Session, paths: Paths, environ: Mapping[str, str]) -> None:
    """Start the child that keeps the turn that has just ended; returns at once."""
    try:
        config = _config(session, paths)
        if not config.flag("memory.keep_turns"):
            return
    except OpenmemError as error:
        note(paths, "stop", session.agent, f"not kept: {_name(error)}")
        return
    from openmem.hook.detached import start_detached

    message, prompt = session.moment.last_message, ""
    if session.agent in HANDED_OVER:
        message, prompt = _fitting(message), _fitting(session.moment.prompt)
    order = {
        "sid": session.sid,
        "agent": session.agent,
        "folder": session.workspace.folder,
        "transcript": session.moment.transcript_path,
        "last_message": message if len(message) <= _MESSAGE_CHARACTERS else "",
        "prompt": prompt,
    }
    try:
        start_detached("openmem.hook.keep", _encoded(order), paths.environ)
    except OSError as error:
        note(paths, "stop", session.agent, f"not kept: {os.strerror(error.errno or 0)}")
    except ValueError:
        note(paths, "stop", session.agent, "not kept: too much to hand over")


def _fitting(text: str) -> str:
    """Return as much of a text's beginning as two of them may take of the pipe, escaped."""
    return text.encode("utf-8", "replace")[:_HANDED_BYTES].decode("utf-8", "ignore")


def _encoded(order: Mapping[str, str]) -> bytes:
    return json.dumps(order, ensure_ascii=False).encode("utf-8", "replace")


def _config(session: Session, paths: Paths) -> Config:
    """Return the settings as the session's repository narrows them. InvalidConfig."""
    folder = session.workspace.git_root or session.workspace.folder
    return load_config(paths.config_file, paths.environ, project_dir=folder)


def _name(error: Exception) -> str:
    return error.code if isinstance(error, OpenmemError) else type(error).__name__
