"""What stands after setup, read back: never what we meant to do.

Each proof looks at the thing itself: the policy file as the gate reads it, the proxy over its
socket and through it to the model's API, the agents' files as a parser finds them, one request.
Source: users' report 10 (a summary that claimed three hooks where the file had lost two).
"""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from openmem.agents.base import AGENTS
from openmem.base.counts import counted
from openmem.base.paths import Paths
from openmem.base.policy import KINDS, USES, load_policy
from openmem.base.route import HOST, base_url
from openmem.host import lifecycle
from openmem.plan.system import System
from openmem.setup.facts import Facts
from openmem.setup.resolve import Choice
from openmem.setup.smoke import SmokeFailed, smoke_test

REACH_SECONDS = 10.0
_KIND_WORDS = {
    "git": "git repositories",
    "other": "other folders",
    "unregistered": "sessions of unknown folder",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One thing that was looked at. `advice`: what to do when it is not ok."""

    name: str
    outcome: Literal["ok", "warning", "error"]
    detail: str
    advice: str = ""


def prove_policy(paths: Paths) -> Proof:
    """The policy as the gate reads it."""
    policy = load_policy(paths.policy_file, paths.home)
    if policy.problem:
        return Proof(name="policy", outcome="error", detail=policy.problem)
    parts = []
    for kind in KINDS:
        uses = [use for use in USES if policy.defaults.get(kind, {}).get(use)]
        if uses:
            parts.append(f"{_KIND_WORDS[kind]}: {', '.join(uses)}")
    if policy.rules:
        parts.append(counted(len(policy.rules), "rule"))
    return Proof(name="policy", outcome="ok", detail="; ".join(parts) or "nothing is stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whether the model's API answered through the proxy. `seconds`: for the round trip."""

    is_reached: bool
    seconds: float = 0.0
    why: str = ""


def reach_upstream(port: int, agent: str, timeout_seconds: float = REACH_SECONDS) -> Reach:
    """Ask an agent's upstream for nothing, through the proxy, without any key."""
    path = urlsplit(base_url(port, agent)).path + "/"
    began = time.monotonic()
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_seconds)
    try:
        connection.request("HEAD", path, headers={"host": f"{HOST}:{port}"})
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException) as error:
        return Reach(is_reached=False, why=f"no answer ({type(error).__name__})")
    finally:
        connection.close()
    if response.headers.get("x-openmem-proxy") == "refused":
        return Reach(is_reached=False, why=f"the proxy could not get there ({response.status})")
    return Reach(is_reached=True, seconds=time.monotonic() - began)


def prove_proxy(paths: Paths, choice: Choice) -> Proof:
    """The proxy, and through it the way to the model. An API that does not answer is a warning."""
    status = lifecycle.status(paths)
    place = f"{HOST}:{status.port}"
    if not status.running:
        return Proof(
            name="proxy",
            outcome="error",
            detail="not running",
            advice=f"look into {paths.logs_dir}/proxy.log, then: openmem proxy start",
        )
    there: list[str] = []
    silent: list[str] = []
    for route, upstream in choice.upstreams.items():
        where = urlsplit(upstream).netloc.rpartition("@")[2]
        reach = reach_upstream(status.port, route)
        if reach.is_reached:
            there.append(f"→ {where}, {1000 * reach.seconds:.0f} ms round trip")
        else:
            silent.append(f"{where} did not answer: {reach.why}")
    return Proof(
        name="proxy",
        outcome="warning" if silent else "ok",
        detail="; ".join([f"{place} {'; '.join(there) or 'runs'}", *silent]),
        advice="check the network, then: openmem doctor" if silent else "",
    )


def prove_agent(system: System, paths: Paths, facts: Facts, choice: Choice, name: str) -> Proof:
    """What a parser finds of ours in an agent's files."""
    known = facts.agent(name)
    title = facts.title_of(name)
    if known is None or known.detected is None:
        return Proof(name=title, outcome="warning", detail="not found")
    wired = AGENTS[name].wired(system, paths, known.detected)
    if wired.problem:
        return Proof(name=title, outcome="error", detail=wired.problem)
    has: list[str] = []
    lacks: list[str] = []
    for word, is_wanted, is_there in (
        ("hooks", choice.hooks, len(wired.hooks) == len(AGENTS[name].events)),
        ("MCP", choice.mcp, wired.mcp),
        ("skill", choice.skill, wired.skill),
        ("address", choice.has_proxy and known.detected.is_routable, wired.port == choice.port),
    ):
        if is_wanted:
            (has if is_there else lacks).append(word)
    if lacks:
        return Proof(
            name=title,
            outcome="error",
            detail=f"{', '.join(lacks)} missing on disk",
            advice=f"openmem install-coding-agent --agent {name}",
        )
    detail = f"{', '.join(has)}; read back from disk"
    if choice.hooks and wired.untrusted:
        advice = f"/hooks in {title}, or: openmem install-coding-agent --agent {name} --trust-hooks"
        return Proof(name=title, outcome="warning", detail=f"{detail}; untrusted", advice=advice)
    return Proof(name=title, outcome="ok", detail=detail)


def prove_recording(paths: Paths) -> Proof:
    """One request through a temporary proxy of the same installation."""
    try:
        smoke = smoke_test(paths)
    except SmokeFailed as error:
        return Proof(
            name="smoke test", outcome="error", detail=error.message, advice="openmem doctor"
        )
    return Proof(
        name="smoke test",
        outcome="ok",
        detail=f"one request recorded, found by search, removed ({smoke.seconds:.1f} s)",
    )
