"""The proxy as a person reads it."""

from __future__ import annotations

from openmem.base.clock import seconds_of
from openmem.base.counts import counted
from openmem.cli.console import visible
from openmem.cli.render.context import age_text
from openmem.host.lifecycle import ProxyStatus, Stopped

_MODES = {
    "recording": "recording",
    "plain": "passing requests through without recording (a fault of ours)",
    "draining": "passing requests through until the sessions that use it have ended",
    "starting": "starting",
}

_OLDER = "  (an older one; it is replaced when idle)"


def proxy_line(status: ProxyStatus, now_seconds: float) -> str:
    """Return the proxy in half a line: `proxy 127.0.0.1:8913 up 3 d`, and what is wrong with it.

    What a full disk kept out of the sessions' own events is known to the proxy alone.
    """
    place = status.address.removeprefix("http://")
    if status.running:
        told = f"proxy {place} up {_age(status, now_seconds)}"
        if status.mode not in ("", "recording"):
            told += f", {status.mode}"
        unrecorded = status.counters.get("fail_opens_today", 0)
        if status.problems:
            told += ", with a problem (openmem doctor)"
        elif unrecorded:
            told += f", {counted(unrecorded, 'request')} not kept today (openmem doctor)"
        return told + (", an older version" if status.stale else "")
    return "proxy stopped" if status.stopped else "proxy not running"


def proxy_lines(status: ProxyStatus, now_seconds: float) -> list[str]:
    """Return all there is to say."""
    if not status.running:
        why = "stopped by you" if status.stopped else "not running"
        place = f" ({status.address})" if status.address else ""
        return [f"The proxy is {why}{place}.", "", "Start it:  openmem proxy start"]
    lines = [
        f"address     {status.address}",
        f"version     {status.version}"
        + ("  (an older one; it is replaced when idle)" if status.stale else ""),
        f"state       {_MODES.get(status.mode, status.mode)}",
        f"up          {_age(status, now_seconds)}, held by {status.manager or 'nobody'}",
        f"processes   supervisor {status.supervisor_pid}, worker {status.worker_pid}",
    ]
    lines += [
        f"upstream    {agent or '(bare path)'} → {url}" for agent, url in status.upstream.items()
    ]
    lines += [f"problem     {visible(text)}" for text in status.problems]
    counters = {name: number for name, number in status.counters.items() if number}
    if counters:
        lines.append("counted     " + ", ".join(f"{n} {name}" for name, n in counters.items()))
    return lines


def stopped_line(stopped: Stopped) -> str:
    """Return what a stop came to."""
    if stopped.state == "draining":
        who = counted(len(stopped.agents) or stopped.connections, "session")
        return f"It passes requests through until {who} have ended.  At once:  --now"
    if stopped.state == "ended":
        return "The proxy has ended.  Again:  openmem proxy start"
    return "The proxy did not run."


def _age(status: ProxyStatus, now_seconds: float) -> str:
    try:
        text = age_text(max(0.0, now_seconds - seconds_of(status.started_at)))
    except ValueError:
        return "?"  # taken over from a worker whose record is gone
    return "just now" if text == "now" else text
