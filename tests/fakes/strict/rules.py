"""The strict service: betas, legality, signed thinking and the cache, judged in that order.

Plugs into `FakeAnthropic(rules=…)`. Not verified against the live API.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from openmem.bench.context.clearing import EDIT as CLEAR_TOOL_USES
from openmem.bench.context.clearing import Applied, applied, as_seen
from tests.fakes.anthropic_server import Accepted
from tests.fakes.faults import (
    BINDING_BETA,
    Refusal,
    bound_elsewhere,
    broken_signature,
    invalid,
    refused_beta,
)
from tests.fakes.strict.cache import PromptCache
from tests.fakes.strict.canonical import THINKING, Unit, digest, system_blocks, without_markers
from tests.fakes.strict.legality import first_fault
from tests.fakes.strict.models import can_read, checks_prefix, knows_binding
from tests.fakes.strict.signing import Finding, Signer
from tests.fakes.wire import Request

CONTEXT_BETA = "context-management-2025-06-27"


def _tokens(block: Any) -> int:
    """Tokens as the cache's simulation counts them."""
    return len(json.dumps(without_markers(block), separators=(",", ":"))) // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The switches of one account and route.

    `age`: "new" enforces the prefix on every checking model · `model_checks`: whether unreadable
    thinking of another model is dropped · `nudge_exempt`: whether text behind a system message's
    marker is outside the check (not known of the real service) · `refused_betas`: of a cloud route
    · `mismatch_header`: the response header beside the 400 · `drop_reach`: what `drop_block` leaves
    out with a failing block · `clears_tool_uses`: False on a route that does not know the edit.
    """

    age: Literal["new", "old"] = "new"
    model_checks: bool = True
    nudge_exempt: bool = False
    refused_betas: frozenset[str] = frozenset()
    mismatch_header: bool = True
    drop_reach: Literal["all-later", "turn"] = "all-later"
    clears_tool_uses: bool = True


@dataclass(frozen=True, slots=True)
class _Note:
    units: list[Unit]
    before: str


class StrictRules:
    """Judges requests of all runs of a server; `refusals` lists what it refused, by run."""

    def __init__(
        self, account: Account | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.account = account or Account()
        self.refusals: list[tuple[str, Refusal]] = []
        self._signer = Signer(nudge_exempt=self.account.nudge_exempt)
        self._caches: dict[str, PromptCache] = {}
        self._clock = clock
        self._lock = threading.Lock()

    def judge(self, request: Request, body: dict[str, Any], *, run: str) -> Refusal | Accepted:
        """Return the refusal that the service would give, or what it found on the way."""
        with self._lock:
            verdict = self._judge(request, body, run)
            if isinstance(verdict, Refusal):
                self.refusals.append((run, verdict))
            return verdict

    def _judge(self, request: Request, body: dict[str, Any], run: str) -> Refusal | Accepted:
        betas = [b.strip() for b in request.header("anthropic-beta").split(",") if b.strip()]
        for beta in betas:
            if beta in self.account.refused_betas:
                return refused_beta(beta)
        controls = BINDING_BETA in betas
        thinking = body.get("thinking") or {}
        behaviour = (thinking.get("block_binding") or {}).get("prefix_mismatch_behavior", "")
        if "block_binding" in thinking:
            if not controls or thinking.get("type") not in ("adaptive", "enabled"):
                return invalid("thinking.block_binding: Extra inputs are not permitted")
            if behaviour not in ("error", "drop_block"):
                return invalid(
                    "thinking.block_binding.prefix_mismatch_behavior: "
                    "Input should be 'error' or 'drop_block'"
                )
        fault = first_fault(body) or self._edit_fault(body, betas)
        if fault is not None:
            return fault
        model = str(body.get("model"))
        findings = self._signer.examine(body, readable=lambda author: self._reads(model, author))
        outcome = self._outcome(findings, model, behaviour, names_header=not controls)
        if isinstance(outcome, Refusal):
            return outcome
        dropped, reports = outcome
        kept = [f for f in findings if f.place not in dropped and f.seal is not None]
        usage = None
        cleared = self._cleared(body)
        if not request.path.endswith("/count_tokens"):
            cache = self._caches.setdefault(run, PromptCache(self._clock))
            usage = cache.account(dict(as_seen(body, cleared)), dropped=dropped)
        before = kept[-1].seal.id if kept and kept[-1].seal else ""
        return Accepted(
            transformations=reports if controls else None,
            usage=usage,
            context_management=cleared.report() if "context_management" in body else None,
            note=_Note(self._signer.units(body), before),
        )

    def _edit_fault(self, body: dict[str, Any], betas: list[str]) -> Refusal | None:
        """Context editing needs its beta, and a kind of edit stands at most once."""
        if "context_management" not in body:
            return None
        if CONTEXT_BETA not in betas:
            return invalid("context_management: Extra inputs are not permitted")
        kinds = [edit.get("type") for edit in body["context_management"].get("edits") or []]
        if len(set(kinds)) != len(kinds):
            return invalid("context_management.edits: each type may be given once")
        if CLEAR_TOOL_USES in kinds and not self.account.clears_tool_uses:
            return invalid(
                f"context_management.edits.{kinds.index(CLEAR_TOOL_USES)}: Input tag "
                f"'{CLEAR_TOOL_USES}' does not match any of the expected tags"
            )
        return None

    def _cleared(self, body: dict[str, Any]) -> Applied:
        head = [*(body.get("tools") or []), *system_blocks(body)]
        return applied(
            body,
            head_tokens=sum(map(_tokens, head)),
            measure=_tokens,
            reading="batches",
        )

    def _reads(self, model: str, author: str) -> bool:
        return not self.account.model_checks or can_read(model, author)

    def _outcome(
        self, findings: list[Finding], model: str, behaviour: str, *, names_header: bool
    ) -> Refusal | tuple[frozenset[str], list[dict[str, Any]]]:
        """Return a refusal, or the places dropped and what is reported of them."""
        enforced = checks_prefix(model, self.account.age) or (
            bool(behaviour) and knows_binding(model)
        )
        dropped: set[str] = set()
        reports: list[dict[str, Any]] = []
        failed_in = ""  # the message in which drop_block began

        def report(kind: str, finding: Finding, reason: str) -> None:
            reports.append({"type": kind, "path": finding.place, "reason": reason})

        for finding in findings:
            message = finding.place.rsplit(".content.", 1)[0]
            if finding.state == "broken":
                return broken_signature(finding.place)
            if finding.state == "model":
                dropped.add(finding.place)
                report("thinking_dropped", finding, "model_binding_mismatch")
            elif failed_in and self._reaches(failed_in, message):
                dropped.add(finding.place)
                report("thinking_dropped", finding, "prefix_binding_mismatch")
            elif finding.state == "prefix" and enforced and behaviour == "drop_block":
                failed_in = message
                dropped.add(finding.place)
                report("thinking_dropped", finding, "prefix_binding_mismatch")
            elif finding.state == "prefix" and enforced:
                return bound_elsewhere(
                    finding.place,
                    names_header=names_header,
                    first=finding.first,
                    with_header=self.account.mismatch_header,
                )
            elif finding.state == "prefix" and knows_binding(model):
                report("thinking_mismatch_allowed", finding, "prefix_binding_mismatch")
        return frozenset(dropped), reports

    def _reaches(self, failed_in: str, message: str) -> bool:
        return self.account.drop_reach == "all-later" or failed_in == message

    def finish(
        self, body: dict[str, Any], accepted: Accepted, content: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the answer's blocks, signed; with a thinking budget it begins with thinking."""
        note = accepted.note
        assert isinstance(note, _Note)
        thinking = body.get("thinking") or {}
        if thinking.get("type") == "enabled" and (
            not content or content[0]["type"] not in THINKING
        ):
            opening = {"type": "thinking", "thinking": "", "signature": ""}
            content = [opening, *content]
        units, before = list(note.units), note.before
        finished: list[dict[str, Any]] = []
        opened = False
        with self._lock:
            for block in content:
                if block["type"] in THINKING:
                    seal = self._signer.seal(str(body.get("model")), units, before)
                    known = self._signer.read(seal)
                    assert known is not None
                    before = known.id
                    field = "signature" if block["type"] == "thinking" else "data"
                    finished.append({**block, field: seal})
                    continue
                if not opened:
                    opened = True
                    units.append(Unit("", digest({"role": "assistant"})))
                units.append(Unit("", digest(without_markers(block))))
                finished.append(block)
        return finished
