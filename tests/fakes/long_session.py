"""Long scripted sessions of the real Claude Code through openmem before the strict service.

The script of a turn is kept here and stepped by what the last message says, not by counting
answers: a trim inside a turn takes some of those away. A refusal is ours when the request that got
it carries our pointer, or when it is not what the client sent.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tests.fakes.anthropic_server import FakeAnthropic
from tests.fakes.records import Record
from tests.fakes.scene import RUN, Scene, a_scene
from tests.fakes.script import Call, Step, steps_in, texts_of
from tests.fakes.strict.rules import Account, StrictRules

POINTER = "[openmem: session_id="
# What a person's own hooks add to a prompt and behind each tool.
HOOKS = {
    event: [{"matcher": "", "hooks": [{"type": "command", "command": command}]}]
    for event, command in {
        "UserPromptSubmit": "echo 'the branch is called heron'",
        "PostToolUse": (
            'echo \'{"hookSpecificOutput":{"hookEventName":"PostToolUse",'
            '"additionalContext":"the linter found nothing"}}\''
        ),
    }.items()
}


@dataclass(slots=True)
class Steps:
    """The scripted model: `@@play` prompts, stepped once for each new last message."""

    _at: dict[str, tuple[int, set[bytes]]] = field(default_factory=dict)

    def __call__(self, run: str, body: dict[str, Any]) -> Step | None:
        messages = body.get("messages") or []
        spoken = [m for m in messages if m.get("role") == "user"]
        script, text = None, ""
        for message in reversed(spoken):
            for said in reversed(texts_of(message)):
                script = steps_in(said)
                if script is not None:
                    text = said
                    break
            if script is not None:
                break
        if script is None or _asks_for_a_summary(spoken[-1]):
            return None
        return self._next(text, script, _last(messages))

    def of_items(self, items: list[dict[str, Any]]) -> Step | None:
        """Return the step for an input of the Responses API."""
        if items[-1]["type"] == "compaction_trigger":
            return None
        for item in reversed(items):
            parts = item.get("content") if item.get("role") == "user" else None
            for part in reversed(parts) if isinstance(parts, list) else ():
                said = str(part.get("text", ""))
                if "CONTEXT CHECKPOINT COMPACTION" in said:
                    return None
                script = steps_in(said)
                if script is not None:
                    newest = next(i for i in reversed(items) if i["type"] != "configuration_update")
                    return self._next(said, script, newest)
        return None

    def _next(self, text: str, script: list[Step], last: Any) -> Step:
        number, seen = self._at.get(text, (-1, set()))
        newest = json.dumps(last, sort_keys=True).encode()
        mark = blake2b(newest, digest_size=16).digest()
        if mark not in seen:  # else the client asks again
            number += 1
            seen.add(mark)
            self._at[text] = (number, seen)
        return script[number] if number < len(script) else Step(say="(script ended)")


def _last(messages: list[dict[str, Any]]) -> Any:
    """Return the last thing that is not the client's own remark, without markers."""
    message = next(m for m in reversed(messages) if m["role"] == "user")
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    bare = [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]
    return [b for b in bare if not str(b.get("text", "")).startswith((POINTER, "<system-"))]


def _asks_for_a_summary(message: dict[str, Any]) -> bool:
    return any("CRITICAL: Respond with TEXT ONLY" in text for text in texts_of(message))


@dataclass(slots=True, kw_only=True)
class LongSession:
    """One session. `rules`: the strict service; `model`: in force."""

    scene: Scene
    rules: StrictRules
    model: str
    sid: str = ""
    said: int = 0

    def turn(self, prompt: str, *steps: Step, options: tuple[str, ...] = ()) -> str:
        """Say something to the session and return what was answered."""
        self.said += 1
        more = ("--resume", self.sid) if self.sid else ()
        script = json.dumps([_raw(step) for step in steps])
        text = f"{prompt} (turn {self.said}) @@play {script}" if steps else prompt
        outcome = self.scene.say(text, *more, *options, model=self.model)
        self.sid = outcome.session_id or self.sid
        return outcome.result

    def work(self, prompt: str, rounds: int, *, size: int = 9_000) -> str:
        """Have the model run `rounds` commands of `size` characters of output each."""
        steps = [
            Step(
                think=f"{prompt}, step {number}",
                say="I look.",
                calls=(_bash(f"yes 'line of {prompt} {number}' | head -c {size}"),),
            )
            for number in range(rounds)
        ]
        return self.turn(prompt, *steps, Step(think="enough", say=f"Done with {prompt}."))

    @property
    def records(self) -> list[Record]:
        return self.scene.server.of(RUN)

    @property
    def trimmed(self) -> list[Record]:
        return [record for record in self.records if POINTER in _text(record)]

    @property
    def refused_by_us(self) -> list[str]:
        """What was refused of requests that we had changed."""
        planned = self.scene.server.faults
        refused = [
            record
            for record in self.records
            if record.status == 400 and (RUN, record.number) not in planned
        ]
        return [
            f"{record.number}: {refusal.message}"
            for record, (_, refusal) in zip(refused, self.rules.refusals, strict=True)
            if POINTER in _text(record)
        ]

    @property
    def refused_at_all(self) -> list[str]:
        return [refusal.message for _, refusal in self.rules.refusals]


def _raw(step: Step) -> dict[str, Any]:
    raw: dict[str, Any] = {"say": step.say, "think": step.think}
    if step.calls:
        raw["calls"] = [{"name": call.name, "input": call.input} for call in step.calls]
    return raw


def _bash(command: str) -> Call:
    return Call(name="Bash", input={"command": command, "description": "look"})


def _text(record: Record) -> str:
    return json.dumps(record.json.get("messages", []), ensure_ascii=False)


@contextlib.contextmanager
def a_long_session(
    folder: Path, *, model: str, account: Account, soft: int, hard: int, hooks: bool = True
) -> Iterator[LongSession]:
    """Lay a scene with openmem set up, thresholds and the person's own hooks."""
    rules = StrictRules(account)
    with (
        FakeAnthropic(rules=rules, script=Steps()) as server,
        a_scene(folder, server) as scene,
    ):
        if hooks:
            settings = json.loads(scene.settings.read_text())
            scene.settings.write_text(json.dumps({**settings, "hooks": HOOKS}, indent=2))
        scene.set_up()
        for name, value in (("soft", soft), ("hard", hard)):
            scene.openmem.ok("config", "set", f"trim.{name}_tokens", str(value))
        scene.openmem.ok("config", "set", "trim.compress_tokens", "0")
        if scene.proxy().get("running"):
            scene.openmem.ok("proxy", "stop")
        scene.openmem.ok("proxy", "start")
        yield LongSession(scene=scene, rules=rules, model=model)
