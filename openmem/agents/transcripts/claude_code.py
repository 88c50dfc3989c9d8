"""Claude Code: `projects/<folder>/<session>.jsonl`, and `<session>/subagents/agent-*.jsonl`.

Kept: lines of the two kinds in which people and models speak, and prompts that were queued. All
other kinds (progress, attachments, snapshots, whole requests) say nothing of their own; the API's
error messages are the program's.
Idea: an answer stands on several lines, one for each block, and results of calls that ran at once
come between them; the request has all of the answer first. So results wait until the answer ends.
Trap: the session is the line's, not the file's: a resumed session of older versions begins with
the other session's lines. Sub-agents of older versions have no id; the first line of each has no
parent, and the others lead back to it. Equal lines are written twice; equal ids are not enough to
tell, because other kinds of lines reuse them.
Source: transcripts of 2.0 to 2.1.332; facts about reported faults in docs/reference/transcripts.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from openmem.agents.transcripts.files import file_source, files_below, is_line_of
from openmem.agents.transcripts.lines import Reading, read_lines
from openmem.agents.transcripts.values import ToolNames, items, seconds, table, tables, text
from openmem.context.formats.messages import blocks_in
from openmem.context.formats.parts import text_blocks
from openmem.context.rows import Block
from openmem.context.transcript import Head, Item, Mark, Piece, Source

_SPOKEN = ("user", "assistant")
_LINES_REMEMBERED = 20_000
_PARENTS_REMEMBERED, _ROOTS_SAVED = 50_000, 500
_CAVEAT, _COMMAND = "<local-command-caveat>", "<command-name>"
_OWN = ("<task-notification>", _CAVEAT, "<local-command-stdout>", "<local-command-stderr>")


class ClaudeCode:
    """Reads Claude Code's transcripts."""

    agent = "claude-code"
    title = "Claude Code"

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the sessions' files; main files before their sub-agents'."""
        folder = environ.get("CLAUDE_CONFIG_DIR", "") or f"{home}/.claude"
        root = f"{folder}/projects"
        for pattern in ("*/*.jsonl", "*/*/subagents/**/*.jsonl"):
            for path in files_below(root, pattern):
                source = file_source(self.agent, path)
                if source:
                    project = path.removeprefix(f"{root}/").partition("/")[0]
                    yield replace(source, group=project)

    def sources_in(self, path: str) -> None:
        """Return None: only the beginning of a file tells."""

    def knows(self, head: Head) -> bool:
        """Return whether lines of ours are at the beginning."""
        return any(
            text(value.get("sessionId"))
            and not _is_of_another(value)
            and (text(value.get("type")) in _SPOKEN or "uuid" in value or "leafUuid" in value
                 or is_line_of(value, "queue-operation", "progress", "mode", "last-prompt"))
            for value in head.values
            if isinstance(value, dict)
        ) or any(
            is_line_of(value, "summary", "file-history-snapshot") for value in head.values
        )  # fmt: skip

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Return what was said, thread by thread, in the order of the requests."""
        return read_lines(source.path, mark, _Reading(mark.state))


def _is_of_another(value: Mapping[str, Any]) -> bool:
    """Return whether a line is of iFlow, whose records look alike."""
    return text(value.get("sessionId")).startswith("session-")


class _Thread:
    """What is waiting in one thread: results that came before their answer was whole."""

    __slots__ = ("answer", "held")

    def __init__(self) -> None:
        self.answer = ""
        self.held: list[Piece] = []


