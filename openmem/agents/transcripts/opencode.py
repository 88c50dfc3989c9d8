"""OpenCode: its database, the JSON files of before it, exports, and logs of its server's events.

Idea: in all four a session is messages with parts; a message's steps are put apart again, because
the model was sent each step's calls and then their results.
Kept: texts, reasoning, calls with their results, pictures that were given. Left out: what the
program marked as not for the model, snapshots, patches.
Trap: a child session is a sub-agent of the session at the top of those it works for, as in the
requests; one whose parent is gone is a session of its own. An export or a log holds a part only: a
parent that is not in it stands elsewhere. Two databases may stand side by side, and a session in
both database and files: it is read twice and stored once.
Source: database of 1.18.33, exports of 1.2.26, event logs of 1.2.20.
"""

from __future__ import annotations

import glob
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from openmem.agents.transcripts.files import file_source, files_below
from openmem.agents.transcripts.parts import call, image, result, said, thought
from openmem.agents.transcripts.values import seconds, table, tables, text
from openmem.context.formats.records import decoded, document, records
from openmem.context.rows import Block
from openmem.context.store.readonly import connect_for_reading
from openmem.context.transcript import Fault, Head, Item, Mark, Piece, Source

_DATABASE = b"SQLite format 3\0"
_NOT_RUN = ("pending", "running")
_NO_PART = "unreadable"  # no id of a session
Message = tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]


class OpenCode:
    """Reads OpenCode's sessions wherever they stand."""

    agent = "opencode"
    title = "OpenCode"

    def sources(self, environ: Mapping[str, str], home: str) -> Iterator[Source]:
        """Yield the sessions of the databases, then those of the files."""
        folder = environ.get("XDG_DATA_HOME", "") or f"{home}/.local/share"
        root = f"{folder}/opencode"
        for path in files_below(root, "opencode*.db"):
            source = file_source(self.agent, path)
            if source:
                yield from _sessions_of(path) if os.path.isfile(path) else [source]
        for path in files_below(root, "storage/session/*/ses_*.json"):
            source = file_source(self.agent, path)
            if source:
                yield _with_messages(source)

    def sources_in(self, path: str) -> list[Source] | None:
        """Return a database's sessions, None for any other file."""
        with open(path, "rb") as file:
            is_database = file.read(16) == _DATABASE
        if is_database:
            return [source for source in _sessions_of(path) if source.part != _NO_PART]
        if _storage_of(path):
            source = file_source(self.agent, path)
            return [_with_messages(source)] if source else []
        return None

    def knows(self, head: Head) -> bool:
        """Return whether an export, an event, or a session's file is at the beginning."""
        for value in head.values:
            if not isinstance(value, dict):
                continue
            if "messages" in value and table(value.get("info")).get("id"):
                return True
            if text(table(value.get("event")).get("type")) or _is_event(value):
                return True
            if text(value.get("id")).startswith("ses_") and "directory" in value:
                return True
        return False

    def read(self, source: Source, mark: Mark) -> Iterator[Item]:
        """Yield the messages; always from the beginning, because messages change inside."""
        if source.part:
            yield from _from_database(source)
        else:
            yield from _from_file(source)
        yield Mark()


def _is_event(value: Mapping[str, Any]) -> bool:
    kind = text(value.get("type"))
    return kind.startswith(("message.", "session.")) and "properties" in value


def _from_file(source: Source) -> Iterator[Item]:
    try:
        value = table(document(source.path))
    except ValueError:
        yield from _from_events(source)
        return
    storage = _storage_of(source.path)
    if "messages" in value:
        messages = [
            (table(one.get("info")), list(tables(one.get("parts"))))
            for one in tables(value["messages"])
        ]
        yield from _pieces(table(value.get("info")), messages)
    elif storage and text(value.get("id")):
        whole = _below_the_top(value, lambda name: _parent_in_files(storage, name))
        yield from _pieces(whole, _messages_of_files(storage, text(value.get("id"))))
    else:
        yield from _from_events(source)


# messages


def _parent_in(info: Mapping[str, Any]) -> str:
    """Return the session that a session says it works for, "" when none is named."""
    parent = text(info.get("parentID"))
    return parent if parent.startswith("ses_") else ""  # else it was taken out of the export


