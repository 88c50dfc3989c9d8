"""Everything at a glance: one line a part, one line an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openmem.base.counts import counted, size_text
from openmem.base.policy import Policy
from openmem.cli.console import tilde, visible, wrapped
from openmem.cli.render.context import age_since
from openmem.cli.render.policy import policy_words
from openmem.cli.render.proxy import proxy_line
from openmem.cli.render.table import columns
from openmem.context.store.health import Ailment
from openmem.host.lifecycle import ProxyStatus
from openmem.setup.uninstall import Kept


def at_a_glance(
    *,
    proxy: ProxyStatus,
    policy: Policy,
    provider: str,
    stored: Kept,
    sick: Sequence[Ailment],
    agents: Sequence[Mapping[str, Any]],
    home: str,
    now_seconds: float,
    width: int,
) -> list[str]:
    """Return the screen. `agents`: as in the envelope."""
    size = f"{counted(stored.sessions, 'session')}, {size_text(stored.bytes)} on disk"
    lines = columns(
        [
            ["proxy", proxy_line(proxy, now_seconds).removeprefix("proxy ")],
            ["policy", policy_words(policy)],
            ["provider", provider],
            ["store", size],
        ],
        gap=3,
    )
    rows = [["AGENT", "HOOKS", "MCP", "PROXY", "SKILL", "LAST DELIVERED"]]
    problems = []
    for one in sick:
        problems += wrapped(visible(tilde(f"store: {one.detail}", home)), width)
    for agent in agents:
        if not agent["is_found"]:
            rows.append([agent["name"], "–", "–", "–", "–", "not found"])
            continue
        rows.append(
            [
                visible(f"{agent['name']} {agent['version']}".rstrip()),
                _hooks(agent),
                "off" if agent["mcp_off"] else _yes(agent["mcp"]),
                _proxy(agent),
                _yes(agent["skill"]),
                _delivered(agent, now_seconds),
            ]
        )
        if agent["problem"]:
            problems += wrapped(visible(tilde(agent["problem"], home)), width)
    sent = [agent["name"] for agent in agents if agent.get("proxy")]
    if sent and not proxy.running:
        words = f"proxy: not running, though sent to it: {', '.join(sent)}; openmem proxy start"
        problems += wrapped(words, width)
    off = [agent[key] for agent in agents for key in ("hooks_off", "mcp_off") if agent.get(key)]
    for words in dict.fromkeys(off):
        problems += wrapped(visible(tilde(f"off: {words}", home)), width)
    lines += ["", *columns(rows)]
    if problems:
        lines += ["", *problems]
    return [*lines, "", "Sessions:  openmem context status      Checks:  openmem doctor"]


def _hooks(agent: Mapping[str, Any]) -> str:
    if agent["hooks_off"]:
        return "off"
    if agent["hooks"] and agent["untrusted_hooks"]:
        return "untrusted"
    return "yes" if agent["hooks"] else "no"


def _yes(is_there: bool) -> str:
    return "yes" if is_there else "no"


def _proxy(agent: Mapping[str, Any]) -> str:
    """Return whether its requests come to us: some of them, where only some of its addresses do;
    a dash, where the agent takes no other address."""
    if not agent["proxy"]:
        return "no" if agent["is_routable"] else "–"
    return "some" if agent["unrouted"] else "yes"


def _delivered(agent: Mapping[str, Any], now_seconds: float) -> str:
    if not agent["last_at"]:
        return "nothing yet"
    age = age_since(agent["last_at"], now_seconds)
    return f"{agent['last_event']}, {age if age == 'now' else age + ' ago'}"
