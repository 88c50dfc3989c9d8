"""The readers by agent, and which of them a file on disk is for.

Formats that are known and have no reader are named, so that a person is told what was left.
"""

from __future__ import annotations

from collections.abc import Mapping

from openmem.agents.transcripts.claude_code import ClaudeCode
from openmem.agents.transcripts.codex import Codex
from openmem.agents.transcripts.copilot_cli import CopilotCli
from openmem.agents.transcripts.gemini_cli import GeminiCli
from openmem.agents.transcripts.opencode import OpenCode
from openmem.agents.transcripts.pi import Pi
from openmem.agents.transcripts.values import tables, text
from openmem.context.transcript import Head, Reader

READERS: Mapping[str, Reader] = {
    reader.agent: reader
    for reader in (ClaudeCode(), Codex(), OpenCode(), GeminiCli(), CopilotCli(), Pi())
}


def reader_for(head: Head) -> Reader | None:
    """Return the reader that knows a file by its beginning, None when none does."""
    return next((reader for reader in READERS.values() if reader.knows(head)), None)


def unread_format(head: Head) -> str:
    """Return the name of a format that is known and has no reader, else ""."""
    for value in tables(list(head.values)):
        if text(value.get("sessionId")).startswith("session-") and "message" in value:
            return "iFlow"
        if "trajectory" in value:
            return "SWE-agent"
    return ""
