"""The third family: files that are read, edited and read again, and what stood in them once.

Ours, not of ContextBench: it is there to measure what a trim gains by leaving out bodies that a
later call made worthless, so about half of what its model reads is of that kind. Each operation
renews six lines of one of eight files: read, edit, to-do list, read. The lines are those of
kv-store, so its questions and its script ask for them: a value may stand in an old read, in the
newest one, or nowhere but in the store.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openmem.bench.context.kv_store import kv_value
from openmem.bench.context.model import READY, Block, Request, Script, called, newest_operation
from openmem.bench.context.task import QUESTIONS, Piece, Question, Task, operations_of

FILES, LINES, RENEWED = 8, 60, 6
_WORK = re.compile(r"^WORK (\d+) on (\S+) lines (\d+)$", re.M)


def edit_task(level: str, operations: int, seed: int) -> Task:
    """Return the task of a level `E<operations>`."""
    chance = random.Random(f"edits {level} {seed}")
    files = {
        f"src/part_{number}.txt": [
            _line(90_000 + number * LINES + line, seed) for line in range(LINES)
        ]
        for number in range(FILES)
    }
    pieces: list[Piece] = []
    turns = dict.fromkeys(files, 0)
    for number in range(operations):
        path = chance.choice(list(files))
        first = turns[path] * RENEWED % LINES
        turns[path] += 1
        body = f"WORK {number} on {path} lines {first}\n(Read it, renew {RENEWED} lines, read it.)"
        pieces.append((f"work {number}", body, None))
    for number, key in enumerate(chance.sample(range(operations * RENEWED), QUESTIONS)):
        name = f"K{key:05d}"
        body = f"GET {name}\n(Report the value that was set for {name} as an ANSWER block.)"
        answer = kv_value(name, seed)
        question = Question(label=f"key={name}", kind="lookup", answer=answer)
        pieces.append((f"get {number}", body, question))
    return Task(
        name=f"edits-{level}-seed{seed}",
        level=level,
        records=operations * RENEWED,
        operations=operations_of(pieces),
        files={path: "\n".join(lines) + "\n" for path, lines in files.items()},
        seed=seed,
    )


def _line(key: int, seed: int) -> str:
    name = f"K{key:05d}"
    return f"SET {name} = {kv_value(name, seed)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditScript(Script):
    """The model of this family: it works as it is told, and answers as kv-store's does."""

    seed: int = 0

    def reply(self, request: Request) -> list[Block]:
        spoken = [message for message in request["messages"] if message["role"] != "system"]
        text, behind = newest_operation(spoken)
        work = _WORK.search(text)
        if work is None:
            return Script.reply(self, request)
        path, first = work.group(2), int(work.group(3))
        done = list(_calls(behind))
        if len(done) == 0:
            return [called(request, "Read", {"path": path})]
        if len(done) == 1:
            shown = _newest_result(behind).split("\n")
            old = shown[first : first + RENEWED]
            keys = range(int(work.group(1)) * RENEWED, (int(work.group(1)) + 1) * RENEWED)
            given = {"path": path, "old": "\n".join(old)}
            given["new"] = "\n".join(_line(key, self.seed) for key in keys)
            todos = list(_todos(int(work.group(1)), path))
            return [
                called(request, "Edit", given),
                called(request, "TodoWrite", {"todos": todos}, 1),
            ]
        if len(done) == 3:
            return [called(request, "Read", {"path": path})]
        if len(done) == 4:
            return [
                {"type": "text", "text": "Done."},
                called(request, "Bash", {"command": READY}),
            ]
        return [{"type": "text", "text": "Waiting for the next operation."}]


def _todos(number: int, path: str) -> Iterator[dict[str, str]]:
    yield {"content": f"operation {number}: renew lines of {path}", "status": "in_progress"}
    for part in range(FILES):
        words = f"look through src/part_{part}.txt once all operations are over"
        yield {"content": words, "status": "pending"}


def _calls(messages: list[Mapping[str, Any]]) -> Iterator[Block]:
    for message in messages:
        if message["role"] == "assistant":
            yield from (block for block in message["content"] if block["type"] == "tool_use")


def _newest_result(messages: list[Mapping[str, Any]]) -> str:
    content = messages[-1]["content"][-1]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])
