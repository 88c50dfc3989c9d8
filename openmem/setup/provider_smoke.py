"""Does the provider work? One sentence remembered, waited for, found, forgotten.

Idea: it goes through the same adapter as everything else, into a bank of its own that is dropped
afterwards. Invariant: no bank of a project is touched, and nothing is left there.
Trap: a server that draws facts out by a model takes its time; what is waited for is said.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from openmem.base.clock import now_text
from openmem.base.config import load_config
from openmem.base.errors import OpenmemError
from openmem.base.paths import Paths
from openmem.memory.providers.base import Ask, Item, Provider
from openmem.memory.providers.mem0.provider import Mem0Provider
from openmem.memory.providers.registry import bank_admin_of, provider_of
from openmem.setup.proof import Proof
from openmem.setup.provider import Server
from openmem.stack.compose import Stack
from openmem.stack.engine import connect
from openmem.stack.route import UPSTREAM_DIMENSIONS
from openmem.stack.running import lock, wait_until_well

Tell = Callable[[str], None]
_FOUND_SECONDS = 120.0
_SENTENCE = "The lighthouse keeper of openmem counts {word} every evening."


class ProviderSmokeFailed(OpenmemError):
    """The provider answers and does not do its work; the message names the step."""

    code = "smoke-test-failed"


def prove_provider(paths: Paths, server: Server, tell: Tell, *, is_tried: bool) -> Proof:
    """Wait until the provider is well and, with `is_tried`, try it; read from the settings."""
    name = server.provider
    try:
        if server.is_own:
            settle(paths, server, tell)
        config = load_config(paths.config_file, paths.environ)
        where = server.url or f"127.0.0.1:{config.number('server.port')}"
        provider = provider_of(name, paths)
        try:
            if not is_tried:
                status = provider.status("openmem-smoke")
                return Proof(
                    name=name,
                    outcome="ok" if status.is_ready else "error",
                    detail=f"{where} {status.detail}".strip(),
                )
            took = try_provider(provider, tell)
        finally:
            provider.close()
    except OpenmemError as error:
        advice = error.hint or "openmem doctor"
        return Proof(name=name, outcome="error", detail=error.message, advice=advice)
    detail = f"{where}; one sentence remembered, found, forgotten ({took:.1f} s)"
    return Proof(name=name, outcome="ok", detail=detail)


def settle(paths: Paths, server: Server, tell: Tell) -> None:
    """Wait until the stack is well, write down its images, and tell mem0 its dimensions."""
    engine = connect(paths.environ)
    try:
        wait_until_well(engine, server.provider, tell, port=server.port)
        lock(engine, Stack(paths, server.provider, engine.address))
    finally:
        engine.close()
    if server.provider == "mem0" and server.route.dimensions != UPSTREAM_DIMENSIONS:
        provider = provider_of("mem0", paths)
        assert isinstance(provider, Mem0Provider)
        provider.set_dimensions(server.route.dimensions)
        provider.close()


def try_provider(
    provider: Provider, tell: Tell, *, sleep: Callable[[float], None] = time.sleep
) -> float:
    """Remember, find and forget one sentence; returns the seconds it took. OpenmemError."""
    began = time.monotonic()
    bank, word = f"openmem-smoke-{secrets.token_hex(4)}", f"w{secrets.token_hex(4)}"
    item = Item(
        id=f"m-{secrets.token_hex(8)}",
        text=_SENTENCE.format(word=word),
        kind="statement",
        recorded_at=now_text(),
    )
    admin = bank_admin_of(provider)

    def is_there() -> bool:
        question = f"what does the lighthouse keeper count: {word}"
        hits = provider.recall(bank, Ask(text=question, limit=5))
        return item.id in [hit.id for hit in hits]

    try:
        provider.remember(bank, [item])
        tell(f"waiting until {provider.name} has taken it in")
        _until(is_there, "was remembered and not found", sleep)
        provider.forget(bank, [item.id])
        _until(lambda: not is_there(), "was forgotten and still found", sleep)
    finally:
        admin.drop_bank(bank)
    return time.monotonic() - began


def _until(is_so: Callable[[], bool], what: str, sleep: Callable[[float], None]) -> None:
    ends, pause = time.monotonic() + _FOUND_SECONDS, 0.1
    while not is_so():
        if time.monotonic() >= ends:
            raise ProviderSmokeFailed(f"a sentence {what} within {_FOUND_SECONDS:.0f} s.")
        sleep(pause)
        pause = min(2.0, 1.5 * pause)
