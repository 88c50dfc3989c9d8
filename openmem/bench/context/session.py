"""One run: a task through one arm, from the first prompt to the last answer.

Arms: `keep` sends everything, to a model without a limit; `drop` forgets its oldest turns at the
same thresholds as openmem, without a search; `native` has its own client summarise at four fifths
of the window, as agents do; `openmem` goes through the proxy and has the search tools. `clear`,
`clear-each` and `both` go the same way: the first two have the proxy ask the provider to clear tool
results and trim nothing, one for each reading of what the provider does; `both` has it trim, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from openmem.bench.context.conversation import (
    Message,
    Thread,
    compact,
    text_block,
    without_thinking,
)
from openmem.bench.context.model import NOTICE, READY, SUMMARY_ASKED
from openmem.bench.context.server import AGENT_HEADER, NUMBER_HEADER, Answer, Line
from openmem.bench.context.task import INSTRUCTION, Task
from openmem.bench.context.tokens import tokens_of
from openmem.bench.context.toolbox import Toolbox

CLEARING_ARMS = ("clear", "clear-each", "both")
SUPERSEDED = "superseded"
OUR_ARMS = ("openmem", SUPERSEDED, *CLEARING_ARMS)
ARMS = ("keep", "drop", "native", *OUR_ARMS)
_ANSWER = re.compile(r"<<<ANSWER ([a-z]+=\w+)>>>\n(.*?)\n<<<ANSWER END>>>", re.S)
_SUB_AGENT_EVERY = 6
_MOST_ROUNDS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request as the client sent it. `new_tokens`: of what its thread had not sent before."""

    number: int
    thread: str
    messages: int
    is_rewritten: bool
    milliseconds: float
    refusal: str


