"""The child that keeps a finished turn: reads the transcript where it stopped last time.

Idea: what was said since the cursor becomes passages of the workspace's bank. Invariant: the
cursor moves only after what was read is kept, and what is read twice is kept once. Policy is asked
again here: a person may have changed it since. Trap: a Stop hook runs before the last message is in
the file; the message in the hook's payload is waited for, and kept from there if it never comes.
Source: users' reports 18, 26, 27 and 33.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from openmem.agents.claude_code.transcript import read_transcript
from openmem.agents.codex.transcript import read_transcript as read_rollout
from openmem.agents.transcript import Cursor, Reading, Said
from openmem.base.config import Config, load_config
from openmem.base.errors import Failed, OpenmemError
from openmem.base.frame import without_own_text
from openmem.base.installation import ensure_key
from openmem.base.io import ensure_private_dir, locked, read_bytes_or_none, write_atomic
from openmem.base.paths import Paths
from openmem.hook.notes import note
from openmem.hook.remembering import HANDED_OVER
from openmem.memory.model import Actor, normalised
from openmem.memory.notes import sweep_notes
from openmem.memory.opening import open_memories
from openmem.memory.retain import Utterance, age_out, keep_said
from openmem.memory.scope import Scope, scope_of

LATE_SECONDS = 4.0
VECTOR_SECONDS = 120.0
KEEPER_SECONDS = 10.0
_POLL_SECONDS = 0.1
_FIRST_BYTES = 2 << 20  # of a session that began before openmem was there
_LOCK_SECONDS = 60.0
_DAY_SECONDS = 86_400

Readers = Callable[..., Reading]
READERS: dict[str, Readers] = {
    "claude-code": read_transcript,
    "codex": read_rollout,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the hook handed over. `last_message`: "" when there is none or it is long. `prompt`: of
    a turn that is handed over whole, by an agent without a transcript to read on."""

    sid: str
    agent: str
    folder: str
    transcript: str
    last_message: str = ""
    prompt: str = ""


def main() -> int:
    """Keep what stdin asks for; always returns 0, because nobody looks at it."""
    paths = Paths(os.environ)
    order = _order_of(sys.stdin.buffer.read())
    if order is None:
        note(paths, "keep", "", "stdin is not an order")
        return 0
    try:
        keep(order, paths)
    except (OpenmemError, OSError, sqlite3.Error) as error:
        name = error.code if isinstance(error, OpenmemError) else type(error).__name__
        if os.path.isdir(paths.state_dir):  # else openmem was removed meanwhile, and stays so
            note(paths, "keep", order.agent, f"not kept: {name}")  # the next turn tries again
    return 0


def keep(order: Order, paths: Paths, *, late_seconds: float = LATE_SECONDS) -> int:
    """Keep what was said since the last time and return how many passages are new."""
    if order.agent not in READERS and order.agent not in HANDED_OVER:
        return 0
    actor = Actor(kind="agent", name=order.agent)
    scope = scope_of(order.folder, paths, actor, session_id=order.sid)
    root = scope.workspace.git_root or scope.workspace.folder
    config = load_config(paths.config_file, paths.environ, project_dir=root)
    if not scope.decision.retain or not config.flag("memory.keep_turns"):
        return 0
    key = ensure_key(paths)
    folder = ensure_private_dir(cursors_of(paths))
    with locked(f"{folder}/{order.sid}.lock", timeout_seconds=_LOCK_SECONDS):
        cursor = read_cursor(paths, order.sid, order.transcript)
        reading, problem = _read(order, cursor, _digest_with(key), late_seconds)
        if problem:
            note(paths, "keep", order.agent, f"its transcript cannot be read: {problem}")
        # Asked again after the wait: the person may have said no, or removed openmem, meanwhile.
        scope = scope_of(order.folder, paths, actor, session_id=order.sid)
        if not scope.decision.retain:
            return 0
        memories = open_memories(paths, config=config)
        try:
            kept = keep_said(memories, scope, key, [_utterance(said) for said in reading.said])
            if memories.ledger.exists():
                memories.deliver()  # also what a command could not finish
            _age_out_daily(paths, lambda: age_out(memories, config.number("memory.passage_days")))
        finally:
            memories.close()
        write_cursor(paths, order.sid, order.transcript, reading.cursor)
    if config.flag("memory.draw_statements") and kept.kept:
        _draw(paths, config, scope, kept.after_row)
    if config.flag("memory.vectors"):
        _fill_vectors(paths, config, scope.bank)
    return kept.kept


def _draw(paths: Paths, config: Config, scope: Scope, after_row: int) -> None:
    """Let the person's model name what is worth remembering of the turn, if one is named."""
    from openmem.memory.drawing import draw_statements
    from openmem.memory.model_route import route_of
    from openmem.memory.spend import Budget

    memories = open_memories(paths, config=config)
    try:
        route = route_of(config, paths.environ, use="memory.draw_statements")
        if route is not None:
            budget = Budget(paths, config.number("memory.daily_tokens"))
            draw_statements(memories, scope, after_row=after_row, route=route, budget=budget)
    except OpenmemError as error:
        note(paths, "keep", scope.actor.name, f"no statements drawn: {error.code}")
    finally:
        memories.close()


