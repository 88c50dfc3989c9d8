"""The scripted model: a function from a request to a reply, and from nothing else.

It answers from lines it can see; what it cannot see it looks up when a tool for that is offered
and it has been told of it; else it says UNKNOWN. Variants, since one script hides faults:
`echoing` repeats found lines in its answers and through the shell, so that a store that counts
them too is caught; `forgetful` looks things up only where the pointer itself names the tool. Where
an operation comes as the shell's output (`loop`), it is read there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

Block = dict[str, Any]
Request = Mapping[str, Any]

READY = "echo READY_FOR_NEXT_OP"
UNKNOWN = "UNKNOWN"
SUMMARY_ASKED = "Write a summary of the conversation so far"
NOTICE = "[SYSTEM NOTIFICATION - NOT USER INPUT]"
SEARCH, SQL = "mcp__openmem__smart_compact_search", "mcp__openmem__smart_compact_sql"
_SUMMARY_CHARACTERS = 6_000

_GET = re.compile(r"^GET (K\d{5})$", re.M)
_QUERY = re.compile(r"^QUERY (\d+): (.*)$", re.M)
_REQUEST_ID = re.compile(r"req=([0-9a-f]{8})\?")
_BATCH = re.compile(r"^=== log batch \(lines (\d+)-(\d+)\)", re.M)
_LOG_LINE = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) \[(?P<level>[A-Z]+)\] (?P<service>[a-z-]+)"
    r" req=(?P<request>[0-9a-f]{8}) .* (?P<tag>#[0-9a-f]{8})$",
    re.M,
)
_SESSION = re.compile(r'session_id="([^"]+)"|session id ([\w.-]+)')
_SCOPE = re.compile(
    r'(?:\[(?P<level>[A-Z]+)\] )?log lines(?: are from service "(?P<service>[a-z-]+)")?'
    r"(?: are there)?(?: from (?P<begin>\S+) to (?P<end>\S+), both included)?\?"
)
_MATCHING = re.compile(r"([\d,]+) lines? match")
_POINTER = "[openmem:"
_SHORTENED = "[openmem: …]"
_OPERATION = "remaining after this) ==="


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One variant of the model."""

    echoing: bool = False
    forgetful: bool = False

    def reply(self, request: Request) -> list[Block]:
        """Return the content blocks of the reply."""
        messages = request["messages"]
        spoken = [message for message in messages if message["role"] != "system"]
        last = spoken[-1]
        results = [b for b in _blocks(last) if b["type"] == "tool_result"]
        if results:
            return self._after_tools(request, spoken, results)
        prompt = _prompt_of(last)
        if SUMMARY_ASKED in prompt:
            return [_text(_summary(messages))]
        if NOTICE in prompt:
            return [_text("Noted.")]
        if not prompt.startswith("==="):
            if _is_errand(request):
                return [_text("Looking."), _call(request, "Bash", command="git log -3")]
            return [_text("Ready."), _call(request, "Bash", command=READY)]
        return self._operation(request, prompt)

    def _operation(self, request: Request, text: str) -> list[Block]:
        asked = _asked(text)
        if asked is None:
            return [_call(request, "Bash", command=READY)]
        return self._answer(request, asked)

    def _after_tools(
        self, request: Request, spoken: list[Mapping[str, Any]], results: list[Block]
    ) -> list[Block]:
        calls = {b["id"]: b for b in _blocks(spoken[-2]) if b["type"] == "tool_use"}
        looked_up = [
            _result_text(result)
            for result in results
            if calls[result["tool_use_id"]]["name"] != "Bash"
        ]
        shown = next((t for t in map(_result_text, results) if t.startswith("===")), "")
        if shown and not looked_up:
            return self._operation(request, shown)
        if not looked_up:
            return [_text("Done." if _is_errand(request) else "Waiting for the next operation.")]
        asked = _asked(_newest_prompt(spoken))
        if asked is None:
            return [_text("Nothing was asked.")]
        return self._said(request, asked, asked.found_in(looked_up[0]))

    def _answer(self, request: Request, asked: Asked) -> list[Block]:
        asked = replace(asked, in_loop=_prompts_by_tool(request))
        seen = asked.seen_in(request)
        if seen is not None:
            return self._said(request, asked, seen)
        told = _texts_of(request) if not self.forgetful else _pointers_of(request)
        tool = SQL if asked.needs_sql else SEARCH
        is_offered = any(entry["name"] == tool for entry in request.get("tools", ()))
        name = tool.removeprefix("mcp__openmem__")
        for text in told if is_offered else ():
            if name in text:
                match = _SESSION.search(text)
                sid = (match.group(1) or match.group(2)) if match else ""
                return [
                    _text("I do not see it here, so I look it up."),
                    called(request, tool, asked.lookup(sid)),
                ]
        return self._said(request, asked, Seen(answer=UNKNOWN))

    def _said(self, request: Request, asked: Asked, seen: Seen) -> list[Block]:
        answer = f"<<<ANSWER {asked.label}>>>\n{seen.answer}\n<<<ANSWER END>>>"
        blocks = [_text(answer), _call(request, "Bash", command=READY)]
        if self.echoing and seen.lines:
            quoted = "\n".join(seen.lines[:40])
            blocks[0] = _text(f"I go by these lines:\n{quoted}\n\n{answer}")
            echo = _call(request, "Bash", command=f"printf '%s' '{quoted}'", number=1)
            blocks.append(echo)
        return blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An answer, and the lines it rests on."""

    answer: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question as the model read it."""

    label: str
    key: str = ""
    request_id: str = ""
    wants_tag: bool = False
    scope: Mapping[str, str] | None = None
    number: int = 0
    in_loop: bool = False

    @property
    def is_count(self) -> bool:
        return self.scope is not None

    @property
    def needs_sql(self) -> bool:
        """Whether it is counted with SQL: a span of time always, of the rest every second one."""
        return self.scope is not None and bool("begin" in self.scope or self.number % 2)

    def seen_in(self, request: Request) -> Seen | None:
        """Return the answer from what the request shows, None when it does not show it all."""
        if self.scope is None:
            return next(filter(None, map(self._in_text, _user_texts(request))), None)
        # A line that an answer or the shell repeats is no line of a batch.
        texts = [text for text in _user_texts(request) if _BATCH.search(text)]
        if not _shows_all(texts):
            return None
        lines = [m.group() for text in texts for m in _LOG_LINE.finditer(text) if self._counts(m)]
        return Seen(answer=str(len(lines)), lines=tuple(lines))

    def _in_text(self, text: str) -> Seen | None:
        if self.key:
            at = text.find(f"SET {self.key} = ")
            if at < 0 or (at > 0 and text[at - 1] != "\n"):
                return None
            line = text[at:].partition("\n")[0]
            return Seen(answer=line.partition(" = ")[2], lines=(line,))
        at = text.find(f" req={self.request_id} ")
        if at < 0:
            return None
        match = _LOG_LINE.match(text, text.rfind("\n", 0, at) + 1)
        if not match:
            return None
        answer = match.group("tag") if self.wants_tag else match.group("service")
        return Seen(answer=answer, lines=(match.group(),))

    def _counts(self, line: re.Match[str]) -> bool:
        assert self.scope is not None
        for part in ("level", "service"):
            if self.scope.get(part) and line.group(part) != self.scope[part]:
                return False
        begin, end = self.scope.get("begin"), self.scope.get("end")
        return not begin or begin <= line.group("at") <= str(end)

    def lookup(self, session_id: str) -> dict[str, object]:
        """Return the arguments of the tool call: words for one half, a pattern for the other."""
        session = {"session_id": session_id} if session_id else {}
        if self.needs_sql:
            return {**session, "sql": self._sql()}
        if self.scope is not None:
            return {
                **session,
                "pattern": self._pattern(),
                "role": ["user", "tool"] if self.in_loop else "user",
                "count": True,
            }
        if self.key:
            if self.number % 2:
                return {**session, "pattern": f"^SET {self.key} = "}
            return {**session, "query": self.key}
        if self.number % 2:
            return {**session, "pattern": f"req={self.request_id} "}
        return {**session, "query": self.request_id}

    def _sql(self) -> str:
        assert self.scope is not None
        level, service = self.scope.get("level") or "%", self.scope.get("service") or "%"
        tests = [
            "role IN ('user', 'tool') AND NOT echo" if self.in_loop else "role = 'user'",
            f"text LIKE '____-__-__T__:__:__Z [{level}] {service} req=________ %'",
        ]
        if self.scope.get("begin"):
            tests.append(f"substr(text, 1, 20) >= '{self.scope['begin']}'")
            tests.append(f"substr(text, 1, 20) <= '{self.scope['end']}'")
        return f"SELECT count(*) AS n FROM lines WHERE {' AND '.join(tests)}"

    def _pattern(self) -> str:
        assert self.scope is not None
        level, service = self.scope.get("level", "[A-Z]+"), self.scope.get("service", "[a-z-]+")
        return rf"^\d{{4}}-\d\d-\d\dT\S+ \[{level}\] {service} req=[0-9a-f]{{8}} "

    def found_in(self, answer: str) -> Seen:
        """Return the answer from a tool's result; UNKNOWN when it is not there."""
        if self.scope is not None and not self.needs_sql:
            told = _MATCHING.search(answer)
            return Seen(answer=told.group(1).replace(",", "") if told else UNKNOWN)
        if self.scope is not None:
            last = answer.strip().rpartition("\n")[2].strip()
            return Seen(answer=last if last.isdecimal() else UNKNOWN)
        return self._in_text(answer) or Seen(answer=UNKNOWN)