@dataclass(slots=True)
class Session:
    """A client at work. `soft`, `target`: of the dropping arm; `compact_at`: of the native one.

    `waiting`: operations that the shell gives one by one.
    """

    line: Line
    main: Thread
    toolbox: Toolbox
    arm: str = "openmem"
    soft: int = 0
    target: int = 0
    compact_at: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    stopped: str = ""
    prompt_tokens: int = 0
    waiting: list[str] = field(default_factory=list)
    _number: int = 0
    _rewritten: bool = False
    _sub_agents: int = 0

    @property
    def is_ours(self) -> bool:
        """Whether the session goes through openmem."""
        return self.arm in OUR_ARMS

    def begin(self, waiting: Sequence[str] = ()) -> None:
        """Give the instruction. `waiting`: operations that come in the same turn, by the shell."""
        self.waiting = list(waiting)
        self._collect(self._turn(self.main, INSTRUCTION))

    def operate(self, text: str) -> None:
        """Give one operation and collect the answers of its turn."""
        if self.arm == "drop" and self.prompt_tokens >= self.soft:
            self._drop()
        if self.arm == "native" and self.prompt_tokens >= self.compact_at:
            self._compact()
        self._collect(self._turn(self.main, text))

    def _collect(self, said: Sequence[str]) -> None:
        for answer in said:
            for label, value in _ANSWER.findall(answer):
                self.answers[label] = value

    def delegate(self) -> None:
        """Have a sub-agent do something else, and tell the main thread of its end."""
        self._sub_agents += 1
        errand = replace(
            self.main,
            agent_id=f"agent-{self._sub_agents:04d}",
            start_text="",
            messages=[],
            _written=[],
            _sent=0,
        )
        for part in ("Look at the newest commits.", "Say which of them touch the parser."):
            self._turn(errand, f"{part} Errand {self._sub_agents}.")
        self._turn(self.main, f"{NOTICE}\nThe sub-agent {errand.agent_id} has ended: 3 commits.")

    def _turn(self, thread: Thread, prompt: str) -> list[str]:
        """Say something and go on until the model is done; return what it said."""
        said: list[str] = []
        if self.stopped:
            return said
        thread.say(prompt)
        for _ in range(_MOST_ROUNDS + 5 * len(self.waiting)):
            answer = self._send(thread)
            if answer.error:
                self.stopped = answer.error
                return said
            thread.answer(answer.blocks)
            said += [block["text"] for block in answer.blocks if block["type"] == "text"]
            calls = [block for block in answer.blocks if block["type"] == "tool_use"]
            if not calls:
                return said
            thread.results([(call["id"], self._result(call)) for call in calls])
        self.stopped = f"the model was not done after {_MOST_ROUNDS} rounds"
        return said

    def _result(self, call: Mapping[str, Any]) -> str:
        """Return a tool's result; in a loop the next operation is what the shell gives."""
        result = self.toolbox.run(call["name"], call["input"])
        if self.waiting and call["input"].get("command") == READY:
            return self.waiting.pop(0)
        return result

    def _send(self, thread: Thread) -> Answer:
        answer = self._send_once(thread)
        if "bound to a different conversation" in answer.error:
            # As the client heals itself: once more, without any thinking, for good.
            thread.rewrite(without_thinking(thread.messages))
            answer = self._send_once(thread)
        if not answer.error and thread is self.main:
            self.prompt_tokens = answer.prompt_tokens
        return answer

    def _send_once(self, thread: Thread) -> Answer:
        self._number += 1
        headers = {NUMBER_HEADER: str(self._number), "x-claude-code-session-id": thread.session_id}
        headers["user-agent"] = "claude-cli/2.1.332 (external, cli)"
        if thread.agent_id:
            headers[AGENT_HEADER] = thread.agent_id
        answer = self.line.ask(thread.body(), headers)
        self.sent.append(
            Sent(
                number=self._number,
                thread=thread.agent_id,
                messages=len(thread.messages),
                is_rewritten=self._rewritten and thread is self.main,
                milliseconds=answer.milliseconds,
                refusal=answer.error,
            )
        )
        if thread is self.main:
            self._rewritten = False
        return answer

    def _drop(self) -> None:
        """Forget the oldest turns until what is left fits the target; the first one stays."""
        messages = self.main.messages
        turns = [n for n, message in enumerate(messages) if _opens_turn(message)]
        weights = [tokens_of(compact(message)) for message in messages]
        first = turns[1] if len(turns) > 1 else len(messages)
        fixed = self.prompt_tokens - sum(weights[first:])
        start = next(
            (turn for turn in turns[1:] if fixed + sum(weights[turn:]) <= self.target),
            turns[-1],
        )
        self.main.rewrite(without_thinking([*messages[:first], *messages[start:]]))
        self._rewritten = True

    def _compact(self) -> None:
        """Have the model summarise, and go on from the summary and its last answer."""
        thread = self.main
        thread.say(f"{SUMMARY_ASKED}, so that the work can go on from it. Do not call tools.")
        answer = self._send(thread)
        if answer.error:
            self.stopped = answer.error
            return
        summary = "\n".join(b["text"] for b in answer.blocks if b["type"] == "text")
        last = next(m for m in reversed(thread.messages[:-1]) if m["role"] == "assistant")
        told = f"This session goes on from an earlier one. {INSTRUCTION}\n\n{summary}"
        thread.rewrite(
            without_thinking([{"role": "user", "content": [text_block(told)]}, _spoken(last)])
        )
        self._rewritten = True


def _opens_turn(message: Mapping[str, Any]) -> bool:
    return bool(message["role"] == "user" and message["content"][0]["type"] == "text")


def _spoken(message: Message) -> Message:
    """Return an answer without its tool calls, which have lost their results."""
    return {**message, "content": [b for b in message["content"] if b["type"] != "tool_use"]}


def run_task(
    session: Session, task: Task, *, sub_agents: bool, in_loop: bool, resume: Resume | None
) -> None:
    """Stream a whole task through a session; `in_loop`: all of it in one turn."""
    if in_loop:
        session.begin([operation.text for operation in task.operations])
        return
    session.begin()
    half = len(task.operations) // 2
    for number, operation in enumerate(task.operations):
        if session.stopped:
            return
        if resume is not None and number in (half, half + 2):
            resume.act(session, as_blocks=number == half)
        if sub_agents and number % _SUB_AGENT_EVERY == _SUB_AGENT_EVERY - 1:
            session.delegate()
        session.operate(operation.text)


class Resume:
    """What happens when a session is resumed: another form of the same history; here no more."""

    def act(self, session: Session, *, as_blocks: bool) -> None:
        session.main.resume(as_blocks=as_blocks)
