"""Checks of the provider: its containers, its server, what waits for it, and the counts.

Idea: the ledger knows what should be there, so the provider's own word is compared with it.
Source: users' report 37 (consolidation deleted sources and created nothing, and every operation was
"completed"). Trap: what is still waited for is no loss.
"""

from __future__ import annotations

import json
import time

from openmem.base.clock import seconds_of
from openmem.base.config import Config, load_config
from openmem.base.counts import counted
from openmem.base.errors import OpenmemError
from openmem.base.installation import read_key
from openmem.base.paths import Paths
from openmem.memory.ledger import Ledger
from openmem.memory.providers.base import Provider, ProviderStatus
from openmem.memory.providers.plain_http import PlainTransport
from openmem.memory.providers.registry import provider_of
from openmem.memory.providers.server import SERVED, address_of
from openmem.memory.providers.wire import Call, NotConnected
from openmem.plan.system import System
from openmem.setup.doctor.finding import Finding
from openmem.setup.doctor.stack import check_stack
from openmem.stack.pins import pins
from openmem.stack.plan import folder_of
from openmem.stack.render import env_values
from openmem.stack.route import UPSTREAM_DIMENSIONS, is_local

_MOST_BANKS = 20
_VERSION_SECONDS = 5.0
_STUCK_SECONDS = 900.0
_LOOK_AGAIN_SECONDS = 2.0
_DIMENSIONS = {
    "hindsight": "HINDSIGHT_API_EMBEDDINGS_OPENAI_DIMENSIONS",
    "cognee": "EMBEDDING_DIMENSIONS",
}
_VERSION_PATHS = {"hindsight": ("/version", "api_version"), "cognee": ("/health", "version")}


def check_provider(system: System, paths: Paths, *, has_network: bool) -> list[Finding]:
    """Everything about the provider that is active."""
    config = load_config(paths.config_file, paths.environ)
    name = config.text("provider")
    found: list[Finding] = []
    if name in SERVED:
        url = config.text("server.url")
        if not url:
            stack = check_stack(system, paths, name)
            found.append(stack)
            if stack.outcome == "error":
                return found  # a server whose containers are down does not answer either
            found += check_dimensions(system, paths, config, name)
        elif not has_network and not is_local(url):
            words = f"provider {name} at {url} (--no-network)"
            return [Finding(name="provider", outcome="skipped", detail=words)]
        found.append(check_version(paths, config, name))
    provider = provider_of(name, paths)
    try:
        return found + _look(paths, name, provider)
    finally:
        provider.close()


def check_dimensions(system: System, paths: Paths, config: Config, name: str) -> list[Finding]:
    """How many numbers an embedding has: the settings against what the stack was made with."""
    wanted = config.number("embeddings.dimensions")
    made = dimensions_in(system, paths, name)
    if not made or made == wanted:
        detail = f"embeddings have {wanted} numbers"
        return [Finding(name="embeddings", outcome="ok", subject=name, detail=detail)]
    return [
        Finding(
            name="embeddings",
            outcome="error",
            subject=name,
            detail=f"the settings say that embeddings have {wanted} numbers, and its stack was "
            f"made for {made}; what is stored cannot be searched by the others",
            advice=f"openmem config set embeddings.dimensions {made}   or a new provider: "
            "openmem switch",
        )
    ]


def dimensions_in(system: System, paths: Paths, name: str) -> int:
    """Return how many numbers a stack's env file names, 0 when it names none."""
    variable = _DIMENSIONS.get(name)
    data = system.read(f"{folder_of(paths, name)}/{name}.env") if variable else None
    values = env_values(data.decode("utf-8", "replace")) if data else {}
    text = values.get(variable or "", "")
    if not text and data and name == "hindsight":
        return UPSTREAM_DIMENSIONS  # the variable is left out for the usual number
    return int(text) if text.isdigit() else 0


def check_version(paths: Paths, config: Config, name: str) -> Finding:
    """Whether the server's version is one that the adapter was written for."""
    speaks = pins()[name].speaks
    if name not in _VERSION_PATHS:
        words = f"{name} does not tell its version; the adapter was written for {speaks}"
        return Finding(name="provider-version", outcome="info", detail=words)
    path, key = _VERSION_PATHS[name]
    address = address_of(name, paths, config)
    call = Call(
        method="GET", url=address.url + path, seconds=_VERSION_SECONDS, ca_file=address.ca_file
    )
    try:
        told = json.loads(PlainTransport().send(call).body)
        version = str(told.get(key) or "") if isinstance(told, dict) else ""
    except (NotConnected, ValueError):
        version = ""
    if not version:
        detail = f"{name} at {address.url} did not tell its version"
        return Finding(name="provider-version", outcome="warning", detail=detail)
    if version.split(".")[: speaks.count(".") + 1] == speaks.split("."):
        return Finding(name="provider-version", outcome="ok", detail=f"{name} {version}")
    return Finding(
        name="provider-version",
        outcome="warning",
        subject=name,
        detail=f"version {version}; the adapter was written for {speaks}",
        advice="try it: openmem memory search WORDS",
    )


