"""The model that a person named for memory: which one, and one question to it within the budget.

Idea: three doors, one question: an OpenAI-compatible API, Anthropic's, or the agent's own command
line. Invariant: without the person's word there is no route, every call is booked before it is made
and settled after, and what another program says is checked before it is used. Trap: what goes to a
model leaves the machine: only masked, framed text is passed in here.
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
from openmem.memory.headless import CLAUDE, OVERHEAD_TOKENS, ask_claude
from openmem.memory.recall import tokens_of
from openmem.memory.spend import Budget

ANSWER_TOKENS = 800
_SECONDS = 60.0
_USUAL = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "ollama": "http://127.0.0.1:11434/v1",
    "litellm": "http://127.0.0.1:4000/v1",
    "lemonade": "http://127.0.0.1:8000/api/v1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A model that may be asked. `api`: openai (and what is compatible), anthropic, or claude-code
    for the agent's own command line; then `url` is where its requests go, past our proxy."""

    api: str
    url: str
    name: str
    key: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)


def route_of(
    config: Config, environ: Mapping[str, str], *, use: str = "memory.reflect"
) -> Route | None:
    """Return the model that the settings name, None when there is none. InvalidConfig.

    `use`: the setting that has to be on.
    """
    if not config.flag(use) or is_aside(environ):
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


def ask_model(route: Route, budget: Budget, task: str, prompt: str) -> tuple[str, int]:
    """Return what a model answers and the tokens that it took. OverBudget, Failed."""
    estimate = tokens_of(prompt) + tokens_of(task) + ANSWER_TOKENS
    estimate += OVERHEAD_TOKENS if route.api == CLAUDE else 0
    budget.book(estimate)
    try:
        text, used = _asked(route, task, prompt)
    except OpenmemError:
        budget.settle(estimate, estimate, failed=True)
        raise
    budget.settle(estimate, used or estimate, failed=False)
    return text, used or estimate


def _asked(route: Route, task: str, prompt: str) -> tuple[str, int]:
    """Return the model's answer and the tokens it reports. Failed."""
    if route.api == CLAUDE:
        return ask_claude(prompt, task, model=route.name, upstream=route.url, environ=route.environ)
    from openmem.memory.providers.plain_http import PlainTransport
    from openmem.memory.providers.wire import BrokenOff, Call, NotConnected, OutOfTime

    path, headers, body = _request(route, task, prompt)
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


def _request(route: Route, task: str, prompt: str) -> tuple[str, dict[str, str], dict[str, Any]]:
    user = {"role": "user", "content": prompt}
    if route.api == "anthropic":
        headers = {"anthropic-version": "2023-06-01"}
        if route.key:
            headers["x-api-key"] = route.key
        path = "/messages" if route.url.endswith("/v1") else "/v1/messages"
        body = {"model": route.name, "max_tokens": ANSWER_TOKENS, "system": task}
        return path, headers, {**body, "messages": [user]}
    headers = {"authorization": f"Bearer {route.key}"} if route.key else {}
    body = {"model": route.name, "max_tokens": ANSWER_TOKENS, "stream": False}
    messages = [{"role": "system", "content": task}, user]
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
