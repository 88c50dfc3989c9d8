"""What every agent gives, as values and one protocol; `base.py` holds the list of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from openmem.base.paths import Paths
from openmem.plan.action import Plan
from openmem.plan.system import System

COMMAND = "smart-compact"  # the slash command that asks for a trim


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One of the addresses that an agent with several providers uses.

    `route`: its name in the proxy's path. `upstream`: where it goes now, "" when that is already
    us. `is_stated`: the agent's own settings say so. `default`: where it goes by itself, "" when
    that is not known.
    """

    route: str
    upstream: str
    is_stated: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """An agent that is on this machine.

    `version`: "" when it cannot be told. `binary`: absolute, "" when only its settings are there.
    `config_dir`, `settings_file`, `mcp_file`: where it keeps its settings; may not exist yet.
    `upstream`: where its requests go now, "" when that is already us. `upstream_source`: who says
    so: "settings", "environment" or "default". `defaults`: addresses that the agent goes to by
    itself, first the one for how it is logged in. `addresses`: of an agent with several, which has
    no `upstream` then. `is_routable`: its requests can be sent to us.
    `problems`: what keeps us from wiring it, each
    one sentence; `warnings`: what a person should know before it is wired.
    """

    name: str
    title: str
    version: str = ""
    binary: str = ""
    config_dir: str = ""
    settings_file: str = ""
    mcp_file: str = ""
    upstream: str = ""
    upstream_source: str = "default"
    defaults: tuple[str, ...] = ()
    addresses: tuple[Address, ...] = ()
    is_routable: bool = True
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What should stand in an agent's settings: True there, False not there, None as it is.

    `trust_hooks`: True marks them as trusted where the agent asks for that, after the person saw
    what they run. `skill`: the page that tells the model when to use the tools. `keep_days`: after
    which the agent deletes its own session files. `port`: of the proxy. `upstream`: where the
    agent's requests go once `proxy` is False; "" for the agent's own default; `upstreams`: the same
    by route, for an agent with several. `projects`: folders whose own settings are looked at too,
    for entries of ours that stand there a second time.
    """

    hooks: bool | None = True
    mcp: bool | None = True
    proxy: bool | None = True
    allow_tools: bool | None = None
    trust_hooks: bool | None = None
    skill: bool | None = True
    keep_days: int | None = None
    port: int = 8913
    upstream: str = ""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WideGrant:
    """An entry by which our tools that erase run without being asked.

    `file`: where it stands. `entry`: as a person finds it there. `narrow`: what makes it narrower,
    a command or a sentence.
    """

    file: str
    entry: str
    narrow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """What of ours stands in an agent's files, as a parser finds it there now.

    `hooks`: the agent's names of the events that run our launcher; `untrusted`: those of them that
    the agent passes over until the person trusts them; `hooks_off`: what keeps all from running,
    in words, "" for nothing. `port`: of ours that its base URL names, 0
    when the URL is somebody else's (`base_url`, "" for none). `routes`: of an agent with several
    addresses, those that come to us; `unrouted`: those in use that could and do not. `older`:
    entries of earlier installations, each in words. `wide`: entries that allow more of our tools
    than was ever asked for. `problem`: why the files cannot be read, "" when they can.
    """

    hooks: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    hooks_off: str = ""
    mcp: bool = False
    base_url: str = ""
    port: int = 0
    allow_tools: bool = False
    command: bool = False
    skill: bool = False
    routes: tuple[str, ...] = ()
    unrouted: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    wide: tuple[WideGrant, ...] = ()
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of ours is there."""
        ours = (self.hooks, self.mcp, self.port, self.allow_tools, self.command, self.skill)
        return not any(ours)


class Agent(Protocol):
    """One kind of coding agent. Planning reads, and writes nothing."""

    @property
    def name(self) -> str:
        """As in `--agent` and in the proxy's route: `claude-code`."""
        ...

    @property
    def title(self) -> str:
        """As people call it: Claude Code."""
        ...

    @property
    def events(self) -> tuple[str, ...]:
        """The agent's names of the events that are wired, in order."""
        ...

    def detect(self, system: System, environ: Mapping[str, str]) -> Detected | None:
        """Return what was found, None when the agent is not on this machine. Refuses nothing."""
        ...

    def wiring(self, system: System, paths: Paths, detected: Detected, wanted: Wanted) -> Plan:
        """Return the plan that makes the settings as wanted; empty when they are.

        Unparseable or Refused, naming the place, for a file that must not be edited.
        """
        ...

    def unwiring(
        self,
        system: System,
        paths: Paths,
        detected: Detected,
        *,
        upstream: str = "",
        upstreams: Mapping[str, str] | None = None,
    ) -> Plan:
        """Return the plan that takes out all of ours, whoever wrote it, but for the launchers.

        `upstream`: where the agent's requests went before us, "" for its own default; `upstreams`:
        the same by route.
        """
        ...

    def wired(self, system: System, paths: Paths, detected: Detected) -> Wired:
        """Return what of ours stands in the agent's files now."""
        ...

    def notes(self, detected: Detected, wanted: Wanted) -> tuple[str, ...]:
        """Return what the person should know of this wiring, each one sentence."""
        ...