def _asked(prompt: str) -> Asked | None:
    get = _GET.search(prompt)
    if get:
        return Asked(label=f"key={get.group(1)}", key=get.group(1), number=int(get.group(1)[1:]))
    query = _QUERY.search(prompt)
    if not query:
        return None
    label, number, sentence = f"qid={query.group(1)}", int(query.group(1)), query.group(2)
    request_id = _REQUEST_ID.search(sentence)
    if request_id:
        wants_tag = "#tag" in sentence
        return Asked(
            label=label, request_id=request_id.group(1), wants_tag=wants_tag, number=number
        )
    scope = _SCOPE.search(sentence)
    found = {name: value for name, value in scope.groupdict().items() if value} if scope else {}
    return Asked(label=label, scope=found, number=number)


def _shows_all(texts: list[str]) -> bool:
    """Return whether the log batches that are visible leave no line out."""
    ranges = sorted(
        (int(m.group(1)), int(m.group(2)))
        for text in texts
        if _SHORTENED not in text
        for m in _BATCH.finditer(text)
    )
    wanted = 0
    for first, last in ranges:
        if first != wanted:
            return False
        wanted = last + 1
    return bool(ranges)


def _blocks(message: Mapping[str, Any]) -> list[Block]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _prompt_of(message: Mapping[str, Any]) -> str:
    """Return what was said in a user message: its last text."""
    texts = [block["text"] for block in _blocks(message) if block["type"] == "text"]
    return texts[-1] if texts else ""