def _fill_vectors(paths: Paths, config: Config, bank: str) -> None:
    """Make vectors for a while, one process at a time; the next turn goes on where this ends."""
    ends = time.monotonic() + VECTOR_SECONDS
    try:
        with locked(f"{paths.state_dir}/memory/vectors.lock", timeout_seconds=0.0):
            memories = open_memories(paths, config=config)
            try:
                memories.fill_vectors(bank, lambda: time.monotonic() < ends)
            finally:
                memories.close()
    except Failed as error:
        if error.code != "locked":
            raise


def _read(
    order: Order, cursor: Cursor, digest: Callable[[bytes], str], late_seconds: float
) -> tuple[Reading, str]:
    """Return what is new, and why the file was not read, "" when it was.

    The last message is in it, also when the file does not hold it yet or cannot be read.
    """
    if order.agent in HANDED_OVER:
        said = (
            Said(role="user", text=order.prompt),
            Said(role="assistant", text=order.last_message),
        )
        return Reading(cursor=cursor, said=[one for one in said if one.text.strip()]), ""
    reader = READERS[order.agent]
    deadline = time.monotonic() + late_seconds
    wanted = normalised(without_own_text(order.last_message))
    while True:
        problem = ""
        try:
            reading = reader(order.transcript, cursor, digest, newest_bytes=_FIRST_BYTES)
        except OSError as error:
            reading, problem = Reading(cursor=cursor), error.strerror or type(error).__name__
            if not isinstance(error, FileNotFoundError):  # which may be written yet
                deadline = 0.0
        if not wanted or any(_is_last(said, wanted) for said in reading.said):
            return reading, problem
        if time.monotonic() >= deadline:
            # When the file gets it later it says the same, and is known then.
            reading.said.append(Said(role="assistant", text=order.last_message))
            return reading, problem
        time.sleep(_POLL_SECONDS)


def _is_last(said: Said, wanted: str) -> bool:
    return said.role == "assistant" and normalised(said.text) == wanted


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z")


def _utterance(said: Said) -> Utterance:
    match = _TIME.fullmatch(said.at)
    return Utterance(role=said.role, text=said.text, at=f"{match[1]}Z" if match else "")


def _digest_with(key: bytes) -> Callable[[bytes], str]:
    """Return a keyed digest: the cursor's file must give nothing of the transcript away."""
    import hmac

    return lambda data: hmac.digest(key, b"cursor\0" + data, "sha256").hex()[:32]


def wait_for_keepers(paths: Paths, *, seconds: float = KEEPER_SECONDS) -> bool:
    """Wait until no child keeps a turn; False when one goes on longer than that."""
    deadline = time.monotonic() + seconds
    try:
        names = os.listdir(cursors_of(paths))
    except FileNotFoundError:
        return True  # no turn was ever kept
    for name in names:
        if name.endswith(".lock"):
            left = max(0.0, deadline - time.monotonic())
            try:
                with locked(f"{cursors_of(paths)}/{name}", timeout_seconds=left):
                    pass
            except Failed:
                return False
    return True


# cursors


def cursors_of(paths: Paths) -> str:
    return f"{paths.state_dir}/memory/cursors"


def read_cursor(paths: Paths, sid: str, transcript: str) -> Cursor:
    """Return how far a session's transcript was read; from the start if it is another file."""
    try:
        value = json.loads(read_bytes_or_none(f"{cursors_of(paths)}/{sid}.json") or b"null")
    except ValueError:
        return Cursor()  # damaged: what is read again is known
    if not isinstance(value, dict) or value.get("transcript") != transcript:
        return Cursor()
    offset, anchor = value.get("offset"), value.get("anchor")
    if not isinstance(offset, int) or offset < 0 or not isinstance(anchor, str):
        return Cursor()
    return Cursor(offset=offset, anchor=anchor)


def write_cursor(paths: Paths, sid: str, transcript: str, cursor: Cursor) -> None:
    """Write down how far a transcript was read. OSError."""
    value = {"transcript": transcript, "offset": cursor.offset, "anchor": cursor.anchor}
    write_atomic(f"{cursors_of(paths)}/{sid}.json", json.dumps(value).encode() + b"\n")


def _age_out_daily(paths: Paths, act: Callable[[], int]) -> None:
    """Do something once a day, over all sessions; and remove cursors that are long over."""
    folder = cursors_of(paths)
    mark = f"{folder}/.swept"
    now = time.time()
    try:
        if os.stat(mark).st_mtime > now - _DAY_SECONDS:
            return
    except FileNotFoundError:
        pass  # the first time
    act()
    sweep_notes(paths, now)
    for name in os.listdir(folder):
        path = f"{folder}/{name}"
        if name != ".swept" and os.stat(path).st_mtime < now - 90 * _DAY_SECONDS:
            os.unlink(path)
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(mark)


def _order_of(data: bytes) -> Order | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    names = ("sid", "agent", "folder", "transcript", "last_message", "prompt")
    texts = {name: value.get(name, "") for name in names}
    if not all(isinstance(text, str) for text in texts.values()) or not texts["sid"]:
        return None
    return Order(**texts)


if __name__ == "__main__":
    sys.exit(main())
