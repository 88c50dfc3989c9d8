"""An answer from what is remembered: in a model's words where the person configured one.

Idea: the memories that fit the question are the answer; a model may put them together. Invariant:
without a route, without budget or after a failure the memories themselves are given, and it is
said so. Trap: what goes to the model leaves the machine, so only what recall may show goes, framed,
and never a text that is not masked.
Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openmem.base.aside import is_aside
from openmem.base.config import Config
from openmem.base.errors import Failed, InvalidConfig, OpenmemError
from openmem.base.frame import framed, without_own_text
from openmem.memory.headless import CLAUDE, OVERHEAD_TOKENS, ask_claude
from openmem.memory.looking import Found, Looker
from openmem.memory.recall import line_of, mark_of, tokens_of
from openmem.memory.scope import Scope
from openmem.memory.spend import Budget

MEMORIES = 20
ANSWER_TOKENS = 800
_SECONDS = 60.0
_USUAL = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434/v1",
    "litellm": "http://127.0.0.1:4000/v1",
    "lemonade": "http://127.0.0.1:8000/api/v1",
}
_TASK = (
    "Answer the question from the remembered statements alone. Say what they say, name the ids in "
    "brackets, say so where they contradict each other, and say so if they do not answer it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """`text`: a model's answer, "" without one; `why`: why there is none; `found`: the memories."""

    found: tuple[Found, ...]
    text: str = ""
    why: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A model that may be asked. `api`: openai (and what is compatible), anthropic, or claude-code
    for the agent's own command line; then `url` is where its requests go, past our proxy."""

    api: str
    url: str
    name: str
    key: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)


def route_of(config: Config, environ: Mapping[str, str]) -> Route | None:
    """Return the model that the settings name, None when there is none. InvalidConfig."""
    if not config.flag("memory.reflect") or is_aside(environ):
        return None
    if config.text("memory.reflect_with") == CLAUDE:
        upstream = config.routes.get(CLAUDE, "")
        return Route(api=CLAUDE, url=upstream, name=config.text("model.name"), environ=environ)
    if not config.text("model.name"):
        return None
    api = config.text("model.api")
    return Route(
        api="anthropic" if api == "anthropic" else "openai",
        url=(config.text("model.url") or _USUAL[api]).rstrip("/"),
        name=config.text("model.name"),
        key=_key_of(config.text("model.key"), environ),
    )


def reflect(
    memories: Looker,
    scope: Scope,
    question: str,
    *,
    bank: str = "",
    route: Route | None = None,
    budget: Budget | None = None,
) -> Reflection:
    """Return an answer to a question. PolicyDenied; a model that fails is no error."""
    found = tuple(memories.search(scope, question, bank=bank, limit=MEMORIES))
    if not found:
        return Reflection(found=(), why="nothing that fits is remembered")
    if route is None or budget is None:
        return Reflection(found=found, why="no model route is configured")
    lines = [line_of(one.memory, mark_of(one.memory)) for one in found]
    prompt = f"{framed(lines)}\n\nQuestion: {without_own_text(question).strip()}"
    estimate = tokens_of(prompt) + tokens_of(_TASK) + ANSWER_TOKENS
    estimate += OVERHEAD_TOKENS if route.api == CLAUDE else 0
    try:
        budget.book(estimate)
    except OpenmemError as error:
        return Reflection(found=found, why=error.message.rstrip("."))
    try:
        text, used = _asked(route, prompt)
    except OpenmemError as error:
        budget.settle(estimate, estimate, failed=True)
        return Reflection(found=found, why=error.message.rstrip("."))
    budget.settle(estimate, used or estimate, failed=False)
    return Reflection(found=found, text=without_own_text(text).strip(), tokens=used or estimate)


def _asked(route: Route, prompt: str) -> tuple[str, int]:
    """Return the model's answer and the tokens it reports. Failed."""
    if route.api == CLAUDE:
        return ask_claude(
            prompt, _TASK, model=route.name, upstream=route.url, environ=route.environ
        )
    from openmem.memory.providers.plain_http import PlainTransport
    from openmem.memory.providers.wire import BrokenOff, Call, NotConnected, OutOfTime

    path, headers, body = _request(route, prompt)
    call = Call(
        method="POST",
        url=f"{route.url}{path}",
        headers={"content-type": "application/json", **headers},
        body=json.dumps(body).encode(),
        seconds=_SECONDS,
    )
    try:
        reply = PlainTransport().send(call)
    except (NotConnected, BrokenOff, OutOfTime) as error:
        raise Failed(f"the model does not answer ({error or 'out of time'}).") from None
    if reply.status != 200:
        raise Failed(f"the model answered with status {reply.status}.")
    try:
        return _answer(route, json.loads(reply.body))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Failed("the model's answer is not one.") from None


def _request(route: Route, prompt: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    user = {"role": "user", "content": prompt}
    if route.api == "anthropic":
        headers = {"anthropic-version": "2023-06-01"}
        if route.key:
            headers["x-api-key"] = route.key
        path = "/messages" if route.url.endswith("/v1") else "/v1/messages"
        body = {"model": route.name, "max_tokens": ANSWER_TOKENS, "system": _TASK}
        return path, headers, {**body, "messages": [user]}
    headers = {"authorization": f"Bearer {route.key}"} if route.key else {}
    body = {"model": route.name, "max_tokens": ANSWER_TOKENS, "stream": False}
    messages = [{"role": "system", "content": _TASK}, user]
    return "/chat/completions", headers, {**body, "messages": messages}


def _answer(route: Route, value: Any) -> tuple[str, int]:
    usage = value.get("usage") or {}
    if route.api == "anthropic":
        text = "".join(block["text"] for block in value["content"] if block["type"] == "text")
        used = int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
    else:
        text = value["choices"][0]["message"]["content"]
        used = int(usage.get("total_tokens", 0))
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no text")
    return text, used


def _key_of(reference: str, environ: Mapping[str, str]) -> str:
    """Return the key that a reference names (`env:NAME`, `file:PATH`). InvalidConfig."""
    if not reference:
        return ""
    kind, _, place = reference.partition(":")
    if kind == "env":
        key = environ.get(place, "")
        if not key:
            raise InvalidConfig(f"model.key names {place}, which is not in the environment.")
        return key
    if kind == "file":
        from openmem.memory.providers.server import read_secret

        return read_secret(os.path.expanduser(place))
    raise InvalidConfig("model.key is neither env:NAME nor file:PATH.")
