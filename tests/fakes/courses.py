"""Sessions in a store with a known course of model calls, written by the real recorder."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openmem.base.clock import utc_text
from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.formats.messages import split_request
from openmem.context.report.course import Call, Course, Mark
from openmem.context.report.timeline import SIGNS
from openmem.context.rows import ROLES
from openmem.context.session import Registration, write_registration
from openmem.context.store.model import Event, Incoming, ThreadKind
from openmem.context.store.recorder import Recorder

MODEL = "claude-opus-4-6"
BEGAN = 1_796_000_000.0  # 2026-11-30T00:53:20Z
ABOUT = {
    "session_id": "7f3a",
    "agent": "claude-code",
    "cwd": "/home/dev/site",
    "first_at": "2026-11-30T00:53:20Z",
    "last_at": "2026-11-30T01:53:20Z",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call to be recorded. `after`: seconds since the one before; `gone`: taken out by a trim
    of this very call."""

    prompt: int
    read: int = 0
    output: int = 100
    after: float = 10.0
    model: str = MODEL
    bust: str = ""
    trimmed: int = 0
    gone: int = 0
    kept: tuple[int, int] | None = None


def growing(count: int, by: int, *, first: int = 20_000, after: float = 10.0) -> list[Step]:
    """Return calls of a prompt that grows, each reading what the last one left."""
    steps: list[Step] = []
    for number in range(count):
        prompt = first + number * by
        steps.append(Step(prompt=prompt, read=prompt - by if number else 0, after=after))
    return steps


class Sessions:
    """A HOME with sessions in which each call opens a turn. `close()` before they are read."""

    def __init__(self, home: Path) -> None:
        self.paths = Paths({"HOME": str(home)})
        self._recorder = Recorder(self.paths, ensure_key(self.paths))
        self._said: list[tuple[str, str, int, float]] = []

    def record(
        self,
        sid: str,
        steps: Sequence[Step],
        *,
        cwd: str = "/home/dev/site",
        agent_id: str = "",
        began: float = BEGAN,
    ) -> str:
        """Record a thread's calls and return its id. `agent_id`: then it is a sub-agent's."""
        registration = Registration(
            session_id=sid,
            agent="claude-code",
            cwd=cwd,
            bank="",
            registered_at="2026-11-30T00:00:00Z",
        )
        write_registration(self.paths, registration)
        kind: ThreadKind = "sub-agent" if agent_id else "main"
        messages: list[dict[str, str]] = []
        thread = ""
        at = began
        for number, step in enumerate(steps or [Step(prompt=0)]):
            at += step.after
            messages.append({"role": "user", "content": f"turn {number} {agent_id}"})
            body = json.dumps({"model": step.model, "messages": messages}).encode()
            incoming = Incoming(
                agent="claude-code",
                view=split_request(body),
                kind=kind,
                agent_id=agent_id,
                registration=registration,
            )
            thread = self._recorder.record_request(sid, incoming).thread
            messages.append({"role": "assistant", "content": f"answer {number}"})
            self._said.append((sid, thread, number, at))
            if steps:
                self._add(sid, thread, step, at)
        return thread

    def fault(self, sid: str, at: float, words: str = "TooLate") -> None:
        """Record a fault of ours, which knows no thread."""
        self._recorder.add_event(
            sid,
            Event(
                kind="fail_open",
                version="v",
                at=utc_text(at),
                location="proxy/exchange.py:7",
                error=words,
            ),
        )

    def close(self) -> None:
        """Close the files, and date what was said as the calls are dated."""
        self._recorder.close()
        for sid, thread, number, at in self._said:
            path = f"{self.paths.sessions_dir}/{sid}.v4.db"
            with contextlib.closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(
                    "UPDATE row SET created_at = ? WHERE seq = (SELECT row.seq FROM row"
                    " JOIN thread ON thread.id = row.thread WHERE thread.fingerprint = ?"
                    " AND role = ? ORDER BY row.seq LIMIT 1 OFFSET ?)",
                    (int(at), bytes.fromhex(thread), ROLES.index("user"), number),
                )

    def _add(self, sid: str, thread: str, step: Step, at: float) -> None:
        if step.gone:
            self._recorder.add_event(
                sid,
                Event(
                    kind="trim",
                    version="v",
                    at=utc_text(at),
                    tokens_before=step.prompt + step.gone,
                    tokens_after=step.prompt,
                    dropped=31,
                    thread_root=thread,
                    error="soft",
                ),
            )
        kept, before = step.kept or (None, None)
        self._recorder.add_event(
            sid,
            Event(
                kind="usage",
                version="v",
                at=utc_text(at),
                model=step.model,
                thread_root=thread,
                trimmed=2 if step.gone else step.trimmed,
                input_tokens=0,
                cache_read_tokens=step.read,
                cache_creation_tokens=step.prompt - step.read,
                output_tokens=step.output,
                bust="trim" if step.gone else step.bust or None,
                prefix_kept=kept,
                prefix_bytes=before,
            ),
        )


def course(steps: Sequence[Step], *, turns: Sequence[int] | None = None) -> Course:
    """Return a course as it would be read. `turns`: numbers of the calls that open a turn."""
    found = Course(session_id="s", thread="t", kind="main")
    at = BEGAN
    removed = 0
    for number, step in enumerate(steps):
        at += step.after
        removed += step.gone
        found.calls.append(
            Call(
                at=at,
                model=step.model,
                read=step.read,
                written=step.prompt - step.read,
                output=step.output,
                removed=removed,
                trim=2 if step.gone else step.trimmed,
                bust="trim" if step.gone else step.bust,
                opens_turn=turns is None or number in turns,
            )
        )
    return found


def eventful() -> Course:
    """Return a thread in which everything happened once."""
    causes = [cause for cause in SIGNS if cause not in ("trim", "clearing", "fail_open")]
    steps = [Step(prompt=90_000, read=80_000, kept=(9, 10))]
    steps += [Step(prompt=91_000, read=4_000, bust=cause) for cause in causes]
    steps += [Step(prompt=30_000, read=9_000, gone=61_000), Step(prompt=31_000, trimmed=1)]
    found = course(steps)
    cut = len(steps) - 2
    found.marks += [
        Mark(
            call=2,
            at=BEGAN + 20,
            kind="clearing",
            before=120_000,
            after=91_000,
            dropped=17,
        ),
        Mark(call=1, at=BEGAN + 5, kind="fail_open", words="TooLate at proxy/exchange.py:7"),
        Mark(
            call=cut,
            at=BEGAN + 90,
            kind="trim",
            words="soft",
            before=91_000,
            after=30_000,
            dropped=41,
        ),
    ]
    return found