def _below_the_top(
    info: Mapping[str, Any], parent_of: Callable[[str], str | None]
) -> Mapping[str, Any]:
    """Return what a session says of itself, with the topmost session as the one it works for.

    `parent_of`: what a session works for, "" for one at the top, None for one that is gone.
    """
    top, above, seen = "", _parent_in(info), {text(info.get("id"))}
    while above:
        further = parent_of(above)
        if above in seen:
            top = ""  # a circle has no top: each is a session of its own
            break
        if further is None:
            break
        seen.add(above)
        top, above = above, further
    return {**info, "parentID": top}


def _pieces(info: Mapping[str, Any], messages: Iterable[Message]) -> Iterator[Piece]:
    """Yield what the messages say. `info`: of the session; its parent is the topmost one."""
    own, cwd = text(info.get("id")), text(info.get("directory"))
    top = _parent_in(info)
    session = top or own
    for about, parts in messages:
        role = text(about.get("role"))
        at = seconds(table(about.get("time")).get("created"))
        model = text(about.get("modelID")) or text(table(about.get("model")).get("modelID"))
        is_summary = about.get("summary") is True
        for blocks in _steps(role, parts):
            if blocks:
                yield Piece(
                    session=session or text(about.get("sessionID")),
                    agent_id=own if top else "",
                    blocks=tuple(blocks),
                    at=at,
                    cwd=cwd or text(table(about.get("path")).get("cwd")),
                    model=model,
                    sums_up=is_summary,
                )


def _steps(role: str, parts: Iterable[Mapping[str, Any]]) -> Iterator[list[Block]]:
    """Yield the blocks of a message's steps: what was said and called, then the results."""
    blocks: list[Block] = []
    results: list[Block] = []
    for part in parts:
        kind = part.get("type")
        if kind == "step-start":
            yield blocks + results
            blocks, results = [], []
        elif kind == "text" and not part.get("ignored"):
            blocks += said(role if role == "assistant" else "user", part.get("text"))
        elif kind == "reasoning":
            blocks += thought(part.get("text"))
        elif kind == "tool":
            name, state = text(part.get("tool")), table(part.get("state"))
            blocks.append(call(name, state.get("input") or {}))
            if state.get("status") not in _NOT_RUN:
                results += _result(name, state)
        elif kind == "file" and (found := image("user", part)) and found.payload is not None:
            blocks.append(found)
    yield blocks + results


def _result(name: str, state: Mapping[str, Any]) -> list[Block]:
    told = state.get("output") if state.get("status") == "completed" else state.get("error")
    media = [part for part in tables(state.get("attachments")) if image("tool", part)]
    return result(name, [told if told is not None else "", *media])


# the database


def _sessions_of(path: str) -> Iterator[Source]:
    """Yield a database's sessions.

    For one that cannot be read, or has other tables, one source whose reading says so.
    """
    unreadable = Source(agent="opencode", path=path, part=_NO_PART, modified_at=time.time())
    try:
        connection = connect_for_reading(path)
    except sqlite3.Error:
        yield unreadable
        return
    try:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return  # made a moment ago
        rows = connection.execute(
            "SELECT s.id, s.time_updated, count(p.id), coalesce(sum(length(p.data)), 0),"
            " coalesce(max(p.time_updated), 0), s.directory"
            " FROM session AS s LEFT JOIN part AS p ON p.session_id = s.id"
            " GROUP BY s.id ORDER BY s.time_created, s.id"
        ).fetchall()
    except sqlite3.Error:
        yield unreadable
        return
    finally:
        connection.close()
    for session, updated, count, size, part_updated, folder in rows:
        yield Source(
            agent="opencode",
            path=path,
            part=str(session),
            size=int(size),
            modified_at=seconds(max(updated or 0, part_updated or 0)),
            stamp=f"{updated}-{part_updated}-{count}-{size}",
            folder=text(folder),
        )


def _from_database(source: Source) -> Iterator[Item]:
    connection = connect_for_reading(source.path)
    try:
        row = connection.execute(
            "SELECT id, directory, parent_id FROM session WHERE id = ?", (source.part,)
        ).fetchone()
        if row is None:
            if source.part == _NO_PART:
                yield Fault(line=0, offset=0, why="it could not be read a moment ago")
            return
        stated = {"id": row[0], "directory": row[1], "parentID": row[2]}
        info = _below_the_top(stated, lambda name: _parent_in_database(connection, name))
        found = connection.execute(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
            (source.part,),
        ).fetchall()
        for number, (name, data) in enumerate(found, 1):
            values, problem = decoded(_bytes(data))
            if problem or not values:
                yield Fault(line=number, offset=0, why=f"message {name}: {problem or 'empty'}")
                continue
            parts: list[Mapping[str, Any]] = []
            for part_name, part_data in connection.execute(
                "SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (name,)
            ):
                part_values, problem = decoded(_bytes(part_data))
                if problem or not part_values:
                    yield Fault(line=number, offset=0, why=f"part {part_name}: {problem}")
                parts += tables(part_values)
            yield from _pieces(info, [(table(values[0]), parts)])
    finally:
        connection.close()


