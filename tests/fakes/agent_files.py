"""Sessions as agents write them to disk, one small builder for each agent's form."""

from __future__ import annotations

import json
import sqlite3
from itertools import count
from pathlib import Path
from typing import Any

Json = dict[str, Any]
AT = "2026-09-0{day}T10:00:{second:02d}.500Z"


def lines(*values: Json) -> bytes:
    """Return records, one a line."""
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class ClaudeFile:
    """Lines of one session of Claude Code, each with its own id and time."""

    def __init__(self, sid: str, cwd: str, *, agent_id: str = "") -> None:
        self.sid, self.cwd, self.agent_id = sid, cwd, agent_id
        self._numbers = count(1)

    def line(self, kind: str, **rest: Any) -> Json:
        number = next(self._numbers)
        value: Json = {
            "type": kind,
            "uuid": f"{self.sid[:8]}-{self.agent_id}-{number}",
            "parentUuid": f"{self.sid[:8]}-{self.agent_id}-{number - 1}" if number > 1 else None,
            "sessionId": self.sid,
            "cwd": self.cwd,
            "timestamp": AT.format(day=1, second=number % 60),
            "isSidechain": bool(self.agent_id),
            **rest,
        }
        if self.agent_id:
            value["agentId"] = self.agent_id
        return value

    def user(self, text: str, **rest: Any) -> Json:
        return self.line("user", message={"role": "user", "content": text}, **rest)

    def says(self, text: str, *, answer: str = "") -> Json:
        return self.answer({"type": "text", "text": text}, answer=answer)

    def answer(self, block: Json, *, answer: str = "") -> Json:
        message = {"role": "assistant", "content": [block], "model": "claude-opus-5-5"}
        if answer:
            message["id"] = answer
        return self.line("assistant", message=message)

    def call(self, id: str, command: str, *, answer: str = "") -> Json:
        given = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}
        return self.answer(given, answer=answer)

    def result(self, id: str, content: object) -> Json:
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        return self.line("user", message={"role": "user", "content": [block]})


def claude_talk(sid: str, cwd: str, *, turns: int = 2) -> list[Json]:
    """Return a session of so many turns, five rows each."""
    file = ClaudeFile(sid, cwd)
    talk: list[Json] = []
    for turn in range(1, turns + 1):
        talk += [
            file.user(f"question {turn} of {sid[:4]}"),
            file.answer({"type": "thinking", "thinking": f"hm {turn}", "signature": "x"}),
            file.call(f"t{turn}", f"cat {turn}.txt", answer=f"m{turn}"),
            file.result(f"t{turn}", f"contents {turn}"),
            file.says(f"answer {turn}"),
        ]
    return talk


def claude_path(home: Path, sid: str) -> Path:
    return home / f".claude/projects/-repo/{sid}.jsonl"


def codex_lines(sid: str, cwd: str, *items: Json, **meta: Any) -> list[Json]:
    """Return a rollout: its head, then items in their envelopes."""
    head = {"id": sid, "cwd": cwd, "cli_version": "0.171.0", **meta}
    found: list[Json] = [{"timestamp": AT.format(day=2, second=0), "type": "session_meta",
                          "payload": head}]  # fmt: skip
    for number, item in enumerate(items, 1):
        at = AT.format(day=2, second=number % 60)
        kind = item.pop("line", "response_item")
        found.append({"timestamp": at, "type": kind, "payload": item})
    return found