def _newest_prompt(spoken: list[Mapping[str, Any]]) -> str:
    """Return the newest operation: what was said, or what the shell gave in a loop."""
    return newest_operation(spoken)[0]


def newest_operation(
    spoken: list[Mapping[str, Any]],
) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the newest operation and the messages behind it; ("", all) when there is none."""
    for number in range(len(spoken) - 1, -1, -1):
        if spoken[number]["role"] == "user":
            for block in _blocks(spoken[number]):
                text = _result_text(block) if block["type"] == "tool_result" else block["text"]
                if _OPERATION in text:
                    return text, spoken[number + 1 :]
    return "", spoken


def _prompts_by_tool(request: Request) -> bool:
    """Return whether operations come as results of the shell, in one long turn."""
    newest = next(m for m in reversed(request["messages"]) if m["role"] == "user")
    return any(block["type"] == "tool_result" for block in _blocks(newest))


def _user_texts(request: Request) -> Iterator[str]:
    """Yield what the person said and what tools gave, the newest first."""
    for message in reversed(request["messages"]):
        if message["role"] == "user":
            for block in _blocks(message):
                if block["type"] == "text":
                    yield block["text"]
                elif block["type"] == "tool_result":
                    yield _result_text(block)


def _texts_of(request: Request) -> Iterator[str]:
    """Yield every text that can tell of a tool: pointers first, then what surrounds the session."""
    yield from _pointers_of(request)
    for message in request["messages"]:
        if message["role"] == "system":
            for block in _blocks(message):
                yield str(block.get("text", ""))


def _pointers_of(request: Request) -> Iterator[str]:
    for text in _user_texts(request):
        at = text.find(_POINTER)
        if at >= 0:
            yield text[at:]


def _is_errand(request: Request) -> bool:
    """Return whether this is a sub-agent's thread, which has no operations."""
    return "cc_is_subagent=true" in request["system"][0]["text"]


def _result_text(result: Block) -> str:
    content = result["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _summary(messages: list[Mapping[str, Any]]) -> str:
    """Return a summary as long as a model's: the newest lines word for word, as far as they fit."""
    texts: list[str] = []
    room = _SUMMARY_CHARACTERS
    for message in reversed(messages[:-1]):
        for block in reversed(_blocks(message)):
            if block["type"] == "text" and message["role"] == "user" and room > 0:
                texts.append(block["text"][-room:])
                room -= len(texts[-1])
    return "The newest of what was said:\n" + "\n".join(reversed(texts))


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _call(request: Request, tool: str, *, command: str, number: int = 0) -> Block:
    return called(request, tool, {"command": command}, number)


def called(request: Request, tool: str, arguments: Mapping[str, object], number: int = 0) -> Block:
    """Return a tool call. Its id follows from the newest message, which no other request ends with;
    the length of the history would not do, because a trimmed one gets shorter."""
    newest = repr([_bare(block) for block in _blocks(request["messages"][-1])]).encode()
    name = f"toolu_{blake2b(newest, digest_size=9).hexdigest()}{number}"
    return {"type": "tool_use", "id": name, "name": tool, "input": dict(arguments)}


def _bare(block: Block) -> Block:
    return {name: value for name, value in block.items() if name != "cache_control"}