def _parent_in_database(connection: sqlite3.Connection, session: str) -> str | None:
    """Return what a session of the database works for, None when it is not there."""
    query = "SELECT parent_id FROM session WHERE id = ?"
    row = connection.execute(query, (session,)).fetchone()
    return None if row is None else _parent_in({"parentID": row[0]})


def _bytes(data: object) -> bytes:
    return data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")


# the files of before the database


def _storage_of(path: str) -> str:
    """Return the storage folder that a session's file stands in, "" for another file."""
    folder, _, rest = path.rpartition("/storage/session/")
    is_session = rest.count("/") == 1 and os.path.basename(path).startswith("ses_")
    return f"{folder}/storage" if folder and is_session else ""


def _with_messages(source: Source) -> Source:
    """Return a session's file with a stamp that its messages' and parts' folders change, too."""
    storage, session = _storage_of(source.path), os.path.basename(source.path)[:-5]
    newest, count = 0, 0
    for path in glob.iglob(f"{glob.escape(storage)}/message/{session}/*.json"):
        name = os.path.basename(path)[:-5]
        for place in (path, f"{storage}/part/{name}"):
            try:
                newest = max(newest, os.stat(place).st_mtime_ns)
            except OSError:
                continue  # a message without parts
            count += 1
    return Source(
        agent=source.agent,
        path=source.path,
        size=source.size,
        modified_at=max(source.modified_at, newest / 1e9),
        stamp=f"{source.stamp}-{count}-{newest}",
    )


def _parent_in_files(storage: str, session: str) -> str | None:
    """Return what the session of a file works for, None when there is no such file."""
    for path in glob.iglob(f"{glob.escape(storage)}/session/*/{glob.escape(session)}.json"):
        return _parent_in(_file(path))
    return None


def _messages_of_files(storage: str, session: str) -> Iterator[Message]:
    """Yield a session's messages with their parts; a file that is broken is left out."""
    for path in sorted(glob.glob(f"{glob.escape(storage)}/message/{session}/*.json")):
        about = _file(path)
        name = text(about.get("id")) or os.path.basename(path)[:-5]
        parts = sorted(glob.glob(f"{glob.escape(storage)}/part/{name}/*.json"))
        yield about, [_file(one) for one in parts]


def _file(path: str) -> Mapping[str, Any]:
    try:
        return table(document(path))
    except (OSError, ValueError):
        return {}  # half written; the next import reads it


# the server's events


def _from_events(source: Source) -> Iterator[Item]:
    """Yield what a log of events comes to: each part in its last state."""
    sessions: dict[str, dict[str, Any]] = {}
    messages: dict[str, dict[str, Any]] = {}
    parts: dict[str, dict[str, dict[str, Any]]] = {}
    with open(source.path, "rb") as file:
        for record in records(file):
            if record.problem:
                yield Fault(line=record.line, offset=record.start, why=record.problem)
                continue
            value = table(record.value)
            event = table(value.get("event")) or value
            told = table(event.get("properties"))
            info, part = table(told.get("info")), table(told.get("part"))
            kind = text(event.get("type"))
            if kind.startswith("session.") and text(info.get("id")):
                sessions[text(info.get("id"))] = dict(info)
            elif kind == "message.updated" and text(info.get("id")):
                about = sessions.setdefault(text(info.get("sessionID")), {})
                about.setdefault("directory", text(value.get("projectDirectory")))
                messages[text(info.get("id"))] = dict(info)
            elif kind == "message.part.updated" and text(part.get("id")):
                parts.setdefault(text(part.get("messageID")), {})[text(part["id"])] = dict(part)
            elif kind == "message.part.delta" and told.get("field") == "text":
                of_message = parts.get(text(told.get("messageID")), {})
                changed = of_message.get(text(told.get("partID")))
                if changed is not None:
                    changed["text"] = text(changed.get("text")) + text(told.get("delta"))
    for name, info in messages.items():
        session = text(info.get("sessionID"))
        of_session = _below_the_top(
            {**sessions.get(session, {}), "id": session},
            lambda above: _parent_in(sessions.get(above, {})),
        )
        yield from _pieces(of_session, [(info, list(parts.get(name, {}).values()))])
