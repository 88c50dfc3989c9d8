"""Every file in the folder of real session files: no crash, no good line lost, nothing twice.

The files are not part of this project; `OPENMEM_TEST_TRANSCRIPTS` names their folder. What must be
stored is counted here from the raw JSON, by the standard library alone, and not with the readers.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openmem.agents.transcripts.files import file_source, head_of
from openmem.agents.transcripts.registry import READERS, reader_for, unread_format
from openmem.index.sessions.importing import Means, import_sources
from openmem.index.sessions.places import Formats, named
from openmem.index.sessions.report import Report
from tests.fakes.session_files import FOLDER, needs_session_files, objects
from tests.index.conftest import Machine

OF_PROGRAM = ("<task-notification>", "<system-reminder>", "<local-command", "<command-name>")
Count = Counter[tuple[str, str]]

pytestmark = needs_session_files


def of_claude(path: Path) -> Count:
    found: Count = Counter()
    for value in objects(path):
        if value.get("isApiErrorMessage"):
            continue
        if value.get("type") == "attachment":
            attachment = value["attachment"]
            if attachment.get("type") == "queued_command":
                found["user" if "<task" not in str(attachment["prompt"]) else "system", "text"] += 1
        if value.get("type") not in ("user", "assistant"):
            continue
        content = value["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            found.update(_claude_block(value["type"], block))
    return found


def _claude_block(role: str, block: dict[str, Any]) -> list[tuple[str, str]]:
    kind = block["type"]
    if kind == "tool_result":
        content = block.get("content")
        parts = content if isinstance(content, list) else []
        images = [("tool", "image") for part in parts if part.get("type") == "image"]
        has_text = isinstance(content, str) or any(part.get("type") != "image" for part in parts)
        return images + ([("tool", kind)] if has_text or not images else [])
    said = block.get("thinking" if kind == "thinking" else "text", "x")
    if kind == "text" and said.startswith(OF_PROGRAM):
        role = "system"
    return [(role, kind)] if said.strip() else []


def of_codex(path: Path) -> Count:
    found: Count = Counter()
    for value in objects(path):
        if value.get("type") != "response_item":
            continue
        item = value["payload"]
        kind = item["type"]
        if kind == "message" and item["role"] != "developer":
            for part in item["content"]:
                text = part.get("text", "x").lstrip()
                own = ("<environment_context", "# AGENTS.md", "<user_instructions", "<turn_aborted",
                       "<skill", "<subagent", "<INSTRUCTIONS", "<hook_prompt")  # fmt: skip
                if not (item["role"] == "user" and text.startswith(own)) and text:
                    kind_of = "text" if part["type"] in ("input_text", "output_text") else "image"
                    found[item["role"], kind_of] += 1
        elif kind.endswith("_call"):
            found["assistant", "tool_use"] += 1
        elif kind.endswith("_output"):
            found.update(_codex_output(item["output"]))
    return found


def _codex_output(output: Any) -> list[tuple[str, str]]:
    parts = output if isinstance(output, list) else [{"type": "input_text"}]
    images = [("tool", "image") for part in parts if part["type"] == "input_image"]
    return images + ([("tool", "tool_result")] if len(images) < len(parts) else [])


def of_opencode(path: Path) -> Count:
    found: Count = Counter()
    parts: dict[str, tuple[str, dict[str, Any]]] = {}
    try:
        for message in json.loads(path.read_bytes())["messages"]:
            for part in message["parts"]:  # ids may be taken out of an export
                parts[str(len(parts))] = (message["info"]["role"], part)
    except ValueError:
        roles: dict[str, str] = {}
        for value in objects(path):
            event, told = value["event"]["type"], value["event"]["properties"]
            if event == "message.updated":
                roles[told["info"]["id"]] = told["info"]["role"]
            elif event == "message.part.updated":
                part = told["part"]
                parts[part["id"]] = (part["messageID"], part)
            elif event == "message.part.delta" and told["partID"] in parts:
                part = parts[told["partID"]][1]
                part["text"] = part.get("text", "") + told["delta"]
        parts = {name: (roles[message], part) for name, (message, part) in parts.items()}
    for role, part in parts.values():
        if (
            part["type"] in ("text", "reasoning")
            and part["text"].strip()
            and not part.get("ignored")
        ):
            found[role, "thinking" if part["type"] == "reasoning" else "text"] += 1
        elif part["type"] == "tool":
            found["assistant", "tool_use"] += 1
            found["tool", "tool_result"] += part["state"]["status"] in ("completed", "error")
    return +found


def of_gemini(path: Path) -> Count:
    found: Count = Counter()
    for message in json.loads(path.read_bytes())["messages"]:
        role = {"user": "user", "gemini": "assistant"}.get(message["type"])
        if role and message["content"]:
            found[role, "text"] += 1
        found["assistant", "thinking"] += len(message.get("thoughts", ()))
        calls = message.get("toolCalls", ())
        found["assistant", "tool_use"] += len(calls)
        found["tool", "tool_result"] += sum("result" in call for call in calls)
    return +found


def of_copilot(path: Path) -> Count:
    found: Count = Counter()
    for value in objects(path):
        data = value["data"]
        if value["type"] == "user.message":
            found["user", "text"] += 1
        elif value["type"] == "assistant.message":
            found["assistant", "text"] += bool(data["content"].strip())
            found["assistant", "thinking"] += bool(data.get("reasoningText", "").strip())
            found["assistant", "tool_use"] += len(data["toolRequests"])
        elif value["type"] == "tool.execution_complete":
            found["tool", "tool_result"] += 1
    return +found


def of_pi(path: Path) -> Count:
    found: Count = Counter()
    for value in objects(path):
        if value["type"] == "compaction":
            found["system", "text"] += 1
        if value["type"] != "message":
            continue
        message = value["message"]
        if message["role"] == "bashExecution":
            found.update([("assistant", "tool_use"), ("tool", "tool_result")])
            continue
        if message["role"] == "toolResult":
            found["tool", "tool_result"] += 1
            continue
        for part in message["content"]:
            kind = {"toolCall": "tool_use"}.get(part["type"], part["type"])
            if part.get("text", part.get("thinking", "x")).strip():
                found[message["role"], kind] += 1
    return found


COUNTS = {
    "claude-code": of_claude, "codex": of_codex, "opencode": of_opencode, "gemini-cli": of_gemini,
    "copilot-cli": of_copilot, "pi": of_pi,
}  # fmt: skip
FORMATS = Formats(
    readers=READERS, head_of=head_of, file_source=file_source, reader_for=reader_for,
    unread_format=unread_format,
)  # fmt: skip
POLICY = "version = 1\n" + "".join(
    f"[defaults.{kind}]\nstore = true\n" for kind in ("git", "other", "unregistered")
)


def bring_in(machine: Machine, path: Path) -> Report:
    report = Report()
    sources, report.unread = named(FORMATS, [str(path)], ())
    means = Means(paths=machine.paths, key=machine.key, readers=READERS)
    return import_sources(means, sources, report)


def files() -> list[Path]:
    return sorted(path for path in FOLDER.rglob("*") if path.is_file()) if FOLDER.exists() else []


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_a_real_file_is_stored_whole_and_once(machine: Machine, path: Path) -> None:
    """Issue 7, Show it: counts by an independent count; a second import adds nothing."""
    machine.policy(POLICY)
    agent = path.relative_to(FOLDER).parts[0]
    report = bring_in(machine, path)
    if agent not in COUNTS:
        assert report.sessions == {} and len(report.unread) == 1
        why = report.unread[0].why
        assert why.startswith("skipped: ") == (agent in ("iflow", "swe-agent")), why
        return
    assert report.unread == [] and report.denied == {}
    stored: Count = Counter(
        (row["role"], row["kind"]) for sid in report.sessions for row in machine.rows(sid)
    )
    expected = COUNTS[agent](path)
    if agent in ("codex", "claude-code"):  # what the program told is stored once a thread
        stored = Counter({key: n for key, n in stored.items() if key[0] != "system"})
        expected = Counter({key: n for key, n in expected.items() if key[0] != "system"})
    assert stored == expected
    skipped = {"cc21-one-image-result.jsonl": 2, "cc22-progress-records.jsonl": 2}
    assert len(report.skipped) == skipped.get(path.name, 0)
    machine.check(*report.sessions)
    again = bring_in(machine, path)
    assert (again.added, again.unchanged) == (0, 1)


def test_all_of_them_at_once(machine: Machine) -> None:
    """Issue 7, Show it: the folder as a person names it; sub-agents beside their session."""
    machine.policy(POLICY)
    report = bring_in(machine, FOLDER)
    assert {one.agent for one in report.sessions.values()} == set(COUNTS)
    assert sum(entry.why.startswith("skipped: ") for entry in report.unread) == 2
    assert not any(entry.is_fault for entry in report.unread)
    (cc24,) = [one for one in report.sessions.values() if len(one.sources) == 6]
    threads = machine.select(cc24.session_id, "SELECT kind, count(*) FROM threads GROUP BY kind")
    assert dict(threads) == {"main": 1, "sub-agent": 5}
    again = bring_in(machine, FOLDER)
    assert again.added == 0 and again.unchanged == again.places == report.places
