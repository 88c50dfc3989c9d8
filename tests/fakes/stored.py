"""A machine with sessions in its store, written by the real recorder from real request bodies."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from openmem.base.installation import ensure_key
from openmem.base.paths import Paths
from openmem.context.formats.messages import split_request
from openmem.context.session import Registration, write_registration
from openmem.context.store.model import Incoming, Recorded
from openmem.context.store.recorder import Recorder

Message = dict[str, object]
POLICY = """version = 1
[defaults.git]
store = true
recall = true
retain = true
"""


def said(text: str) -> Message:
    return {"role": "user", "content": text}


def answered(text: str) -> Message:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def called(name: str, given: Message, result: object, *, id: str = "toolu_1") -> list[Message]:
    """Return the two messages of a tool call and its result."""
    return [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": id, "name": name, "input": given}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": result}],
        },
    ]


class Machine:
    """A HOME with a policy, repositories below it, and what was recorded there."""

    def __init__(self, home: Path, *, policy: str = POLICY) -> None:
        self.home = home
        self.paths = Paths({"HOME": str(home)})
        self.write_policy(policy)
        self._recorder = Recorder(self.paths, ensure_key(self.paths))

    def write_policy(self, text: str) -> None:
        path = Path(self.paths.policy_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def repository(self, name: str) -> Path:
        folder = self.home / name
        folder.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True, stdin=subprocess.DEVNULL)
        return folder

    def record(
        self, sid: str, folder: Path | None, messages: Sequence[Message], *, agent: str = "test"
    ) -> Recorded:
        """Record one request of a session; `folder` None leaves it unregistered."""
        registration = None
        if folder is not None:
            registration = Registration(
                session_id=sid,
                agent=agent,
                cwd=str(folder),
                bank="",
                registered_at="2026-11-30T10:00:00Z",
            )
            write_registration(self.paths, registration)
        body = json.dumps({"model": "m", "messages": list(messages)}).encode()
        incoming = Incoming(agent=agent, view=split_request(body), registration=registration)
        return self._recorder.record_request(sid, incoming)

    def close(self) -> None:
        self._recorder.close()