class _Reading(Reading):
    """One pass over a file."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._names = ToolNames()
        self._names.update(table(state.get("names")))
        self._threads: dict[tuple[str, str], _Thread] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._roots: OrderedDict[str, str] = OrderedDict()
        self._is_local = False
        self._roots.update(table(state.get("roots")))
        for session, agent_id, answer in items(state.get("answers")):
            self._thread(session, agent_id).answer = answer

    @property
    def is_between(self) -> bool:
        return not any(thread.held for thread in self._threads.values())

    def saved(self) -> dict[str, Any]:
        """Return what a later reading has to know."""
        answers = [[*key, thread.answer] for key, thread in self._threads.items() if thread.answer]
        roots = dict(list(self._roots.items())[-_ROOTS_SAVED:])
        return {"names": self._names.saved(), "roots": roots, "answers": answers}

    def _thread(self, session: str, agent_id: str) -> _Thread:
        return self._threads.setdefault((session, agent_id), _Thread())

    def pieces_of(self, value: Mapping[str, Any]) -> Iterator[Piece]:
        kind = value.get("type")
        if kind == "attachment":
            yield from self._attached(value)
            return
        message = value.get("message")
        if kind not in _SPOKEN or not isinstance(message, dict) or value.get("isApiErrorMessage"):
            return
        blocks = tuple(map(self._whose, blocks_in(message, self._names)))
        if self._is_repeated(value, blocks):
            return
        piece = _piece(value, message, self._agent_id(value), blocks)
        thread = self._thread(piece.session, piece.agent_id)
        if kind == "assistant":
            answer = text(message.get("id"))
            if not answer or answer != thread.answer:
                yield from _released(thread)
            thread.answer = answer
            yield piece
        elif value.get("isCompactSummary"):
            yield from _released(thread)
            yield piece._replace(begins_anew=True)
        elif thread.answer and _is_result(message):
            thread.held.append(piece)
        else:
            yield from _released(thread)
            yield piece

    def _whose(self, block: Block) -> Block:
        """Return a block in the role of who said it.

        Notices of background tasks, and commands that the program ran by itself, are not sent as
        the person's words; what a command expands to is. Observed with 2.1.332.
        """
        if block.role != "user" or block.kind != "text":
            return block
        is_own = block.text.startswith(_OWN)
        if is_own or (self._is_local and block.text.startswith(_COMMAND)):
            self._is_local = is_own and block.text.startswith(_CAVEAT)
            return Block(role="system", kind="text", text=block.text)
        self._is_local = False
        return block

    def rest(self) -> Iterator[Piece]:
        """Yield what is waiting at the end of the file."""
        for thread in self._threads.values():
            yield from _released(thread)

    def _attached(self, value: Mapping[str, Any]) -> Iterator[Piece]:
        """Yield a prompt that the person typed while the agent worked."""
        attachment = table(value.get("attachment"))
        if attachment.get("type") != "queued_command":
            return
        said: list[Block] = []
        for rendered in tables(value.get("rendered")):
            said += text_blocks("user", text(rendered.get("content")))
        prompt = attachment.get("prompt")
        if not said and isinstance(prompt, str):
            said = text_blocks("user", prompt)
        for part in tables(prompt) if not said else ():
            said += text_blocks("user", text(part.get("text")))
        blocks = tuple(map(self._whose, said))
        if blocks and not self._is_repeated(value, blocks):
            piece = _piece(value, {}, self._agent_id(value), blocks)
            thread = self._thread(piece.session, piece.agent_id)
            if thread.held:
                thread.held.append(piece)
            else:
                yield piece

    def _is_repeated(self, value: Mapping[str, Any], said: tuple[Block, ...]) -> bool:
        """Return whether the same line was there before; some are written twice."""
        name = text(value.get("uuid"))
        if not name:
            return False
        key = hash((name, *((block.role, block.kind, block.text, block.payload) for block in said)))
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > _LINES_REMEMBERED:
            self._seen.popitem(last=False)
        return False

    def _agent_id(self, value: Mapping[str, Any]) -> str:
        """Return the sub-agent's id; of older versions that give none, its first line's."""
        stated = text(value.get("agentId"))
        if stated or not value.get("isSidechain"):
            return stated
        name, parent = text(value.get("uuid")), text(value.get("parentUuid"))
        root = self._roots.get(parent, "") or parent or name
        if name:
            self._roots[name] = root
            if len(self._roots) > _PARENTS_REMEMBERED:
                self._roots.popitem(last=False)
        return root


def _released(thread: _Thread) -> Iterator[Piece]:
    held, thread.held, thread.answer = thread.held, [], ""
    yield from held


def _is_result(message: Mapping[str, Any]) -> bool:
    return any(
        text(part.get("type")).endswith("tool_result") for part in tables(message.get("content"))
    )


def _piece(
    value: Mapping[str, Any],
    message: Mapping[str, Any],
    agent_id: str,
    blocks: tuple[Block, ...],
) -> Piece:
    forked = value.get("forkedFrom")
    return Piece(
        session=text(value.get("sessionId")),
        agent_id=agent_id,
        at=seconds(value.get("timestamp")),
        cwd=text(value.get("cwd")),
        parent=text(forked.get("sessionId")) if isinstance(forked, dict) else "",
        model=text(message.get("model")),
        blocks=blocks,
    )
