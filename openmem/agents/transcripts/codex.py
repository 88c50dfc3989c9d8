"""Codex: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, one file a thread.

Kept: `response_item` lines, which are the items of its requests, and what a compaction kept in
place of the history. `event_msg` lines say the same over again for the screen.
Trap: a sub-agent has a file of its own and names the session it belongs to; a fork begins with the
other session's lines, its head included, so only the first head is the file's own. Files of 2025
have no envelope round their items. A line may hold the end of one run and the beginning of the
next.
Source: rollouts of 0.2x to 0.171.0 (docs/reference/transcripts.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openmem.agents.transcripts.files import file_source, files_below, is_line_of
from openmem.agents.transcripts.lines import Reading, read_lines
from openmem.agents.transcripts.values import ToolNames, seconds, table, tables, text
from openmem.context.formats.parts import text_blocks
from openmem.context.formats.responses import blocks_in
from openmem.context.formats.surroundings import COMPACTIONS, is_summary
from openmem.context.formats.view import texts_of
from openmem.context.rows import Block
from openmem.context.transcript import Head, Item, Mark, Piece, Source

_ENVELOPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted",
              "world_state")  # fmt: skip
_BARE_ITEMS = ("message", "reasoning", "function_call", "function_call_output",
               "custom_tool_call", "custom_tool_call_output", "local_shell_call")  # fmt: skip


class Codex:
    """Reads Codex's rollouts."""

    agent = "codex"
    title = "Codex"

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the rollouts, the oldest first: a fork comes after what it went on from."""
        folder = environ.get("CODEX_HOME", "") or f"{home}/.codex"
        for name in ("sessions", "archived_sessions"):
            for path in files_below(f"{folder}/{name}", "**/*.jsonl"):
                source = file_source(self.agent, path)
                if source:
                    yield source

    def sources_in(self, path: str) -> None:
        """Return None: only the beginning of a file tells."""

    def knows(self, head: Head) -> bool:
        """Return whether a rollout's lines are at the beginning."""
        if head.is_document:
            return False
        return any(
            isinstance(value, dict)
            and (
                (is_line_of(value, *_ENVELOPES) and isinstance(value.get("payload"), dict))
                or (is_line_of(value, *_BARE_ITEMS) and "message" not in value and "role" in value)
                or (value.get("record_type") == "state")
            )
            for value in head.values
        )

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Return the items in the order of the requests."""
        return read_lines(source.path, mark, _Reading(mark.state))


class _Reading(Reading):
    """One pass over a rollout; `_known` is what its head told, and goes with every piece."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._names = ToolNames()
        self._names.update(table(state.get("names")))
        self._known = (
            Piece(**table(state.get("known"))) if state.get("known") else Piece(session="")
        )

    def saved(self) -> dict[str, Any]:
        """Return what a later reading has to know."""
        known = self._known
        told = {
            "session": known.session,
            "agent_id": known.agent_id,
            "cwd": known.cwd,
            "model": known.model,
            "parent": known.parent,
        }
        return {"names": self._names.saved(), "known": told}

    def pieces_of(self, value: Mapping[str, Any]) -> Iterator[Piece]:
        kind, payload = text(value.get("type")), value.get("payload")
        at = seconds(value.get("timestamp"))
        if isinstance(payload, dict):
            if kind == "session_meta":
                self._introduce(payload)
            elif kind == "turn_context":
                self._turn(payload)
            elif kind == "response_item":
                blocks = tuple(blocks_in(payload, self._names))
                if blocks:
                    yield self._said(blocks, at)
            elif kind == "compacted":
                kept = tuple(self._kept_by(payload))
                yield self._said(kept, at)._replace(sums_up=True)
        elif kind in _BARE_ITEMS:
            yield self._said(tuple(blocks_in(value, self._names)), at)
        elif not kind and text(value.get("id")) and "timestamp" in value:
            self._introduce(value)

    def _introduce(self, meta: Mapping[str, Any]) -> None:
        """Take a session's head; only the first one is the file's own."""
        if self._known.session:
            return
        own = text(meta.get("id"))
        spawned = table(table(table(meta.get("source")).get("subagent")).get("thread_spawn"))
        session = text(meta.get("session_id")) or text(spawned.get("parent_thread_id")) or own
        is_helper = session != own or meta.get("thread_source") == "subagent"
        self._known = Piece(
            session=session,
            agent_id=own if is_helper else "",
            cwd=text(meta.get("cwd")),
            parent=text(meta.get("forked_from_id")),
        )

    def _turn(self, context: Mapping[str, Any]) -> None:
        model, cwd = text(context.get("model")), text(context.get("cwd"))
        known = self._known
        self._known = known._replace(model=model or known.model, cwd=known.cwd or cwd)

    def _said(self, blocks: tuple[Block, ...], at: float) -> Piece:
        known = self._known
        return Piece(
            session=known.session,
            agent_id=known.agent_id,
            cwd=known.cwd,
            model=known.model,
            parent=known.parent,
            blocks=blocks,
            at=at,
        )

    def _kept_by(self, payload: Mapping[str, Any]) -> Iterator[Block]:
        """Yield what a compaction says that was not said before: the prompts it keeps were."""
        history = payload.get("replacement_history")
        found = False
        for item in tables(history):
            is_sum = item.get("role") == "user" and any(
                is_summary(one) for one in texts_of(item.get("content"))
            )
            if is_sum or item.get("type") in COMPACTIONS:
                found = True
                yield from blocks_in(item, self._names)
        if not found:
            yield from text_blocks("user", text(payload.get("message")))