def item(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def codex_call(id: str, command: str, output: str) -> list[Json]:
    arguments = json.dumps({"cmd": command})
    return [
        {"type": "function_call", "name": "exec_command", "call_id": id, "arguments": arguments},
        {"type": "function_call_output", "call_id": id, "output": output},
    ]


def codex_path(home: Path, sid: str) -> Path:
    return home / f".codex/sessions/2026/09/02/rollout-2026-09-02T10-00-00-{sid}.jsonl"


def opencode_message(
    role: str, *parts: Json, number: int = 1, **info: Any
) -> tuple[Json, list[Json]]:
    about = {"id": f"msg_{number:03d}", "role": role, "time": {"created": 1788300000000 + number},
             **info}  # fmt: skip
    named = [{"id": f"prt_{number:03d}{n:02d}", **part} for n, part in enumerate(parts)]
    return about, named


def opencode_talk() -> list[tuple[Json, list[Json]]]:
    """Return a session whose answer has two steps, the first with two calls."""

    def tool(name: str, output: str) -> Json:
        state = {"status": "completed", "input": {"path": name}, "output": output}
        return {"type": "tool", "tool": "read", "callID": name, "state": state}

    return [
        opencode_message("user", {"type": "text", "text": "which ports?"},
                         {"type": "text", "text": "seen by nobody", "ignored": True}),
        opencode_message(
            "assistant",
            {"type": "step-start"},
            {"type": "reasoning", "text": "two files"},
            {"type": "text", "text": "I read both."},
            tool("a", "5432"),
            tool("b", "6379"),
            {"type": "step-finish", "reason": "tool-calls"},
            {"type": "step-start"},
            {"type": "text", "text": "5432 and 6379."},
            {"type": "step-finish", "reason": "stop"},
            {"type": "patch", "hash": "x"},
            number=2,
            modelID="m1",
        ),
    ]  # fmt: skip


def opencode_database(
    path: Path,
    sid: str,
    cwd: str,
    talk: list[tuple[Json, list[Json]]],
    *,
    parent: str | None = None,
) -> Path:
    """Write a session into a database, as far as it is read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    with connection:
        for table in ("session (id, parent_id, directory, time_created, time_updated)",
                      "message (id, session_id, time_created, data)",
                      "part (id, message_id, session_id, time_updated, data)"):  # fmt: skip
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        connection.execute("INSERT INTO session VALUES (?, ?, ?, 1788300000000, 1788300005000)",
                           (sid, parent, cwd))  # fmt: skip
        for info, parts in talk:
            connection.execute(
                "INSERT INTO message VALUES (?, ?, ?, ?)",
                (info["id"], sid, info["time"]["created"], json.dumps(info)),
            )
            for part in parts:
                connection.execute(
                    "INSERT INTO part VALUES (?, ?, ?, 1788300005000, ?)",
                    (part["id"], info["id"], sid, json.dumps(part)),
                )
    connection.close()
    return path


def opencode_export(sid: str, cwd: str, talk: list[tuple[Json, list[Json]]]) -> bytes:
    messages = [{"info": info, "parts": parts} for info, parts in talk]
    return json.dumps(
        {"info": {"id": sid, "directory": cwd}, "messages": messages}, indent=2
    ).encode()


def opencode_storage(
    home: Path,
    sid: str,
    cwd: str,
    talk: list[tuple[Json, list[Json]]],
    *,
    parent: str | None = None,
) -> None:
    """Write a session as the JSON files of before the database."""
    root = home / ".local/share/opencode/storage"
    write(root / f"session/p/{sid}.json", lines(_of_session(sid, cwd, parent)))
    for info, parts in talk:
        write(root / f"message/{sid}/{info['id']}.json", lines(info))
        for part in parts:
            write(root / f"part/{info['id']}/{part['id']}.json", lines(part))


def _of_session(sid: str, cwd: str, parent: str | None) -> Json:
    return {"id": sid, "directory": cwd, **({"parentID": parent} if parent else {})}


def opencode_events(
    sid: str, cwd: str, talk: list[tuple[Json, list[Json]]], *, parent: str | None = None
) -> bytes:
    """Return the server's log of the same session; one text comes in pieces."""
    found: list[Json] = []

    def event(kind: str, **properties: Any) -> None:
        found.append({"projectDirectory": cwd, "event": {"type": kind, "properties": properties}})

    event("session.created", info=_of_session(sid, cwd, parent))
    for info, parts in talk:
        event("message.updated", info={**info, "sessionID": sid})
        for part in parts:
            told = {**part, "messageID": info["id"], "sessionID": sid}
            if part["type"] == "text":
                text = part["text"]
                event("message.part.updated", part={**told, "text": text[:3]})
                event(
                    "message.part.delta",
                    messageID=info["id"],
                    partID=part["id"],
                    field="text",
                    delta=text[3:],
                )
            else:
                event("message.part.updated", part=told)
    return lines(*found)


def gemini_chat(sid: str, project: str) -> Json:
    """Return a chat as one document."""
    answer = {"functionResponse": {"name": "read_file", "response": {"output": "5432"}}}
    call = {"id": "c1", "name": "read_file", "args": {"path": "p"}, "result": [answer]}
    return {
        "sessionId": sid,
        "projectHash": project,
        "startTime": "2026-09-03T10:00:00Z",
        "messages": [
            {"id": "1", "timestamp": "2026-09-03T10:00:01Z", "type": "user",
             "content": [{"text": "which port?"}]},
            {"id": "2", "timestamp": "2026-09-03T10:00:02Z", "type": "gemini", "content": "",
             "thoughts": [{"subject": "Looking", "description": "in the file"}],
             "toolCalls": [call], "model": "gemini-3"},
            {"id": "3", "timestamp": "2026-09-03T10:00:03Z", "type": "info", "content": "saved"},
            {"id": "4", "timestamp": "2026-09-03T10:00:04Z", "type": "gemini",
             "content": "Port 5432."},
        ],
    }  # fmt: skip


def gemini_changes(sid: str, project: str) -> bytes:
    """Return the same chat as a file of changes: messages come twice, one is taken back."""
    chat = gemini_chat(sid, project)
    messages = chat.pop("messages")
    early = {**messages[1], "toolCalls": []}
    return lines(chat, messages[0], early, messages[1], messages[2], {"$set": {"kind": "main"}},
                 messages[3], {"$rewindTo": "4"})  # fmt: skip


def copilot_events(sid: str, cwd: str) -> bytes:
    def event(kind: str, number: int, **data: Any) -> Json:
        return {"type": kind, "id": f"e{number}", "timestamp": AT.format(day=4, second=number),
                "data": data}  # fmt: skip

    request = {"toolCallId": "t1", "name": "view", "arguments": {"path": "p"}}
    return lines(
        event("session.start", 1, sessionId=sid, context={"cwd": cwd}, selectedModel="gpt-5"),
        event("system.message", 2, role="system", content="You are an agent."),
        event("user.message", 3, content="which port?", transformedContent="<now>which port?"),
        event("assistant.turn_start", 4, turnId="0"),
        event("assistant.message", 5, content="", toolRequests=[request], reasoningText="a file"),
        event("tool.execution_start", 6, toolCallId="t1", toolName="view", arguments={"path": "p"}),
        event("tool.execution_complete", 7, toolCallId="t1", success=True,
              result={"content": "5432", "detailedContent": "5432!"}),
        event("assistant.message", 8, content="Port 5432.", toolRequests=[]),
    )  # fmt: skip


def pi_entries(sid: str, cwd: str) -> bytes:
    def message(number: int, **message: Any) -> Json:
        return {"type": "message", "id": f"e{number}", "timestamp": AT.format(day=5, second=number),
                "message": message}  # fmt: skip

    call = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "p"}}
    return lines(
        {"type": "session", "version": 3, "id": sid, "cwd": cwd,
         "timestamp": AT.format(day=5, second=0)},
        {"type": "thinking_level_change", "thinkingLevel": "low"},
        message(1, role="user", content=[{"type": "text", "text": "which port?"}]),
        message(2, role="assistant", model="m", content=[
            {"type": "thinking", "thinking": "a file"}, call]),
        message(3, role="toolResult", toolCallId="t1", toolName="read",
                content=[{"type": "text", "text": "5432"}]),
        message(4, role="assistant", model="m", content=[{"type": "text", "text": "Port 5432."}]),
        {"type": "compaction", "timestamp": AT.format(day=5, second=9), "summary": "Ports."},
        message(5, role="bashExecution", command="ls", output="p"),
    )  # fmt: skip
