"""Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, earlier `<session>.jsonl`.

Kept: what the person typed (as typed, not as the program dressed it), answers, calls and their
results. Left out: the system prompt, hooks and turns, which say nothing of their own.
Trap: a call stands in the answer and again when it is run; the answer's counts.
Source: event logs of 1.0.64 and 1.0.68; sub-agents and compactions by the names of their events
(not seen live).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openmem.agents.transcripts.files import file_source, files_below
from openmem.agents.transcripts.lines import Reading, read_lines
from openmem.agents.transcripts.parts import call, image, result, said, thought
from openmem.agents.transcripts.values import ToolNames, seconds, table, tables, text
from openmem.context.rows import Block
from openmem.context.transcript import Head, Item, Mark, Piece, Source

_FAMILIES = ("session.", "user.", "assistant.", "tool.", "system.", "hook.", "subagent.")


class CopilotCli:
    """Reads the event logs of GitHub Copilot CLI."""

    agent = "copilot-cli"
    title = "Copilot CLI"

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the sessions' files."""
        folder = environ.get("COPILOT_HOME", "") or f"{home}/.copilot"
        for pattern in (
            "session-state/*/events.jsonl",
            "session-state/*.jsonl",
            "history-session-state/*.jsonl",
        ):
            for path in files_below(folder, pattern):
                source = file_source(self.agent, path)
                if source:
                    yield source

    def sources_in(self, path: str) -> None:
        """Return None: only the beginning of a file tells."""

    def knows(self, head: Head) -> bool:
        """Return whether events of this agent are at the beginning."""
        return not head.is_document and any(
            isinstance(value, dict)
            and text(value.get("type")).startswith(_FAMILIES)
            and isinstance(value.get("data"), dict)
            for value in head.values
        )

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Return the events that say something, in order."""
        return read_lines(source.path, mark, _Reading(mark.state))


class _Reading(Reading):
    """One pass over an event log."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._names = ToolNames()
        self._names.update(table(state.get("names")))
        self._known = (
            Piece(**table(state.get("known"))) if state.get("known") else Piece(session="")
        )

    def saved(self) -> dict[str, Any]:
        """Return what a later reading has to know."""
        known = self._known
        told = {"session": known.session, "cwd": known.cwd, "model": known.model}
        return {"names": self._names.saved(), "known": told}

    def pieces_of(self, value: Mapping[str, Any]) -> Iterator[Piece]:
        kind, data = text(value.get("type")), table(value.get("data"))
        if kind in ("session.start", "session.resume"):
            self._introduce(data)
            return
        if kind == "session.model_change":
            self._known = self._known._replace(model=text(data.get("newModel")))
            return
        blocks = self._blocks(kind, data)
        if blocks:
            yield self._known._replace(
                blocks=tuple(blocks),
                at=seconds(value.get("timestamp")),
                agent_id=text(data.get("parentToolCallId")),
                model=text(data.get("model")) or self._known.model,
                sums_up=kind.startswith("session.compaction"),
            )

    def _introduce(self, data: Mapping[str, Any]) -> None:
        known, context = self._known, table(data.get("context"))
        self._known = Piece(
            session=known.session or text(data.get("sessionId")),
            cwd=known.cwd or text(context.get("cwd")),
            model=text(data.get("selectedModel")) or known.model,
        )

    def _blocks(self, kind: str, data: Mapping[str, Any]) -> list[Block]:
        if kind == "user.message":
            media = (image("user", part) for part in tables(data.get("attachments")))
            return [*said("user", data.get("content")), *(found for found in media if found)]
        if kind == "assistant.message":
            blocks = thought(data.get("reasoningText")) + said("assistant", data.get("content"))
            for request in tables(data.get("toolRequests")):
                name = text(request.get("name"))
                self._names[text(request.get("toolCallId"))] = name
                blocks.append(call(name, request.get("arguments")))
            return blocks
        if kind == "tool.execution_complete":
            return self._result(data)
        if kind == "session.compaction_complete":
            return said("system", data.get("summaryContent"))
        return []

    def _result(self, data: Mapping[str, Any]) -> list[Block]:
        name = self._names.get(text(data.get("toolCallId")), "")
        found = table(data.get("result"))
        value = found.get("content")
        if value is None:
            value = text(table(data.get("error")).get("message")) or data.get("error")
        return result(name, value if value is not None else "")
