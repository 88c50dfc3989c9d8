"""Pi: `~/.pi/agent/sessions/--<folder>--/<time>_<id>.jsonl`, a head and then entries.

Kept: messages, commands that the person ran, messages of extensions; summaries of compactions and
of branches stand in the role of the system, because nobody said them.
Trap: later versions hold a tree in which a branch was left; its entries were said all the same, and
are taken in the order of the file. A session that was branched off begins with the other's entries.
Source: sessions of version 1; the vendor's page on the format for 2 and 3 (not seen live).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openmem.agents.transcripts.files import file_source, files_below, is_line_of
from openmem.agents.transcripts.lines import Reading, read_lines
from openmem.agents.transcripts.parts import call, image, result, said, thought
from openmem.agents.transcripts.values import items, seconds, table, text
from openmem.context.rows import Block
from openmem.context.transcript import Head, Item, Mark, Piece, Source


class Pi:
    """Reads Pi's sessions."""

    agent = "pi"
    title = "Pi"

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the sessions' files."""
        folder = environ.get("PI_CODING_AGENT_DIR", "") or f"{home}/.pi/agent"
        for path in files_below(f"{folder}/sessions", "**/*.jsonl"):
            source = file_source(self.agent, path)
            if source:
                yield source

    def sources_in(self, path: str) -> None:
        """Return None: only the beginning of a file tells."""

    def knows(self, head: Head) -> bool:
        """Return whether a head of a session, or messages of Pi's, are at the beginning."""
        return not head.is_document and any(
            (is_line_of(value, "session") and text(value.get("id")) and "cwd" in value)
            or (is_line_of(value, "message") and isinstance(value.get("message"), dict)
                and "sessionId" not in value and text(value["message"].get("role")))
            for value in head.values
        )  # fmt: skip

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Return the messages in the order of the file."""
        return read_lines(source.path, mark, _Reading(mark.state))


class _Reading(Reading):
    """One pass over a session; `_known` is what its head told, and goes with every piece."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._known = Piece(**table(state.get("known"))) if state else Piece(session="")

    def saved(self) -> dict[str, Any]:
        known = self._known
        return {"known": {"session": known.session, "cwd": known.cwd, "parent": known.parent}}

    def pieces_of(self, value: Mapping[str, Any]) -> Iterator[Piece]:
        if not is_line_of(value, "session"):
            yield from _pieces(self._known, value)
        elif not self._known.session:
            self._known = _head(value)


def _head(value: Mapping[str, Any]) -> Piece:
    before = text(value.get("branchedFrom")) or text(value.get("parentSession"))
    parent = before.rpartition("_")[2].removesuffix(".jsonl") if before else ""
    return Piece(session=text(value.get("id")), cwd=text(value.get("cwd")), parent=parent)


def _pieces(known: Piece, value: Mapping[str, Any]) -> Iterator[Piece]:
    kind, at = value.get("type"), seconds(value.get("timestamp"))
    if kind in ("compaction", "branch_summary"):
        blocks = tuple(said("system", value.get("summary")))
        yield known._replace(blocks=blocks, at=at, sums_up=kind == "compaction")
    elif kind == "custom_message":
        yield known._replace(blocks=tuple(_content("system", value.get("content"))), at=at)
    elif kind == "message":
        message = table(value.get("message"))
        at = at or seconds(message.get("timestamp"))
        model = text(message.get("model"))
        yield Piece(
            session=known.session,
            cwd=known.cwd,
            parent=known.parent,
            blocks=tuple(_blocks(message)),
            at=at,
            model=model,
        )


def _blocks(message: Mapping[str, Any]) -> list[Block]:
    role, content = message.get("role"), message.get("content")
    if role == "toolResult":
        return result(text(message.get("toolName")), content)
    if role == "bashExecution":
        return [
            call("bash", {"command": text(message.get("command"))}),
            *result("bash", text(message.get("output"))),
        ]
    return _content(role if role in ("user", "assistant") else "system", content)


def _content(role: str, content: object) -> list[Block]:
    if isinstance(content, str):
        return said(role, content)
    blocks: list[Block] = []
    for part in items(content):
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if kind == "text":
            blocks += said(role, part.get("text"))
        elif kind == "thinking":
            blocks += thought(part.get("thinking"))
        elif kind == "toolCall":
            blocks.append(call(text(part.get("name")), part.get("arguments")))
        elif found := image(role, part):
            blocks.append(found)
    return blocks