def _look(paths: Paths, name: str, provider: Provider) -> list[Finding]:
    try:
        return _seen(paths, name, provider)
    except OpenmemError as error:
        return [_failed(name, error)]


def _failed(name: str, error: OpenmemError) -> Finding:
    return Finding(
        name="provider",
        outcome="error",
        subject=f"provider {name}",
        detail=error.message.removeprefix(f"provider {name} "),
        advice=error.hint,
    )


def _seen(paths: Paths, name: str, provider: Provider) -> list[Finding]:
    key = read_key(paths)
    if key is None:
        return [_reached(name, provider.status("openmem-doctor"))] if name in SERVED else []
    ledger = Ledger(paths, key, provider=name)
    try:
        banks = ledger.banks()[:_MOST_BANKS] if ledger.exists() else []
        waiting = ledger.outbox(name) if ledger.exists() else []
        if not banks and name not in SERVED:
            return []
        found = _outbox(name, waiting)
        try:
            seen = [(bank, count, provider.status(bank)) for bank, count, _, _ in banks]
        except OpenmemError as error:
            return [*found, _failed(name, error)]
        found.append(_reached(name, seen[0][2] if seen else provider.status("openmem-doctor")))
        unsent: dict[str, int] = {}
        for _, verb, _, bank, _ in waiting:
            if verb == "remember":
                unsent[bank] = unsent.get(bank, 0) + 1
        for bank, count, status in seen:
            found += _queue(name, bank, status, provider)
            found += _bank(name, bank, count - _rejected(ledger, bank), status, unsent.get(bank, 0))
        return found
    finally:
        ledger.close()


def _queue(name: str, bank: str, status: ProviderStatus, provider: Provider) -> list[Finding]:
    """Whether what was handed over is being taken in: by its age, else by looking twice."""
    if not status.waiting:
        return []
    what = f"{counted(status.waiting, 'text')} handed over and not taken in"
    if status.waiting_since:
        age = time.time() - seconds_of(status.waiting_since)
        is_stuck, since = age > _STUCK_SECONDS, f", the oldest for {age / 60:.0f} min"
    else:
        time.sleep(_LOOK_AGAIN_SECONDS)
        is_stuck, since = provider.status(bank).waiting >= status.waiting, ""
        since = f" and no fewer after {_LOOK_AGAIN_SECONDS:g} s" if is_stuck else ""
    is_old = is_stuck and bool(status.waiting_since)
    return [
        Finding(
            name="provider-queue",
            outcome="warning" if is_old else "info",
            subject=bank,
            detail=f"{what}{since}",
            advice="see what it says (openmem logs); does its model answer?" if is_stuck else "",
        )
    ]


def _rejected(ledger: Ledger, bank: str) -> int:
    return sum(n for words, n in ledger.counts(bank).items() if words.endswith(" rejected"))


def _reached(name: str, status: ProviderStatus) -> Finding:
    if status.is_ready:
        detail = f"provider {name} answers" + (f"; {status.detail}" if status.detail else "")
        return Finding(name="provider", outcome="ok", detail=detail)
    return Finding(
        name="provider",
        outcome="error",
        subject=f"provider {name}",
        detail=status.detail or "not ready",
        advice="openmem logs" if name in SERVED else "openmem status",
    )


def _outbox(name: str, waiting: list[tuple[int, str, str, str, int]]) -> list[Finding]:
    """What the provider has still to be told; tried in vain, it is a warning."""
    tried = max((tries for *_, tries in waiting), default=0)
    if not waiting:
        return []
    detail = f"{counted(len(waiting), 'thing')} still to be told to {name}"
    if tried < 2:
        return [Finding(name="provider-outbox", outcome="info", detail=detail)]
    return [
        Finding(
            name="provider-outbox",
            outcome="warning",
            detail=f"{detail}, tried {tried} times",
            advice="it is told with the next memory; nothing is lost",
        )
    ]


def _bank(name: str, bank: str, wanted: int, status: ProviderStatus, unsent: int) -> list[Finding]:
    """Compare counts. What is on the way is not missing."""
    if status.memories < 0:
        words = f"{bank}: {name} cannot say how much it holds; the ledger has {wanted}"
        return [Finding(name="provider-counts", outcome="info", detail=words)]
    there = status.memories + status.waiting + unsent
    if there >= wanted:
        detail = f"{bank}: {status.memories} of {wanted} there"
        if status.waiting or unsent:
            detail += f", {status.waiting + unsent} on the way"
        return [Finding(name="provider-counts", outcome="ok", detail=detail)]
    return [
        Finding(
            name="provider-counts",
            outcome="warning",
            subject=bank,
            detail=f"the ledger holds {wanted}, {name} only {status.memories}",
            advice="tell it again what is missing: openmem memory reindex",
        )
    ]
