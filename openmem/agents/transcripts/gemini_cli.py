"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.json`, later `.jsonl`; sub-agents below.

Kept: what the person and the model said, calls with their results, thoughts. Left out: what the
program tells on the screen (info, warning, error).
Trap: the file is one document, written anew each time, in later versions a line a change: a message
comes again under its id, `$set` replaces what the head told, `$rewindTo` takes messages back. The
project is a digest of its folder, not its name; the folder is found where another file tells it.
Source: a session of January 2026; the open source's types for the later form (not seen live).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from openmem.agents.transcripts.files import file_source, files_below
from openmem.agents.transcripts.parts import call, image, result, said, thought
from openmem.agents.transcripts.values import items, seconds, table, tables, text
from openmem.context.formats.records import document, records
from openmem.context.rows import Block
from openmem.context.transcript import Fault, Head, Item, Mark, Piece, Source

_LIMIT_BYTES = 4 << 20


class GeminiCli:
    """Reads Gemini CLI's chats."""

    agent = "gemini-cli"
    title = "Gemini CLI"

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the chats' files, each with its project's folder where that is known."""
        root = f"{environ.get('GEMINI_CLI_HOME', '') or home}/.gemini"
        folders = _folders(root)
        for path in files_below(f"{root}/tmp", "*/chats/**/*.json*"):
            if os.path.isfile(path) and not path.endswith((".json", ".jsonl")):
                continue
            project = path.removeprefix(f"{root}/tmp/").partition("/")[0]
            folder = _told(f"{root}/tmp/{project}/.project_root") or folders.get(project, "")
            source = file_source(self.agent, path, folder=folder)
            if source:
                yield source

    def sources_in(self, path: str) -> None:
        """Return None: only the beginning of a file tells."""

    def knows(self, head: Head) -> bool:
        """Return whether a chat's head is at the beginning."""
        return any(
            isinstance(value, dict)
            and "projectHash" in value
            and text(value.get("sessionId"))
            for value in head.values
        )  # fmt: skip

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Yield the messages; always from the beginning, because the file changes inside."""
        try:
            meta, messages = _chat(document(source.path))
        except ValueError as error:
            meta, messages = {}, []
            with open(source.path, "rb") as file:
                yield from _lines(file, meta, messages)
            if not meta:
                yield Fault(line=0, offset=0, why=str(error))
        session = text(meta.get("sessionId"))
        is_helper = meta.get("kind") == "subagent"
        parent = os.path.basename(os.path.dirname(source.path))
        known = Piece(
            session=parent if is_helper and parent != "chats" else session,
            agent_id=session if is_helper else "",
            cwd=source.folder or text(next(iter(items(meta.get("directories"))), "")),
        )
        for message in messages:
            blocks = tuple(_blocks(message))
            if blocks:
                yield Piece(
                    session=known.session,
                    agent_id=known.agent_id,
                    cwd=known.cwd,
                    blocks=blocks,
                    at=seconds(message.get("timestamp")),
                    model=text(message.get("model")),
                )
        yield Mark()


def _folders(root: str) -> dict[str, str]:
    """Return project → folder, of the folders that the agent's own files name."""
    found: dict[str, str] = {}
    named = list(_json(f"{root}/trustedFolders.json"))
    projects = _json(f"{root}/projects.json").get("projects")
    for folder, short in table(projects).items():
        named.append(folder)
        found[text(short)] = folder
    for folder in named:
        found[hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest()] = folder
    return found


def _json(path: str) -> Mapping[str, Any]:
    try:
        return table(json.loads(_told(path) or "{}"))
    except ValueError:
        return {}  # the agent's own file, half written: the folders stay unknown this time


def _told(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LIMIT_BYTES).strip()
    except OSError:
        return ""  # an older version, which keeps no such file


def _chat(value: Any) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    meta = table(value)
    if "messages" not in meta:
        raise ValueError("a chat without messages")
    return dict(meta), list(tables(meta["messages"]))


def _lines(file: Any, meta: dict[str, Any], messages: list[Mapping[str, Any]]) -> Iterator[Fault]:
    """Fill head and messages from a file of changes; yield what cannot be read.

    What was taken back was said all the same, and stays.
    """
    places: dict[str, int] = {}
    for record in records(file):
        value = table(record.value)
        if record.problem:
            yield Fault(line=record.line, offset=record.start, why=record.problem)
        elif "$set" in value:
            changes = dict(table(value["$set"]))
            for message in tables(changes.pop("messages", None)):
                _put(message, messages, places)
            meta.update(changes)
        elif "projectHash" in value:
            meta.update(value)
        elif text(value.get("id")) and "$rewindTo" not in value:
            _put(value, messages, places)


def _put(
    message: Mapping[str, Any], messages: list[Mapping[str, Any]], places: dict[str, int]
) -> None:
    """Add a message, or put it in the place of its earlier state."""
    name = text(message.get("id"))
    if name in places:
        messages[places[name]] = message
    else:
        places[name] = len(messages)
        messages.append(message)


def _blocks(message: Mapping[str, Any]) -> list[Block]:
    kind = message.get("type")
    if kind == "user":
        return _content("user", message.get("content"))
    if kind != "gemini":
        return []
    blocks: list[Block] = []
    for each in tables(message.get("thoughts")):
        words = (text(each.get("subject")), text(each.get("description")))
        blocks += thought("\n".join(word for word in words if word))
    blocks += _content("assistant", message.get("content"))
    calls = list(tables(message.get("toolCalls")))
    blocks += [call(text(one.get("name")), one.get("args")) for one in calls]
    for one in calls:
        blocks += _result(one)
    return blocks


def _content(role: str, content: object) -> list[Block]:
    blocks: list[Block] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            blocks += said(role, part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            blocks += said(role, part["text"])
        elif isinstance(part, dict) and (found := image(role, part)):
            blocks.append(found)
    return blocks


def _result(one: Mapping[str, Any]) -> list[Block]:
    """Return a call's result; none for one that was not run."""
    name = text(one.get("name"))
    parts = one.get("result")
    if parts is None:
        return []
    answers: list[object] = []
    for part in parts if isinstance(parts, list) else [parts]:
        answer = table(table(part).get("functionResponse")).get("response")
        if answer is None:
            answers.append(part)
            continue
        output = table(answer).get("output")
        answers.append(output if isinstance(output, str) else answer)
    return result(name, answers)
